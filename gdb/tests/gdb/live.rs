//! A recording that is being made, under gdb.

use gdb::Ended;
use machine::History;
use machine::icount::End;

use crate::support::{
    Folder, Server, counting, engine, gdb, gdb_is_there, icounts, interrupted_after, marked,
};

#[test]
fn a_live_run_goes_back_and_on_and_replays() {
    if !gdb_is_there("a_live_run_goes_back_and_on_and_replays") {
        return;
    }
    let folder = Folder::new(firmware::demo());
    let server = Server::start(folder.begin(1), "0");
    let text = gdb(
        &folder,
        &server,
        "break *check_list\ncontinue\nmonitor when\ncontinue\nmonitor when\nreverse-continue\nmonitor when\nreverse-stepi\n\
         reverse-continue\nmonitor when\ncontinue\ncontinue\nmonitor when\ncontinue\nmonitor when\n\
         printf \"T %ld\\n\", *(long *)&ticks\nset var *(long *)&ticks = 1000\nprintf \"T %ld\\n\", *(long *)&ticks\nmonitor when\n\
         stepi\nmonitor when\nmonitor events\nreverse-stepi\ndelete\ndetach\n",
    );
    let at = icounts(&text);
    assert!(
        at[0] < at[1] && at[2] == at[0] && at[3] == 0 && at[4] == at[1] && at[5] > at[4],
        "{at:?}"
    );
    assert_eq!(at[6..8], [at[5], at[5] + 1]);
    assert_eq!(marked(&text, "T ")[1], "1000");
    assert!(text.contains("at the live end") && !text.contains("branched"));
    assert!(text.contains("debugger"), "the write is an event");
    // It runs on by itself, to the guest's end.
    let (ended, history) = server.wait();
    assert_eq!(ended, Ended::Guest);
    let end = history.machine().ended().unwrap();
    assert!(matches!(end, End::PowerOff(_)));
    assert!(history.machine().icount().0 > at[7]);
    history.finish(end).unwrap();
}

#[test]
fn what_a_debugger_did_to_a_live_run_replays() {
    if !gdb_is_there("what_a_debugger_did_to_a_live_run_replays") {
        return;
    }
    let folder = Folder::new(firmware::smp_demo(2));
    let server = Server::start(folder.begin(2), "0");
    let text = gdb(
        &folder,
        &server,
        "break *unlock\ncontinue\ncontinue\nset var *(long *)&counter_amo = 5\nset var $t3 = 7\nstepi\nstepi\nreverse-stepi\n\
         continue\nreverse-continue\ncontinue\ncontinue\nprintf \"A %ld\\n\", *(long *)&counter_amo\nmonitor events 0\ndelete\ndetach\n",
    );
    assert!(marked(&text, "A ")[0].parse::<u64>().unwrap() >= 5);
    let (ended, history) = server.wait();
    assert_eq!(ended, Ended::Guest);
    let end = history.machine().ended().unwrap();
    let finished = history.finish(end).unwrap();
    let mut history = History::open(&folder.path("r.tick"), engine()).unwrap();
    let verified = history.verify(|_| {}).unwrap();
    assert_eq!((verified.end, verified.steps), (Some(end), finished.at));
}

#[test]
fn ctrl_c_stops_a_live_run() {
    if !gdb_is_there("ctrl_c_stops_a_live_run") {
        return;
    }
    let folder = Folder::new(counting());
    let server = Server::start(folder.begin(1), "0");
    let text = interrupted_after(
        &folder,
        &server,
        "echo FIRST\\n\ncontinue\nmonitor when\nreverse-stepi\nreverse-continue\nmonitor when\necho SECOND\\n\ncontinue\nmonitor when\nkill\n",
        &["FIRST", "SECOND"],
    );
    let at = icounts(&text);
    assert!(at[0] > 0 && at[1] == 0 && at[2] > 0, "{at:?}");
    assert_eq!(text.matches("received signal SIGINT").count(), 2);
    let (ended, history) = server.wait();
    assert_eq!(ended, Ended::Killed);
    let finished = history.finish(End::Stopped).unwrap();
    let mut history = History::open(&folder.path("r.tick"), engine()).unwrap();
    assert_eq!(history.verify(|_| {}).unwrap().steps, finished.at);
}

#[test]
fn the_owner_ends_it() {
    let folder = Folder::new(counting());
    let server = Server::start(folder.begin(1), "0");
    assert_eq!(server.finish().0, Ended::Asked);
}
