//! Tests of LR/SC, cbo.zero, pause and reset.

use super::*;
use crate::riscv64::fake::{INSN, RAM, RAM_END, Rig};

/// What happens, and its name.
type Event = (&'static str, fn(&mut Rig));

fn lr(rig: &mut Rig, addr: u64, size: u64) -> Result<u64, Trap> {
    rig.call(helper::LR, [addr, size, 0])
}

fn sc(rig: &mut Rig, addr: u64, size: u64, value: u64) -> Result<u64, Trap> {
    rig.call(helper::SC, [addr, size, value])
}

#[test]
fn lr_sc_pairs() {
    let mut rig = Rig::at(M);
    rig.machine.ram.words.insert(RAM, 0x8000_0001_ffff_fffe);
    assert_eq!(lr(&mut rig, RAM, 8), Ok(0x8000_0001_ffff_fffe));
    assert_eq!(sc(&mut rig, RAM, 8, 5), Ok(0));
    assert_eq!(rig.machine.ram.word(RAM), 5);
    assert_eq!(sc(&mut rig, RAM, 8, 6), Ok(1), "it dies at SC");
    rig.machine.ram.words.insert(RAM, 0x8000_0001_ffff_fffe);
    assert_eq!(lr(&mut rig, RAM, 4), Ok(-2i64 as u64), "sign-extended");
    assert_eq!(lr(&mut rig, RAM + 4, 4), Ok(0xffff_ffff_8000_0001));
    assert_eq!(sc(&mut rig, RAM + 4, 4, 0x1_0000_0007), Ok(0));
    assert_eq!(rig.machine.ram.word(RAM), 0x7_ffff_fffe);
    // Another address or size fails, and takes the reservation with it.
    for (addr, size) in [(RAM + 8, 8), (RAM, 4), (RAM + 4, 4)] {
        lr(&mut rig, RAM, 8).unwrap();
        assert_eq!(sc(&mut rig, addr, size, 1), Ok(1));
        assert_eq!(sc(&mut rig, RAM, 8, 1), Ok(1));
    }
    assert_eq!(rig.machine.ram.word(RAM), 0x7_ffff_fffe);
}

#[test]
fn reservations_die() {
    let kills: &[Event] = &[
        ("trap", |r| {
            r.hart.deliver(&mut r.machine, Trap { cause: 2, value: 0 }, 0)
        }),
        ("interrupt", |r| r.hart.take_interrupt(&mut r.machine, 7)),
        ("mret", |r| {
            r.write(0x300, MPP);
            r.call(helper::MRET, [0; 3]).unwrap();
        }),
        ("switch", |r| r.hart.switched_away()),
        ("DMA", |r| r.hart.dma_wrote(RAM + 0x47, 1)),
        ("DMA over it", |r| r.hart.dma_wrote(RAM, 0x1000)),
        ("DMA at the end of its line", |r| {
            r.hart.dma_wrote(RAM + 0x7f, u64::MAX)
        }),
        ("reset", |r| r.hart.reset(0)),
        ("failing LR", |r| {
            lr(r, 0, 8).unwrap_err();
        }),
        ("faulting SC", |r| {
            sc(r, RAM + 0x41, 8, 0).unwrap_err();
        }),
    ];
    for (what, kill) in kills {
        let mut rig = Rig::at(M);
        lr(&mut rig, RAM + 0x40, 8).unwrap();
        kill(&mut rig);
        assert_eq!(sc(&mut rig, RAM + 0x40, 8, 1), Ok(1), "{what}");
    }
    let spares: &[Event] = &[
        ("DMA before", |r| r.hart.dma_wrote(RAM, 0x40)),
        ("DMA behind", |r| r.hart.dma_wrote(RAM + 0x80, 0x1000)),
        ("empty DMA", |r| r.hart.dma_wrote(RAM + 0x40, 0)),
        ("its own store", |r| {
            let Rig { hart, machine } = r;
            machine.store(hart, RAM + 0x40, Size::B8, 3).unwrap();
        }),
        ("a CSR", |r| r.write(0x340, 1)),
    ];
    for (what, spare) in spares {
        let mut rig = Rig::at(M);
        lr(&mut rig, RAM + 0x40, 8).unwrap();
        spare(&mut rig);
        assert_eq!(sc(&mut rig, RAM + 0x40, 8, 1), Ok(0), "{what}");
    }
}

#[test]
fn lr_sc_faults() {
    let mut rig = Rig::at(M);
    for size in [4, 8] {
        let addr = RAM + size / 2;
        assert_eq!(
            lr(&mut rig, addr, size),
            Err(Trap {
                cause: 4,
                value: addr
            })
        );
        assert_eq!(
            sc(&mut rig, addr, size, 0),
            Err(Trap {
                cause: 6,
                value: addr
            })
        );
        // Not RAM.
        assert_eq!(
            lr(&mut rig, RAM_END, size),
            Err(Trap {
                cause: 5,
                value: RAM_END
            })
        );
        assert_eq!(
            sc(&mut rig, RAM_END, size, 0),
            Err(Trap {
                cause: 7,
                value: RAM_END
            })
        );
    }
    // PMP: a locked, read-only word.
    rig.write(0x3b0, RAM >> 2);
    rig.write(0x3a0, 0x91);
    assert!(lr(&mut rig, RAM, 4).is_ok());
    assert_eq!(sc(&mut rig, RAM, 4, 0), Err(Trap { cause: 7, value: RAM }));
    assert_eq!(
        lr(&mut rig, RAM, 8),
        Err(Trap { cause: 5, value: RAM }),
        "partly matched"
    );
    // A page fault is raised without a reservation too.
    rig.hart.csrs.privilege = S;
    rig.poke(0x180, 8 << 60 | (RAM + 0x1000) >> 12);
    rig.poke(0x3b1, !0);
    rig.poke(0x3a0, 0x1f91);
    assert_eq!(
        sc(&mut rig, 0x5000, 8, 0),
        Err(Trap {
            cause: 15,
            value: 0x5000
        })
    );
    assert_eq!(
        lr(&mut rig, 0x5000, 8),
        Err(Trap {
            cause: 13,
            value: 0x5000
        })
    );
}

#[test]
fn cbo_zero() {
    for (privilege, menvcfg, senvcfg, legal) in [
        (M, 0, 0, true),
        (S, 0, CBZE, false),
        (S, CBZE, 0, true),
        (U, CBZE, 0, false),
        (U, 0, CBZE, false),
        (U, CBZE, CBZE, true),
    ] {
        let mut rig = Rig::at(privilege);
        rig.poke(0x30a, menvcfg);
        rig.poke(0x10a, senvcfg);
        for i in 0..32 {
            rig.machine.ram.words.insert(RAM + 8 * i, !0);
        }
        let result = rig.call(helper::CBO_ZERO, [RAM + 0x7b, INSN as u64, 0]);
        assert_eq!(
            result,
            if legal {
                Ok(0)
            } else {
                Err(Trap {
                    cause: 2,
                    value: INSN as u64,
                })
            }
        );
        for i in 0..32 {
            let zeroed = legal && (8..16).contains(&i);
            assert_eq!(rig.machine.ram.word(RAM + 8 * i), if zeroed { 0 } else { !0 });
        }
    }
    let mut rig = Rig::at(M);
    let outside = RAM_END + 0x7b;
    assert_eq!(
        rig.call(helper::CBO_ZERO, [outside, 0, 0]),
        Err(Trap {
            cause: 7,
            value: outside
        })
    );
    // A block that protection cuts isn't touched at all.
    rig.machine.ram.words.insert(RAM + 0x40, 9);
    rig.write(0x3b0, (RAM + 0x60) >> 2);
    rig.write(0x3a0, 0x91);
    assert_eq!(
        rig.call(helper::CBO_ZERO, [RAM + 0x44, 0, 0]),
        Err(Trap {
            cause: 7,
            value: RAM + 0x44
        })
    );
    assert_eq!(rig.machine.ram.word(RAM + 0x40), 9);
}

#[test]
fn pause_ends_the_slice() {
    let mut rig = Rig::at(U);
    assert_eq!(rig.call(helper::PAUSE, [0; 3]), Ok(0));
    assert_eq!(rig.machine.slices_ended, 1);
}

#[test]
fn reset_is_power_on() {
    let mut rig = Rig::at(S);
    rig.poke(0x300, !0);
    rig.poke(0x304, !0);
    rig.hart.set_pin(7, 1);
    rig.hart.regs_mut()[slots::x(5)] = 1;
    rig.hart.regs_mut()[slots::f(5)] = 1;
    let words = rig.hart.regs().words().as_ptr();
    rig.hart.reset(0x1000);
    assert_eq!(
        rig.hart.regs().words().as_ptr(),
        words,
        "engines keep the address"
    );
    let mut fresh = Hart::new(HartConfig::new(0));
    fresh.reset(0x1000);
    assert_eq!(rig.hart.save(), fresh.save());
    assert_eq!((rig.hart.privilege(), rig.hart.pc()), (M, 0x1000));
}

#[test]
fn unknown_helpers_are_illegal() {
    assert_eq!(Rig::new().call(999, [0; 3]), Err(Trap { cause: 2, value: 0 }));
}
