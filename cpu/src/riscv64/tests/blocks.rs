//! The shape of blocks: folding, forwarding, the rule of the floating-point state, and where blocks end.

use crate::Lifted;
use crate::ir::{Block, MAX_INSNS, Target, Terminal};
use crate::riscv64::lift::lift;
use crate::riscv64::slots::{MODE_FS_DIRTY, MODE_FS_OFF};

const NOP: u32 = 0x13;

fn page(offset: usize, insns: &[u32]) -> [u8; 4096] {
    let mut page = [0; 4096];
    let bytes = insns.iter().flat_map(|insn| insn.to_le_bytes());
    page[offset..]
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, byte)| *to = byte);
    page
}

fn block(mode: u64, offset: u16, page: &[u8; 4096]) -> Block {
    match lift(mode, offset, page, None) {
        Lifted::Block(block) => block,
        Lifted::NeedsNextPage => panic!("it doesn't straddle"),
    }
}

fn text(insns: &[u32]) -> String {
    block(MODE_FS_DIRTY, 0x100, &page(0x100, insns)).to_string()
}

#[test]
fn a_call_by_auipc_and_jalr_is_a_direct_jump() {
    // auipc ra,0x1; jalr ra,-8(ra)
    assert_eq!(
        text(&[0x1097, 0xff80_80e7]),
        "100:\n  v0 = page+0x100\n  v1 = page+0x1100\n  set s1, v1\n\
         104:\n  v3 = page+0x10f8\n  v4 = page+0x108\n  set s1, v4\n  jump page+0x10f8\n"
    );
}

#[test]
fn an_access_off_auipc_has_a_page_address_and_lui_a_constant_one() {
    // auipc a0,0; ld a1,8(a0); lui a2,1; sd a1,-8(a2); ecall
    let text = text(&[0x517, 0x0085_3583, 0x1637, 0xfeb6_3c23, 0x73]);
    assert!(text.contains("= page+0x108\n"), "{text}");
    assert!(text.contains("= const 0xff8\n"), "{text}");
    assert!(text.contains("store.B8 [v"), "{text}");
    assert!(
        text.contains("+0x0], v3\n"),
        "the loaded value is forwarded:\n{text}"
    );
    assert!(!text.contains("get"), "{text}");
}

#[test]
fn a_slot_is_read_once_and_written_by_each_instruction() {
    // addi a0,a0,1; addi a0,a0,1; ecall
    let text = text(&[0x0015_0513, 0x0015_0513, 0x73]);
    assert_eq!(text.matches("get s10").count(), 1, "{text}");
    assert_eq!(text.matches("set s10").count(), 2, "{text}");
}

#[test]
fn the_first_write_of_a_float_marks_the_state_and_ends_the_block() {
    // fld fa0,0(a0); then nops
    let page = page(0, &[0x0005_3507, NOP, NOP]);
    let clean = block(0, 0, &page);
    assert_eq!(clean.terminal, Terminal::Dispatch(Target(4)));
    let text = clean.to_string();
    let order = ["loadf", "call 8()", "setf"].map(|op| text.find(op).unwrap());
    assert!(order.is_sorted(), "{text}");
    let dirty = block(MODE_FS_DIRTY, 0, &page);
    assert!(
        dirty.insns.len() > 1 && !dirty.to_string().contains("call"),
        "{dirty}"
    );
    let off = block(MODE_FS_OFF, 0, &page);
    assert!(matches!(off.terminal, Terminal::Trap { cause: 2, .. }), "{off}");
}

#[test]
fn a_comparison_into_x0_marks_the_state_too_and_a_store_does_not() {
    // feq.d x0,fa0,fa0
    let compare = block(0, 0, &page(0, &[0xa2a5_2053, NOP]));
    assert!(compare.to_string().contains("call 8()"), "{compare}");
    assert_eq!(compare.terminal, Terminal::Dispatch(Target(4)));
    // fsd fa0,0(a0)
    let store = block(0, 0, &page(0, &[0x00a5_3027, NOP]));
    assert!(!store.to_string().contains("call"), "{store}");
}

#[test]
fn blocks_end_at_their_greatest_length_and_at_the_end_of_the_page() {
    let long = block(0, 0, &page(0, &[NOP; 100]));
    assert_eq!(
        (long.insns.len(), long.terminal),
        (MAX_INSNS, Terminal::Jump(Target(4 * MAX_INSNS as i32)))
    );
    let end = block(0, 4088, &page(4088, &[NOP; 2]));
    assert_eq!((end.insns.len(), end.terminal), (2, Terminal::Jump(Target(4096))));
}

#[test]
fn a_straddling_instruction_is_a_block_of_its_own() {
    let first = page(4090, &[NOP, NOP]);
    let before = block(0, 4090, &first);
    assert_eq!(
        (before.insns.len(), before.terminal),
        (1, Terminal::Jump(Target(4094)))
    );
    assert!(!before.straddles);
    assert!(matches!(lift(0, 4094, &first, None), Lifted::NeedsNextPage));
    // addi a0,zero,5, of which the second half is on the next page
    let insn: u32 = 0x0050_0513;
    let (first, second) = (page(4094, &[insn]), page(0, &[insn >> 16]));
    let Lifted::Block(straddling) = lift(0, 4094, &first, Some(&second)) else {
        panic!("it was given")
    };
    assert!(straddling.straddles);
    assert_eq!(
        straddling.to_string(),
        "ffe:\n  v0 = const 0x5\n  set s10, v0\n  jump page+0x1002\n"
    );
    // A compressed one there needs nothing of the next page.
    let compressed = block(0, 4094, &page(4094, &[1]));
    assert_eq!(compressed.terminal, Terminal::Jump(Target(4096)));
}
