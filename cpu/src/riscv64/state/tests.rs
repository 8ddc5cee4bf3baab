//! Tests of saving and restoring.

use super::*;
use crate::Cpu;
use crate::riscv64::fake::{RAM, Rig};
use crate::riscv64::{hart::HartConfig, helper};

/// What is spoiled, and how.
type Spoiler = (&'static str, fn(&mut Hart));

fn used() -> Hart {
    let mut rig = Rig::at(3);
    rig.write(0x300, 0x6000 | 0x1800);
    rig.write(0x003, 0x7b);
    rig.write(0x180, 9 << 60 | 0x1234);
    rig.write(0x304, 0x222);
    rig.write(0x14d, 1000);
    rig.write(0x30a, 1 << 63);
    rig.hart.set_pin(11, 1);
    for i in 1..32 {
        rig.hart.regs[slots::x(i)] = (i as u64) << 40 | 7;
        rig.hart.regs[slots::f(i)] = !(i as u64);
    }
    rig.hart.regs[slots::PC] = 0x8000_1002;
    rig.call(helper::LR, [RAM + 16, 8, 0]).unwrap();
    rig.call(helper::WFI, [0; 3]).unwrap();
    rig.hart
}

#[test]
fn round_trip() {
    let hart = used();
    let saved = hart.save();
    let mut other = Hart::new(HartConfig::new(0));
    assert_ne!(other.save(), saved);
    other.restore(&saved).unwrap();
    assert_eq!(other.save(), saved);
    assert_eq!(other.csrs, hart.csrs);
    assert_eq!(other.pmp.state(), hart.pmp.state());
    assert_eq!((other.reservation, other.waiting), (hart.reservation, true));
    assert_eq!(
        other.regs.words()[..slots::PAGE.0 as usize],
        hart.regs.words()[..slots::PAGE.0 as usize]
    );
    assert_eq!(other.regs[slots::FP_ENV], hart.regs[slots::FP_ENV]);
    assert_eq!(other.regs[slots::PAGE], 0x8000_1000);
    // What follows is the same: protection is in force, the deadline stands.
    assert_eq!(other.deadline(), Some(100_000));
    assert_eq!(other.pmp.rights(RAM, 8, 1), hart.pmp.rights(RAM, 8, 1));
}

#[test]
fn what_is_not_state_is_not_saved() {
    let mut hart = used();
    let saved = hart.save();
    hart.regs[slots::PAGE] = 0x77;
    hart.regs.words_mut()[crate::ENGINE_SLOTS..].fill(5);
    // MXCSR's denormal flag isn't RISC-V's.
    hart.regs[slots::FP_ENV] |= 2;
    assert_eq!(hart.save(), saved);
}

#[test]
fn a_restore_leaves_the_engines_slots() {
    let mut hart = used();
    hart.regs.words_mut()[crate::ENGINE_SLOTS] = 5;
    let saved = hart.save();
    hart.restore(&saved).unwrap();
    assert_eq!(hart.regs.words()[crate::ENGINE_SLOTS], 5);
}

#[test]
fn versions_and_lengths() {
    let saved = used().save();
    let mut hart = Hart::new(HartConfig::new(0));
    let before = hart.save();
    let mut newer = saved.clone();
    newer[0] += 1;
    assert_eq!(
        hart.restore(&newer).unwrap_err().to_string(),
        "hart state: version 2 instead of 1"
    );
    for len in 0..saved.len() {
        hart.restore(&saved[..len]).unwrap_err();
    }
    let mut longer = saved.clone();
    longer.push(0);
    hart.restore(&longer).unwrap_err();
    assert_eq!(hart.save(), before);
}

#[test]
fn impossible_values_are_refused() {
    let spoil: &[Spoiler] = &[
        ("privilege", |h| h.csrs.privilege = 2),
        ("mstatus", |h| h.regs[slots::MSTATUS] = 2 << 11),
        ("mstatus", |h| h.regs[slots::MSTATUS] = 1 << 32),
        ("mideleg", |h| h.csrs.mideleg = 8),
        ("medeleg", |h| h.csrs.medeleg = 1 << 11),
        ("mie", |h| h.csrs.mie = 1),
        ("mip", |h| h.csrs.soft_pending = 8),
        ("pins", |h| h.csrs.pins = 2),
        ("timer", |h| (h.csrs.menvcfg, h.csrs.timer_due) = (0, true)),
        ("mtvec", |h| h.csrs.mtvec = 2),
        ("stvec", |h| h.csrs.stvec = 3),
        ("mcountinhibit", |h| h.csrs.mcountinhibit = 2),
        ("mepc", |h| h.csrs.mepc = 1),
        ("sepc", |h| h.regs[slots::SEPC] = 1),
        ("menvcfg", |h| h.csrs.menvcfg = 2),
        ("senvcfg", |h| h.csrs.senvcfg = 2),
        ("satp", |h| h.csrs.satp = 11 << 60),
        ("frm", |h| h.csrs.frm = 8),
        ("pc", |h| h.regs[slots::PC] = 3),
        ("reservation", |h| {
            h.reservation = Some(Reservation { addr: 4, size: 8 })
        }),
        ("reservation", |h| {
            h.reservation = Some(Reservation { addr: 4, size: 2 })
        }),
        ("waiting", |h| h.csrs.mie = 1 << 11),
    ];
    for (name, spoil) in spoil {
        let mut bad = used();
        spoil(&mut bad);
        let mut hart = Hart::new(HartConfig::new(0));
        let before = hart.save();
        let error = hart.restore(&bad.save()).unwrap_err();
        assert_eq!(error.0, format!("impossible value of {name}"));
        assert_eq!(hart.save(), before);
    }
}

#[test]
fn hostile_bytes() {
    let saved = used().save();
    let mut hart = Hart::new(HartConfig::new(0));
    let mut seed = 3u64;
    let mut accepted = 0;
    for _ in 0..30_000 {
        let mut bytes = saved.clone();
        for _ in 0..1 + seed % 3 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let at = 4 + (seed >> 33) as usize % (bytes.len() - 4);
            bytes[at] = (seed >> 25) as u8;
        }
        let before = hart.save();
        match hart.restore(&bytes) {
            // What is accepted is a state, and exactly the one that was given.
            Ok(()) => {
                assert_eq!(hart.save(), bytes);
                let mut rig = Rig {
                    hart,
                    machine: Default::default(),
                };
                for row in crate::riscv64::csr::ROWS {
                    let _ = rig.try_read(row.number);
                }
                rig.hart.interrupt();
                rig.hart.deadline();
                hart = rig.hart;
                accepted += 1;
            }
            Err(_) => assert_eq!(hart.save(), before),
        }
    }
    assert!(accepted > 100 && accepted < 30_000, "{accepted}");
}
