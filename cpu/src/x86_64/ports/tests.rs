//! Who may access which ports.

use super::super::bits::IOPL;
use super::super::fake::*;
use super::super::helper;
use super::super::slots;
use super::*;

#[test]
fn the_permission_map() {
    let mut rig = Rig::long();
    rig.ring(3, selector::USER_CODE64);
    rig.machine.write(TSS + 102, Size::B2, 0x68);
    let map = TSS + 0x68;
    rig.machine.write(map, Size::B2, 0b1111_0000_1111_1110);
    rig.hart.core.tr.limit = 0x68 + 2;
    let input = |rig: &mut Rig, port: u64, size: u8| rig.call(helper::IN, [port, 0], size, 0);
    assert_eq!(input(&mut rig, 0, 0), Ok(0x44));
    assert_eq!(input(&mut rig, 0, 1), gp(0));
    assert_eq!(input(&mut rig, 8, 2), Ok(0x1122_3344));
    assert_eq!(input(&mut rig, 9, 2), gp(0));
    assert_eq!(input(&mut rig, 16, 0), gp(0), "beyond the limit");
    assert_eq!(rig.machine.port_reads, [(0, Size::B1), (8, Size::B4)]);
    assert_eq!(rig.call(helper::OUT, [8, 0xabcd], 0, 0), Ok(0));
    assert_eq!(rig.machine.port_writes, [(8, Size::B1, 0xcd)]);
    rig.hart.core.tr.limit = 0x66;
    assert_eq!(input(&mut rig, 0, 0), gp(0));
    rig.hart.regs[slots::EFLAGS] |= IOPL;
    assert_eq!(input(&mut rig, 0x3f8, 0), Ok(0x44));
    rig.hart.regs[slots::EFLAGS] |= super::super::bits::VM;
    assert_eq!(
        input(&mut rig, 0x3f8, 0),
        gp(0),
        "IOPL says nothing in virtual-8086 mode"
    );
}
