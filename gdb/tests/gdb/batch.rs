//! One hart: the demo guest, forward and backward.

use gdb::Ended;
use machine::icount::Icount;

use crate::support::{Folder, Server, counting, gdb, gdb_is_there, icounts, interrupted_after, marked};

/// A recording of the demo, and a server over it.
fn demo() -> (Folder, Server, u64) {
    let folder = Folder::new(firmware::demo());
    let (history, end) = folder.record(1);
    let server = Server::start(history, "0");
    (folder, server, end.0)
}

#[test]
fn a_step_back_undoes_a_step() {
    if !gdb_is_there("a_step_back_undoes_a_step") {
        return;
    }
    let (folder, server, end) = demo();
    let text = gdb(
        &folder,
        &server,
        "monitor when\nstepi\nprintf \"PC %#lx\\n\", $pc\nstepi\nprintf \"PC %#lx\\n\", $pc\nmonitor when\n\
         reverse-stepi\nprintf \"PC %#lx\\n\", $pc\nmonitor when\nreverse-stepi\necho BEGIN\\n\nreverse-stepi\n\
         tb-goto 1000\nprintf \"PC %#lx\\n\", $pc\nstepi\nreverse-stepi\nprintf \"PC %#lx\\n\", $pc\n\
         tb-goto 2e3\nstepi 100\nmonitor when\nreverse-stepi 100\nmonitor when\n\
         tb-goto end\necho END\\n\nstepi\ncontinue\nreverse-stepi\nmonitor when\ntb-goto 50%\ntb-back 0x10\nreverse-continue\nkill",
    );
    let pcs = marked(&text, "PC ");
    assert_eq!(pcs[..3], ["0x80000004", "0x80000008", "0x80000004"]);
    assert_eq!(pcs[3], pcs[4]);
    let half = end / 2;
    assert_eq!(
        icounts(&text),
        [0, 2, 1, 1000, 2000, 2100, 2000, end, end - 1, half, half - 16]
    );
    let message = "No more reverse-execution history";
    let (before, after) = text.split_once("BEGIN").unwrap();
    let (between, after) = after.split_once("END").unwrap();
    assert_eq!(
        [before, between, after].map(|t| t.matches(message).count()),
        [0, 1, 3]
    );
    assert_eq!(server.wait().0, Ended::Killed);
}

#[test]
fn breakpoints_both_ways() {
    if !gdb_is_there("breakpoints_both_ways") {
        return;
    }
    let (folder, server, end) = demo();
    let text = gdb(
        &folder,
        &server,
        "break *list_remove\ncontinue\nmonitor when\ncontinue\nmonitor when\nreverse-continue\nmonitor when\n\
         hbreak *check_list\ncontinue\ncontinue\ndelete 1\ncontinue\nprintf \"PC %#lx\\n\", $pc\nmonitor when\n\
         reverse-continue\ncompare-sections .text\nmonitor goto 1\nmaintenance flush register-cache\nreverse-continue\n",
    );
    let at = icounts(&text);
    assert!(
        at[0] < at[1] && at[0] == at[2] && at[1] < at[3] && at[3] < end,
        "{at:?}"
    );
    assert_eq!(text.matches("Breakpoint 1, ").count(), 5, "list_remove");
    assert_eq!(
        marked(&text, "PC "),
        [format!("{:#x}", folder.symbol("check_list"))]
    );
    assert!(text.contains("matched."));
    assert!(text.contains("No more reverse-execution history"));
}

#[test]
fn watchpoints_both_ways() {
    if !gdb_is_there("watchpoints_both_ways") {
        return;
    }
    let (folder, server, _) = demo();
    let text = gdb(
        &folder,
        &server,
        "watch *(long *)&ticks\ncontinue\ncontinue\nprintf \"PC %#lx\\n\", $pc\nmonitor when\nx/i $pc-4\n\
         reverse-continue\nprintf \"PC %#lx\\n\", $pc\nmonitor when\nreverse-continue\nprintf \"PC %#lx\\n\", $pc\n\
         continue\nprintf \"PC %#lx\\n\", $pc\nreverse-stepi\nprintf \"PC %#lx\\n\", $pc\ndelete\necho READ\\n\n\
         rwatch *(long *)&current_task\ncontinue\nprintf \"R %#lx\\n\", $pc\nreverse-continue\nprintf \"R %#lx\\n\", $pc\n\
         delete\nawatch *(long *)&current_task\ncontinue\ncontinue\nprintf \"A %#lx\\n\", $pc\n\
         reverse-continue\nreverse-continue\nprintf \"A %#lx\\n\", $pc\n",
    );
    let (text, reads) = text.split_once("READ").unwrap();
    let old: Vec<_> = marked(text, "Old value = ");
    let new: Vec<_> = marked(text, "New value = ");
    assert_eq!(old, ["0", "1", "2", "1", "0", "1"]);
    assert_eq!(new, ["1", "2", "1", "0", "1", "0"]);
    let pcs: Vec<u64> = marked(text, "PC 0x")
        .iter()
        .map(|pc| u64::from_str_radix(pc, 16).unwrap())
        .collect();
    // Forward gdb stands behind the store, backward before it.
    assert!(text.contains("sd\tt1,0(t0)"));
    let store = pcs[0] - 4;
    assert_eq!(pcs, [store + 4, store, store, store + 4, store]);
    let at = icounts(text);
    assert_eq!(at[0], at[1] + 1);

    let r = marked(reads, "R ");
    let a = marked(reads, "A ");
    assert_eq!(reads.matches("\nValue = ").count(), 4, "{reads}");
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    assert_eq!(number(r[0]), number(r[1]) + 4);
    // ld, xori, sd: the read and then the write; and back.
    assert_eq!(number(a[0]), number(r[0]) + 8);
    assert_eq!(number(a[1]), number(r[1]));
    assert!(
        reads.contains("Old value = 0\nNew value = 1") && reads.contains("Old value = 1\nNew value = 0"),
        "{reads}"
    );
}

