//! The saved form: canonical, whole, and refused where it is damaged.

use super::super::fake::*;
use super::super::hart::{HartConfig, PIN_LOCAL, PIN_NMI};
use super::super::helper;
use super::*;
use crate::Cpu;

fn config() -> HartConfig {
    HartConfig {
        id: 0,
        harts: 1,
        seed: 7,
    }
}

/// A processor with something of everything.
fn full() -> Rig {
    let mut rig = Rig::long();
    for n in 0..16 {
        rig.hart.regs[slots::gpr(n)] = 0x1111 * u64::from(n + 1);
        rig.hart.regs[slots::xmm(n, 1)] = 0x2222 * u64::from(n + 1);
    }
    rig.hart.regs[slots::KERNEL_GS_BASE] = 0x4444;
    rig.hart.set_pin(PIN_LOCAL, 0x55);
    rig.hart.set_pin(PIN_NMI, 1);
    rig.hart.set_eflags(IF | TF | RF | flags::OF);
    rig.hart.retire(0, 1);
    rig.hart.random();
    rig.hart.core.dr[2] = 77;
    rig.call(helper::LOAD_SEGMENT, [0x10, 0], 1, 2 | helper::MAKES_SHADOW)
        .unwrap();
    rig
}

#[test]
fn a_restored_processor_is_the_same() {
    let rig = full();
    let saved = rig.hart.save();
    let mut other = Hart::new(config());
    other.restore(&saved).unwrap();
    assert_eq!(other.save(), saved);
    assert_eq!(other.regs[slots::KERNEL_GS_BASE], 0x4444);
    assert_eq!(other.block_mode(), rig.hart.block_mode());
    assert_eq!(other.interrupt(), rig.hart.interrupt());
    assert_eq!(other.data_space(), rig.hart.data_space());
    // And goes on alike: the shadow ends, the single step comes.
    let (mut a, mut b) = (rig.hart, other);
    a.retire(1, 1);
    b.retire(1, 1);
    assert_eq!(a.interrupt(), Some(super::super::hart::CAUSE_DEBUG));
    assert_eq!(a.save(), b.save());
}

#[test]
fn flags_are_saved_whatever_made_them() {
    let mut rig = Rig::long();
    rig.hart.set_eflags(flags::ZF | flags::PF);
    let saved = rig.hart.save();
    let regs = &mut rig.hart.regs;
    regs[slots::CC_OP] = flags::cc(flags::Kind::Sub, 2);
    regs[slots::CC_DST] = 1 << 32;
    regs[slots::CC_SRC] = 5;
    assert_eq!(rig.hart.save(), saved, "5 - 5");
    rig.hart.restore(&saved).unwrap();
    assert_eq!(rig.hart.regs[slots::CC_OP], 0);
    assert_eq!(rig.hart.eflags(), flags::ZF | flags::PF | ALWAYS);
}

#[test]
fn damage_is_refused_and_changes_nothing() {
    let saved = full().hart.save();
    let mut hart = Hart::new(config());
    let before = hart.save();
    for cut in [0, 3, 4, saved.len() - 1] {
        hart.restore(&saved[..cut]).unwrap_err();
    }
    let mut version = saved.clone();
    version[0] ^= 4;
    hart.restore(&version).unwrap_err();
    let mut long = saved.clone();
    long.push(0);
    hart.restore(&long).unwrap_err();
    // Whatever bit is damaged: refused, or a processor that saves what it was given.
    for i in 4..saved.len() {
        let mut bytes = saved.clone();
        bytes[i] ^= 0x10;
        let mut other = Hart::new(config());
        if other.restore(&bytes).is_ok() {
            assert_eq!(other.save(), bytes, "byte {i}");
        }
    }
    assert_eq!(hart.save(), before);
}

#[test]
fn impossible_states_are_refused() {
    type Spoil = fn(&mut Core);
    let spoils: [Spoil; 7] = [
        |c| c.cpl = 4,
        |c| c.cr0 |= 1 << 40,
        |c| c.cr3 = 1 << 40,
        |c| c.cr4 |= 1,
        |c| c.efer &= !EFER_LMA,
        |c| c.xcr0 = 2,
        |c| c.pins.local = 300,
    ];
    for (i, spoil) in spoils.into_iter().enumerate() {
        let mut rig = full();
        spoil(&mut rig.hart.core);
        let bytes = rig.hart.save();
        Hart::new(config()).restore(&bytes).expect_err(&i.to_string());
    }
}
