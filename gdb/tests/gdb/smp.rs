//! Four harts as four threads.

use crate::support::{Folder, Server, gdb, gdb_is_there, icounts, marked};

fn smp() -> (Folder, Server) {
    let folder = Folder::new(firmware::smp_demo(4));
    let (history, _) = folder.record(4);
    let server = Server::start(history, "0");
    (folder, server)
}

#[test]
fn harts_are_threads() {
    if !gdb_is_there("harts_are_threads") {
        return;
    }
    let (folder, server) = smp();
    let text = gdb(
        &folder,
        &server,
        "info threads\nbreak *lock\ncontinue\ncontinue\nthread 3\nprintf \"H %ld\\n\", $mhartid\n\
         thread apply all printf \"ALL %ld\\n\", $mhartid\nthread 1\nbreak *ring\ndelete 1\ncontinue\ninfo threads\n",
    );
    for hart in 0..4 {
        assert!(text.contains(&format!("(hart {hart}")), "hart {hart}");
    }
    assert_eq!(marked(&text, "H "), ["2"]);
    let mut all = marked(&text, "ALL ");
    all.sort_unstable();
    assert_eq!(all, ["0", "1", "2", "3"]);
}

#[test]
fn each_hart_is_stepped_both_ways() {
    if !gdb_is_there("each_hart_is_stepped_both_ways") {
        return;
    }
    let (folder, server) = smp();
    let mut script = String::from("set scheduler-locking step\ntb-goto 123456\n");
    for thread in 1..=4 {
        script += &format!(
            "thread {thread}\nmonitor when\nprintf \"T{thread} %#lx %#lx\\n\", $pc, $sp\nstepi\nstepi\nstepi\nprintf \"S %ld\\n\", $mhartid\n\
             reverse-stepi\nreverse-stepi\nreverse-stepi\nprintf \"T{thread} %#lx %#lx\\n\", $pc, $sp\nprintf \"S %ld\\n\", $mhartid\n"
        );
    }
    let text = gdb(&folder, &server, &script);
    for thread in 1..=4 {
        let places = marked(&text, &format!("T{thread} "));
        assert_eq!(places[0], places[1], "thread {thread}");
    }
    assert_eq!(marked(&text, "S "), ["0", "0", "1", "1", "2", "2", "3", "3"]);
    assert!(!text.contains("SIG"), "{text}");
}

#[test]
fn the_hart_that_stopped_is_the_one_that_goes_on() {
    if !gdb_is_there("the_hart_that_stopped_is_the_one_that_goes_on") {
        return;
    }
    let (folder, server) = smp();
    // Every other thing that gdb's user leaves as it is.
    let text = gdb(
        &folder,
        &server,
        "break *unlock if $mhartid == 2\ncontinue\nprintf \"H %ld\\n\", $mhartid\nmonitor when\nstepi\nprintf \"H %ld\\n\", $mhartid\n\
         stepi\nreverse-stepi\nprintf \"H %ld\\n\", $mhartid\nreverse-stepi\nprintf \"H %ld\\n\", $mhartid\nmonitor when\n\
         delete\nwatch *(long *)&counter_locked\ncontinue\nprintf \"PC %#lx\\n\", $pc\ncontinue\nreverse-continue\nreverse-continue\n\
         printf \"PC %#lx\\n\", $pc\nmonitor last-write 0x80000000 8\n",
    );
    assert_eq!(marked(&text, "H "), ["2", "2", "2", "2"]);
    let at = icounts(&text);
    assert_eq!(at[0], at[1]);
    let (old, new) = (marked(&text, "Old value = "), marked(&text, "New value = "));
    assert_eq!((old[0], new[0]), (new[3], old[3]));
    assert_eq!((old[1], new[1]), (new[2], old[2]));
    assert!(text.contains("nothing has written there"));
}