#[test]
fn the_demo_s_culprit_is_found_from_its_end() {
    if !gdb_is_there("the_demo_s_culprit_is_found_from_its_end") {
        return;
    }
    let (folder, server, _) = demo();
    let text = gdb(
        &folder,
        &server,
        "tb-goto end\nset $bad = *(long **)&demo_bad_address\ntb-last-write *$bad\nmonitor when\nwatch -location *$bad\n\
         reverse-continue\nmonitor when\ninfo symbol $pc\nprintf \"PC %#lx\\n\", $pc\nmonitor events\nmonitor snapshots\n",
    );
    let culprit = folder.symbol("list_remove") + firmware::DEMO_CULPRIT;
    assert_eq!(marked(&text, "PC "), [format!("{culprit:#x}")]);
    let at = icounts(&text);
    // last-write doesn't move, and names the same place.
    assert_eq!(at[0], at[1]);
    let found = marked(&text, "last written by hart 0, icount ")[0]
        .split(',')
        .next()
        .unwrap()
        .replace('_', "");
    assert_eq!(found.parse::<u64>().unwrap(), at[2]);
    assert!(text.contains(&format!("pc {culprit:#x}: sd")));
    let value = |word: &str| marked(&text, word)[0].to_owned();
    let hex = |text: String| {
        i64::from_str_radix(text.trim_start_matches("0x"), 16)
            .unwrap()
            .to_string()
    };
    assert_eq!(hex(value("  old ")), value("New value = "));
    assert_eq!(hex(value("  new ")), value("Old value = "));
    assert!(text.contains("<- here") && text.contains("on disk"));
}

#[test]
fn functions_are_left_and_entered_backwards() {
    if !gdb_is_there("functions_are_left_and_entered_backwards") {
        return;
    }
    let (folder, server, _) = demo();
    let text = gdb(
        &folder,
        &server,
        "break *work\ncontinue\ndelete\nmonitor when\nstepi 5\nreverse-finish\nprintf \"PC %#lx\\n\", $pc\n\
         stepi\nprintf \"PC %#lx\\n\", $pc\nfinish\nprintf \"PC %#lx\\n\", $pc\n\
         reverse-nexti\nprintf \"PC %#lx\\n\", $pc\nmonitor when\n",
    );
    let pcs: Vec<u64> = marked(&text, "PC 0x")
        .iter()
        .map(|pc| u64::from_str_radix(pc, 16).unwrap())
        .collect();
    let work = folder.symbol("work");
    // The call; the function; behind the call; the call again.
    assert_eq!(pcs, [pcs[0], work, pcs[0] + 4, pcs[0]]);
    let at = icounts(&text);
    assert_eq!(at[1], at[0] - 1);
}

#[test]
fn registers_have_names() {
    if !gdb_is_there("registers_have_names") {
        return;
    }
    let (folder, server, _) = demo();
    let text = gdb(
        &folder,
        &server,
        "break *list_remove\ncontinue\nprintf \"MTVEC %#lx\\n\", $mtvec\np $priv\ninfo registers mstatus mie misa satp\n\
         p $ft0\np/x $fcsr\nprintf \"A0 %#lx\\n\", $a0\nprintf \"SP %#lx\\n\", $sp\ninfo registers\ninfo threads\n\
         info all-registers\n",
    );
    assert_eq!(marked(&text, "MTVEC "), [format!("{:#x}", folder.symbol("trap"))]);
    assert!(
        text.contains("$1 = 3") || text.contains("prv:3"),
        "privilege: {text}"
    );
    for name in [
        "mstatus",
        "mie",
        "misa",
        "satp",
        "pmpaddr15",
        "mhpmcounter3",
        "stimecmp",
        "fs11",
    ] {
        assert!(
            marked(&text, name).iter().any(|rest| rest.contains("0x")),
            "{name}"
        );
    }
    assert!(text.contains("double = ") && text.contains("hart 0"));
    assert!(!text.contains("<unavailable>") && !text.contains("Could not fetch"));
}

