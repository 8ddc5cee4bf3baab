//! x86-64: the demo guest of the PC, forward and backward.

use gdb::Ended;

use crate::support::{Folder, Server, gdb, gdb_is_there, icounts, marked};

/// A recording of the demo, and a server over it.
fn demo() -> (Folder, Server) {
    let folder = Folder::pc(firmware::x86_demo());
    let (history, _) = folder.record(1);
    let server = Server::start(history, "0");
    (folder, server)
}

/// Bytes of `add QWORD [rax], 1` as it is assembled.
const ADD: u64 = 7;

fn numbers(text: &str, mark: &str) -> Vec<u64> {
    let hex = |text: &&str| u64::from_str_radix(text, 16).unwrap();
    marked(text, mark).iter().map(hex).collect()
}

#[test]
fn x86_the_demo_s_culprit_is_found_from_its_end() {
    if !gdb_is_there("x86_the_demo_s_culprit_is_found_from_its_end") {
        return;
    }
    let (folder, server) = demo();
    let text = gdb(
        &folder,
        &server,
        "tb-goto end\nset $bad = *(long **)&demo_bad_address\ntb-last-write *$bad\nmonitor when\nwatch -location *$bad\n\
         reverse-continue\nmonitor when\ninfo symbol $pc\nprintf \"PC 0x%lx\\n\", $pc\n",
    );
    let culprit = folder.symbol("list_remove") + firmware::X86_DEMO_CULPRIT;
    assert_eq!(numbers(&text, "PC 0x"), [culprit]);
    assert!(text.contains("list_remove + 20"), "{text}");
    let at = icounts(&text);
    // last-write doesn't move, and names the same place.
    assert_eq!(at[0], at[1]);
    let found = marked(&text, "last written by hart 0, icount ")[0];
    let found = found.split(',').next().unwrap().replace('_', "");
    assert_eq!(found.parse::<u64>().unwrap(), at[2]);
    assert!(text.contains(&format!("pc {culprit:#x}: mov")), "{text}");
}

#[test]
fn x86_steps_and_breakpoints_both_ways() {
    if !gdb_is_there("x86_steps_and_breakpoints_both_ways") {
        return;
    }
    let (folder, server) = demo();
    let text = gdb(
        &folder,
        &server,
        "break *list_remove\ncontinue\nmonitor when\ncontinue\nmonitor when\nreverse-continue\nmonitor when\n\
         stepi\nprintf \"PC 0x%lx\\n\", $pc\nstepi\nprintf \"PC 0x%lx\\n\", $pc\nmonitor when\n\
         reverse-stepi\nprintf \"PC 0x%lx\\n\", $pc\nreverse-stepi\nprintf \"PC 0x%lx\\n\", $pc\nmonitor when\n\
         stepi 100\nreverse-stepi 100\nmonitor when\ndelete\nbreak *check_list\ncontinue\nmonitor when\n\
         delete\nreverse-continue\nmonitor when\nkill",
    );
    let at = icounts(&text);
    assert!(at[0] < at[1], "{at:?}");
    let first = at[0];
    assert_eq!(at[2..6], [first, first + 2, first, first]);
    assert!(at[6] > first, "{at:?}");
    assert_eq!(at[7], 0);
    // mov rax, [rdi+8]; mov rcx, [rsi]
    let start = folder.symbol("list_remove");
    assert_eq!(numbers(&text, "PC 0x"), [start + 4, start + 7, start + 4, start]);
    assert!(text.contains("No more reverse-execution history"));
    assert_eq!(server.wait().0, Ended::Killed);
}

#[test]
fn x86_watchpoints_both_ways() {
    if !gdb_is_there("x86_watchpoints_both_ways") {
        return;
    }
    let (folder, server) = demo();
    let text = gdb(
        &folder,
        &server,
        "watch *(long *)&ticks\ncontinue\ncontinue\nprintf \"PC 0x%lx\\n\", $pc\nmonitor when\n\
         reverse-continue\nprintf \"PC 0x%lx\\n\", $pc\nmonitor when\nreverse-continue\nprintf \"PC 0x%lx\\n\", $pc\n\
         continue\nprintf \"PC 0x%lx\\n\", $pc\nreverse-stepi\nprintf \"PC 0x%lx\\n\", $pc\ndelete\n\
         x/2i $pc\necho READ\\n\nrwatch *(long *)&current_task\ncontinue\nprintf \"R 0x%lx\\n\", $pc\n\
         reverse-continue\nprintf \"R 0x%lx\\n\", $pc\n",
    );
    let (text, reads) = text.split_once("READ").unwrap();
    assert_eq!(marked(text, "Old value = "), ["0", "1", "2", "1", "0", "1"]);
    assert_eq!(marked(text, "New value = "), ["1", "2", "1", "0", "1", "0"]);
    // Forward gdb stands behind `add QWORD [rax], 1`, backward in front of it.
    let pcs = numbers(text, "PC 0x");
    let store = pcs[0] - ADD;
    assert_eq!(pcs, [store + ADD, store, store, store + ADD, store]);
    assert!(text.contains("add"), "{text}");
    let at = icounts(text);
    assert_eq!(at[0], at[1] + 1);
    // mov rdx, [rcx]
    let r = numbers(reads, "R 0x");
    assert_eq!(r[0], r[1] + 3);
    assert_eq!(reads.matches("\nValue = ").count(), 2, "{reads}");
}

#[test]
fn x86_registers_have_names() {
    if !gdb_is_there("x86_registers_have_names") {
        return;
    }
    let (folder, server) = demo();
    let text = gdb(
        &folder,
        &server,
        "break *list_remove\ncontinue\nprintf \"RIP 0x%lx\\n\", $rip\nprintf \"CR0 0x%lx\\n\", $cr0\n\
         printf \"EFER 0x%lx\\n\", $efer\nprintf \"IDT 0x%lx\\n\", $idt_base\np $eflags\np $xmm0\np $st0\n\
         info registers\ninfo all-registers\nset var $rax = 0x1234\nprintf \"RAX 0x%lx\\n\", $rax\n\
         set var $xmm1.uint128 = 77\nprintf \"XMM1 0x%lx\\n\", $xmm1.v2_int64[0]\n",
    );
    assert!(
        !text.contains("target description")
            && !text.contains("<unavailable>")
            && !text.contains("Could not fetch"),
        "{text}"
    );
    assert_eq!(numbers(&text, "RIP 0x"), [folder.symbol("list_remove")]);
    // Paging and protection; long mode, on and enabled.
    assert_eq!(numbers(&text, "CR0 0x")[0] & 0x8000_0001, 0x8000_0001);
    assert_eq!(numbers(&text, "EFER 0x")[0] & 0x500, 0x500);
    assert_eq!(numbers(&text, "IDT 0x"), [folder.symbol("idt")]);
    for name in [
        "cr2",
        "cr3",
        "fs_base",
        "k_gs_base",
        "lstar",
        "dr7",
        "mxcsr",
        "fctrl",
    ] {
        assert!(
            marked(&text, name).iter().any(|rest| rest.contains("0x")),
            "{name}: {text}"
        );
    }
    assert!(text.contains("IF") && text.contains("v4_float = "), "{text}");
    assert_eq!(numbers(&text, "RAX 0x"), [0x1234]);
    assert_eq!(numbers(&text, "XMM1 0x"), [77]);
}
