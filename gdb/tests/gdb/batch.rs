//! One hart: the demo guest, forward and backward.

use crate::support::{Folder, Server, gdb, gdb_is_there, marked};

#[test]
fn a_step_back_undoes_a_step() {
    if !gdb_is_there("a_step_back_undoes_a_step") {
        return;
    }
    let folder = Folder::new(firmware::demo());
    let (history, _) = folder.record(1);
    let server = Server::start(history, "0");
    let text = gdb(
        &folder,
        &server,
        "monitor when\nstepi\nprintf \"PC %#lx\\n\", $pc\nstepi\nprintf \"PC %#lx\\n\", $pc\nmonitor when\n\
         reverse-stepi\nprintf \"PC %#lx\\n\", $pc\nmonitor when\nreverse-stepi\nreverse-stepi\n\
         tb-goto 1000\nprintf \"PC %#lx\\n\", $pc\nstepi\nreverse-stepi\nprintf \"PC %#lx\\n\", $pc\n\
         tb-goto end\nstepi\ncontinue\nreverse-stepi\nmonitor when\nkill",
    );
    let pcs = marked(&text, "PC ");
    assert_eq!(pcs[0], pcs[2]);
    assert_eq!(pcs[3], pcs[4]);
    assert_ne!(pcs[0], pcs[1]);
    assert!(text.contains("No more reverse-execution history"));
}