#[test]
fn memory_is_looked_at_without_touching_devices() {
    if !gdb_is_there("memory_is_looked_at_without_touching_devices") {
        return;
    }
    let (folder, server, _) = demo();
    let text = gdb(
        &folder,
        &server,
        "x/wx 0x10000000\nx/wx 0x80000000\nx/s text_banner\nx/wx 0x80fffffe\nmonitor phys on\nx/wx 0x80000000\n\
         monitor phys\nmonitor phys off\nmonitor phys 7\nmonitor nonsense\nmonitor goto x\nmonitor help\n\
         watch *(int *)0x10000000\nstepi\nx/wx 0xfffffffffffffffc\nx/wx 0\nmonitor when\n",
    );
    assert!(text.contains("Cannot access memory at address 0x10000000"));
    assert!(text.contains("Cannot access memory at address 0xfffffffffffffffc"));
    assert!(text.contains("there is no command \"nonsense\"; `monitor help` lists"));
    assert!(text.contains("usage: phys on|off") && text.contains("last-write ADDR LEN"));
    assert!(text.contains("memory addresses are physical"));
    assert!(text.contains("\"x\" is no position"));
}

#[test]
fn a_write_into_history_branches() {
    if !gdb_is_there("a_write_into_history_branches") {
        return;
    }
    let (folder, server, end) = demo();
    let text = gdb(
        &folder,
        &server,
        "tb-goto 2000000\nprintf \"T %ld\\n\", *(long *)&ticks\nset var *(long *)&ticks = 77\nprintf \"T %ld\\n\", *(long *)&ticks\n\
         set var $t0 = 5\nprintf \"T0 %ld\\n\", $t0\nmonitor when\nstepi\nstepi\nmonitor when\nwatch *(long *)&ticks\n\
         continue\nmonitor goto end\nmonitor last-write 0x80000000 4\nreverse-continue\nreverse-stepi\nmonitor when\nreverse-stepi\ndelete\n\
         monitor when\ntb-goto 1999999\nstepi\nprintf \"T %ld\\n\", *(long *)&ticks\nmonitor when\ntb-goto end\nmonitor when\n",
    );
    let ticks = marked(&text, "T ");
    assert_eq!(ticks[1], "77");
    assert_eq!(ticks[0], ticks[2], "the recording is as it was");
    assert_eq!(marked(&text, "T0 "), ["5"]);
    assert!(text.contains("tickback: branched at 2_000_000"));
    assert!(text.contains("on a branch that left the recording at 2_000_000"));
    assert!(
        text.contains("Old value = 77\nNew value = 78") && text.contains("Old value = 78\nNew value = 77")
    );
    assert!(text.contains("this is a branch, which has no end"));
    assert!(text.contains("nothing has written there since the branch began"));
    assert_eq!(icounts(&text).last(), Some(&end));
}

#[test]
fn detached_and_attached_again() {
    if !gdb_is_there("detached_and_attached_again") {
        return;
    }
    let folder = Folder::new(firmware::demo());
    let (history, _) = folder.record(1);
    let path = folder.path("socket");
    let server = Server::start(history, path.to_str().unwrap());
    let text = gdb(
        &folder,
        &server,
        "break *check_list\ncontinue\nmonitor when\ndetach\n",
    );
    let at = icounts(&text)[0];
    // It stands where it was left, and the breakpoint is gone.
    let text = gdb(&folder, &server, "monitor when\nreverse-continue\nmonitor when\n");
    assert_eq!(icounts(&text), [at, 0]);
    // gdb was ended without a word.
    let text = gdb(&folder, &server, "monitor when\nstepi\nkill\n");
    assert_eq!(icounts(&text), [0]);
    assert_eq!(server.wait().0, Ended::Killed);
    assert!(!path.exists());
}

#[test]
fn ctrl_c_ends_a_reverse_search() {
    if !gdb_is_there("ctrl_c_ends_a_reverse_search") {
        return;
    }
    let folder = Folder::new(counting());
    let (history, _) = folder.record_until(1, Icount(1_000_000_000));
    let server = Server::start(history, "0");
    let text = interrupted_after(
        &folder,
        &server,
        "tb-goto end\nwatch *(long *)&unused\necho SEARCH\\n\nreverse-continue\nmonitor when\nreverse-stepi\nmonitor when\nkill\n",
        &["SEARCH"],
    );
    assert!(text.contains("received signal SIGINT"), "{text}");
    assert_eq!(icounts(&text), [1_000_000_000, 1_000_000_000, 999_999_999]);
}
