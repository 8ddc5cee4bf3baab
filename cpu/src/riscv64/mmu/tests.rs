//! Tests of walks: every mode, level, permission and privilege against the manual's rules stated apart, and the
//! cases that rules don't enumerate.

use super::*;
use crate::Cpu;
use crate::riscv64::fake::{RAM, RAM_END, Rig};
use crate::riscv64::slots;

const ROOT: u64 = RAM + 0x10_0000;
const V: u64 = PTE_V;
const R: u64 = PTE_R;
const W: u64 = PTE_W;
const X: u64 = PTE_X;
const AD: u64 = PTE_A | PTE_D;
const MODES: [(u64, u32); 3] = [(8, 3), (9, 4), (10, 5)];
const ACCESSES: [Access; 3] = [Access::Fetch, Access::Read, Access::Write];

/// Where the table of `level` stands that the tests' addresses lead to.
fn table(levels: u32, level: u32) -> u64 {
    ROOT + 0x1000 * (levels - 1 - level) as u64
}

fn index(addr: u64, level: u32) -> u64 {
    addr >> (12 + 9 * level) & 0x1ff
}

/// Maps `addr` by `pte` at `level`; the address of that entry.
fn map(rig: &mut Rig, levels: u32, addr: u64, level: u32, pte: u64) -> u64 {
    for l in level + 1..levels {
        let entry = table(levels, l) + 8 * index(addr, l);
        rig.machine.ram.words.insert(entry, table(levels, l - 1) >> 2 | V);
    }
    let entry = table(levels, level) + 8 * index(addr, level);
    rig.machine.ram.words.insert(entry, pte);
    entry
}

fn rig(privilege: u8, mode: u64) -> Rig {
    let mut rig = Rig::at(privilege);
    rig.poke(0x180, mode << 60 | 0x77 << 44 | ROOT >> 12);
    rig
}

fn translate(rig: &mut Rig, addr: u64, access: Access) -> Result<Translation, u64> {
    rig.hart
        .translate(&mut rig.machine.ram, addr, access)
        .map_err(|trap| {
            assert_eq!(trap.value, addr);
            trap.cause
        })
}

fn canonical(levels: u32, addr: u64) -> u64 {
    let unused = 64 - (12 + 9 * levels);
    ((addr << unused) as i64 >> unused) as u64
}

/// A target that is aligned for `level`.
fn target(level: u32) -> u64 {
    0x5a_5aa5_a5a5_5000 >> (12 + 9 * level) << (12 + 9 * level)
}

#[test]
fn modes_and_levels() {
    for (mode, levels) in MODES {
        for level in 0..levels {
            for addr in [
                0x1234_5678_9abc_def1,
                0xffff_ffff_ffff_f123,
                0x0000_0abc_def0_1238,
            ] {
                let addr = canonical(levels, addr);
                let mut rig = rig(S, mode);
                let entry = map(&mut rig, levels, addr, level, target(level) >> 2 | V | R | AD);
                let t = translate(&mut rig, addr, Access::Read).unwrap();
                let offset = addr & ((1 << (12 + 9 * level)) - 1);
                assert_eq!(t.addr, target(level) | offset);
                assert_eq!(
                    (t.read, t.write, t.fetch, t.cacheable),
                    (true, false, false, true)
                );
                let used = t.path.iter().take_while(|s| s.shift != 0).count() as u32;
                assert_eq!(used, levels - level);
                for (i, step) in t.path.iter().take(used as usize).enumerate() {
                    let l = levels - 1 - i as u32;
                    assert_eq!(step.shift as u32, 12 + 9 * l);
                    assert_eq!(step.entry, table(levels, l) + 8 * index(addr, l));
                }
                assert_eq!(t.path[used as usize - 1].entry, entry);
                assert!(
                    t.path[used as usize..]
                        .iter()
                        .all(|s| *s == TableStep { entry: 0, shift: 0 })
                );
                assert_eq!(rig.hart.debug_translate(&mut rig.machine.ram, addr), Some(t.addr));
                assert!(rig.machine.ram.entry_writes.is_empty());
                // An address that isn't canonical.
                let bit = 1 << (12 + 9 * levels).min(63);
                for access in ACCESSES {
                    let fault = translate(&mut rig, addr ^ bit, access).unwrap_err();
                    assert_eq!(fault, cause::page_fault(access));
                    assert_eq!(translate(&mut rig, addr ^ 1 << 63, access).unwrap_err(), fault);
                }
                assert_eq!(rig.hart.debug_translate(&mut rig.machine.ram, addr ^ bit), None);
            }
        }
    }
}

/// Whether the manual allows an access (12.3.2 step 5 to 9), A and D aside.
fn allowed(pte: u64, access: Access, privilege: u8, sum: bool, mxr: bool) -> bool {
    let has = |bit: u64| pte & bit != 0;
    let reserved = has(W) && !has(R);
    let leaf = !reserved && (has(R) || has(X));
    let by_kind = match access {
        Access::Fetch => has(X),
        Access::Read => has(R) || has(X) && mxr,
        Access::Write => has(W),
    };
    let by_privilege = match (privilege, has(PTE_U)) {
        (U, user) => user,
        (_, true) => sum && access != Access::Fetch,
        (_, false) => true,
    };
    leaf && by_kind && by_privilege
}

#[test]
fn permissions() {
    for (mode, levels) in MODES {
        for level in 0..levels {
            // Pointers have tests of their own.
            for bits in (0..256u64).filter(|b| level == 0 || b & (R | W | X) != 0) {
                for (privilege, status, mpp) in [
                    (U, 0, U),
                    (S, 0, S),
                    (M, MPRV, U),
                    (M, MPRV, S),
                    (M, MPRV, M),
                    (M, 0, U),
                ] {
                    for (sum, mxr, adue) in [
                        (0, 0, 0),
                        (0, 0, ADUE),
                        (SUM, 0, ADUE),
                        (0, MXR, 0),
                        (SUM, MXR, ADUE),
                    ] {
                        one_permission(mode, levels, level, bits, privilege, status, mpp, sum, mxr, adue);
                    }
                }
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn one_permission(
    mode: u64,
    levels: u32,
    level: u32,
    bits: u64,
    privilege: u8,
    mprv: u64,
    mpp: u8,
    sum: u64,
    mxr: u64,
    adue: u64,
) {
    let addr = canonical(levels, 0x1234_5678_9abc_def1);
    let mut rig = rig(privilege, mode);
    rig.hart.regs[slots::MSTATUS] = mprv | (mpp as u64) << MPP_SHIFT | sum | mxr;
    rig.hart.csrs.menvcfg = adue;
    let pte = target(level) >> 2 | bits;
    let entry = map(&mut rig, levels, addr, level, pte);
    for access in ACCESSES {
        let effective = if mprv != 0 && access != Access::Fetch {
            mpp
        } else {
            privilege
        };
        let result = translate(&mut rig, addr, access);
        let writes = std::mem::take(&mut rig.machine.ram.entry_writes);
        rig.machine.ram.words.insert(entry, pte);
        if effective == M {
            // No translation; the address is far beyond RAM but that is for the bus to say.
            assert_eq!(result.is_ok(), addr >> 56 == 0);
            continue;
        }
        let (sum, mxr) = if access == Access::Fetch {
            (false, false)
        } else {
            (sum != 0, mxr != 0)
        };
        let may = |a| pte & V != 0 && allowed(pte, a, effective, sum, mxr);
        let needed = if access == Access::Write { AD } else { PTE_A };
        let updates = bits & needed != needed;
        if !may(access) || updates && adue == 0 {
            assert_eq!(
                result.unwrap_err(),
                cause::page_fault(access),
                "{bits:#x} {access:?}"
            );
            assert!(writes.is_empty());
            continue;
        }
        let t = result.unwrap();
        assert_eq!(
            writes,
            if updates {
                vec![(entry, pte | needed)]
            } else {
                vec![]
            }
        );
        assert_eq!(t.read, may(Access::Read));
        assert_eq!(t.write, may(Access::Write) && (bits | needed) & PTE_D != 0);
        assert_eq!(t.fetch, may(Access::Fetch));
    }
}

#[test]
fn superpages_must_be_aligned() {
    for (mode, levels) in MODES {
        for level in 1..levels {
            for bit in 0..9 * level {
                let mut rig = rig(S, mode);
                map(
                    &mut rig,
                    levels,
                    0,
                    level,
                    (target(level) | 0x1000 << bit) >> 2 | V | R | W | X | AD,
                );
                for access in ACCESSES {
                    assert_eq!(
                        translate(&mut rig, 0, access).unwrap_err(),
                        cause::page_fault(access)
                    );
                }
                assert_eq!(rig.hart.debug_translate(&mut rig.machine.ram, 0), None);
            }
        }
    }
}

#[test]
fn reserved_bits_fault() {
    for bit in 54..64 {
        let mut rig = rig(S, 8);
        let leaf = map(&mut rig, 3, 0, 0, 0x5000 >> 2 | V | R | AD | 1 << bit);
        assert_eq!(
            translate(&mut rig, 0, Access::Read).unwrap_err(),
            13,
            "leaf bit {bit}"
        );
        map(&mut rig, 3, 0, 0, 0x5000 >> 2 | V | R | AD);
        assert!(translate(&mut rig, 0, Access::Read).is_ok());
        *rig.machine.ram.words.get_mut(&table(3, 1)).unwrap() |= 1 << bit;
        assert_eq!(
            translate(&mut rig, 0, Access::Read).unwrap_err(),
            13,
            "pointer bit {bit}"
        );
        assert_ne!(leaf, table(3, 1));
    }
    // D, A, U of a pointer; G and RSW are free.
    for (bits, fine) in [
        (PTE_A, false),
        (PTE_D, false),
        (PTE_U, false),
        (PTE_G, true),
        (PTE_RSW, true),
    ] {
        let mut rig = rig(S, 8);
        map(&mut rig, 3, 0, 0, 0x5000 >> 2 | V | R | AD | PTE_RSW | PTE_G);
        *rig.machine.ram.words.get_mut(&table(3, 2)).unwrap() |= bits;
        assert_eq!(translate(&mut rig, 0, Access::Read).is_ok(), fine, "{bits:#x}");
    }
    // A pointer in a leaf table.
    let mut rig = rig(S, 8);
    map(&mut rig, 3, 0, 0, table(3, 0) >> 2 | V);
    assert_eq!(translate(&mut rig, 0, Access::Fetch).unwrap_err(), 12);
}

#[test]
fn tables_outside_ram_are_access_faults() {
    let mut rig = rig(S, 8);
    for entry in [RAM_END, 0, 0xff_ffff_ffff_f000] {
        rig.machine.ram.words.insert(table(3, 2), entry >> 2 | V);
        for access in ACCESSES {
            assert_eq!(
                translate(&mut rig, 0, access).unwrap_err(),
                cause::access_fault(access)
            );
        }
        assert_eq!(rig.hart.debug_translate(&mut rig.machine.ram, 0), None);
    }
}

#[test]
fn walks_are_under_the_pmp_as_s() {
    // Entry 0 covers the leaf table: no rights, then read only.
    for (config, level) in [(0x18, 0), (0x1a, 0), (0x1c, 0)] {
        let mut rig = rig(U, 8);
        map(
            &mut rig,
            3,
            0,
            level,
            0x8000_0000 >> 2 | V | R | W | X | PTE_U | AD,
        );
        rig.poke(0x3b0, table(3, 0) >> 2 | 0x1ff);
        rig.poke(0x3b1, !0);
        rig.poke(0x3a0, 0x1f00 | config);
        for access in ACCESSES {
            assert_eq!(
                translate(&mut rig, 0, access).unwrap_err(),
                cause::access_fault(access)
            );
        }
        rig.hart.csrs.privilege = M;
        rig.hart.regs[slots::MSTATUS] = MPRV;
        assert_eq!(
            translate(&mut rig, 0, Access::Read).unwrap_err(),
            5,
            "M's data through MPRV too"
        );
        assert!(translate(&mut rig, 0, Access::Fetch).is_ok());
    }
    // Reading is enough unless A or D must be set.
    let mut rig = rig(U, 8);
    map(
        &mut rig,
        3,
        0,
        0,
        0x8000_0000 >> 2 | V | R | W | X | PTE_U | PTE_A,
    );
    rig.poke(0x3b0, table(3, 0) >> 2 | 0x1ff);
    rig.poke(0x3b1, !0);
    rig.poke(0x3a0, 0x1f19);
    assert!(!translate(&mut rig, 0, Access::Read).unwrap().write);
    assert_eq!(translate(&mut rig, 0, Access::Write).unwrap_err(), 7);
    assert!(rig.machine.ram.entry_writes.is_empty());
    rig.hart.csrs.menvcfg = 0;
    assert_eq!(
        translate(&mut rig, 0, Access::Write).unwrap_err(),
        15,
        "Svade comes first"
    );
}

#[test]
fn the_page_itself_is_under_the_pmp() {
    for (config, read, write, fetch) in [
        (0x19, true, false, false),
        (0x1b, true, true, false),
        (0x1c, false, false, true),
    ] {
        let mut rig = rig(S, 8);
        map(&mut rig, 3, 0, 0, 0x8000_0000 >> 2 | V | R | W | X | AD);
        rig.poke(0x3b0, 0x8000_0000 >> 2 | 0x1ff);
        rig.poke(0x3b1, !0);
        rig.poke(0x3a0, 0x1f00 | config);
        for (access, right) in [
            (Access::Read, read),
            (Access::Write, write),
            (Access::Fetch, fetch),
        ] {
            match translate(&mut rig, 0x123, access) {
                Ok(t) => {
                    assert!(right);
                    assert_eq!(
                        (t.read, t.write, t.fetch, t.cacheable),
                        (read, write, fetch, true)
                    );
                }
                Err(e) => {
                    assert!(!right);
                    assert_eq!(e, cause::access_fault(access));
                }
            }
        }
    }
    // Regions finer than the page.
    let mut rig = rig(S, 8);
    map(&mut rig, 3, 0, 0, 0x8000_0000 >> 2 | V | R | W | X | AD);
    rig.poke(0x3b0, 0x8000_0800 >> 2);
    rig.poke(0x3b1, !0);
    rig.poke(0x3a0, 0x1f11);
    let t = translate(&mut rig, 0x7fc, Access::Write).unwrap();
    assert!(!t.cacheable);
    assert!(!rig.hart.protects(t.addr, 4, Access::Write));
    assert!(rig.hart.protects(t.addr, 8, Access::Write), "cut by the region");
    assert!(rig.hart.protects(t.addr, 8, Access::Read));
    assert!(translate(&mut rig, 0x800, Access::Read).is_ok());
    assert_eq!(translate(&mut rig, 0x803, Access::Write).unwrap_err(), 7);
}

#[test]
fn bare_and_machine_mode_are_identity() {
    let mut rig = Rig::at(S);
    for addr in [0, 0x8000_0123, (1 << 56) - 1] {
        let t = translate(&mut rig, addr, Access::Write).unwrap();
        assert_eq!(
            (t.addr, t.read, t.write, t.fetch, t.cacheable),
            (addr, true, true, true, true)
        );
        assert!(t.path.iter().all(|s| s.shift == 0));
        assert_eq!(rig.hart.debug_translate(&mut rig.machine.ram, addr), Some(addr));
    }
    for access in ACCESSES {
        assert_eq!(
            translate(&mut rig, 1 << 56, access).unwrap_err(),
            cause::access_fault(access)
        );
    }
    // No PMP entry matches: S and U have nothing.
    let mut rig = Rig::new();
    assert!(translate(&mut rig, RAM, Access::Fetch).is_ok());
    rig.hart.csrs.privilege = S;
    assert_eq!(translate(&mut rig, RAM, Access::Fetch).unwrap_err(), 1);
}

#[test]
fn keys_hold_what_translations_depend_on() {
    let key = |privilege, mstatus: u64, satp: u64| {
        let mut rig = Rig::at(privilege);
        rig.hart.regs[slots::MSTATUS] = mstatus;
        rig.hart.csrs.satp = satp;
        (rig.hart.fetch_space(), rig.hart.data_space())
    };
    let satp = 8 << 60 | 0x1234;
    let base = key(S, 0, satp);
    assert_eq!(base.0.root, satp);
    assert_eq!(base.0, base.1);
    // The ASID isn't in it.
    assert_eq!(key(S, 0, satp | 5 << 44), base);
    assert_ne!(key(S, 0, satp + 1).0, base.0);
    assert_ne!(key(S, 0, 9 << 60 | 0x1234).0, base.0);
    assert_ne!(key(U, 0, satp).0, base.0);
    for bits in [SUM, MXR] {
        let k = key(S, bits, satp);
        assert_eq!(k.0, base.0);
        assert_ne!(k.1, base.1);
    }
    assert_eq!(key(U, SUM, satp), key(U, 0, satp));
    assert_ne!(key(U, MXR, satp).1, key(U, 0, satp).1);
    // M: identity, whatever satp says; with MPRV the data of MPP.
    assert_eq!(key(M, SUM | MXR, satp).0.root, 0);
    assert_eq!(key(M, SUM | MXR, satp), key(M, 0, 0));
    let mprv = key(M, MPRV | 1 << MPP_SHIFT | SUM, satp);
    assert_eq!(mprv.0, key(M, 0, 0).0);
    assert_eq!(mprv.1, key(S, SUM, satp).1);
    assert_eq!(key(M, MPRV | MPP, satp), key(M, 0, 0));
    assert_ne!(key(S, 0, 0), key(M, 0, 0), "the PMP tells M from S");
}

/// A change that is judged harmless takes no right away from anybody.
#[test]
fn harmless_table_changes_take_nothing_back() {
    let grants = |rig: &mut Rig, addr: u64| {
        let mut all = Vec::new();
        for (privilege, status) in [(U, 0), (U, MXR), (S, 0), (S, SUM), (S, SUM | MXR)] {
            rig.hart.csrs.privilege = privilege;
            rig.hart.regs[slots::MSTATUS] = status;
            for access in ACCESSES {
                let ram = &mut rig.machine.ram.clone();
                let t = rig.hart.translate(ram, addr, access);
                all.push(t.map(|t| (t.addr, t.read, t.write, t.fetch)).ok());
            }
        }
        all
    };
    let ppns = [table(3, 0), RAM, RAM + 0x20_0000, RAM + 0x40_0000];
    let mut judged = [0; 2];
    for level in 0..2 {
        for old_bits in 0..256u64 {
            for flip in [
                0,
                1,
                2,
                4,
                6,
                8,
                0x0e,
                0x10,
                0x20,
                0x40,
                0x80,
                0xc0,
                0xca,
                0x100,
                0x300,
                1 << 54,
                1 << 63,
            ] {
                for (a, b) in [(0, 0), (1, 1), (0, 1), (2, 2), (2, 3)] {
                    let old = ppns[a] >> 2 | old_bits;
                    let new = ppns[b] >> 2 | (old_bits ^ flip);
                    let mut rig = rig(S, 8);
                    rig.hart.csrs.menvcfg = 0;
                    // What stands below, if the entry is a pointer.
                    let below = RAM + 0x3000;
                    map(&mut rig, 3, 0x3000, 0, below >> 2 | V | R | W | X | AD);
                    let entry = map(&mut rig, 3, 0x3000, level, old);
                    let before = grants(&mut rig, 0x3000);
                    rig.machine.ram.words.insert(entry, new);
                    let after = grants(&mut rig, 0x3000);
                    let change = rig.hart.table_change(12 + 9 * level as u8, old, new);
                    judged[(change == TableChange::Drop) as usize] += 1;
                    if change == TableChange::Drop {
                        continue;
                    }
                    for (had, has) in before.iter().zip(&after) {
                        let Some((addr, read, write, fetch)) = *had else {
                            continue;
                        };
                        let now = has.expect("a right was lost");
                        assert_eq!(addr, now.0, "{old:#x} {new:#x}");
                        assert!(
                            read <= now.1 && write <= now.2 && fetch <= now.3,
                            "{old:#x} {new:#x}"
                        );
                    }
                }
            }
        }
    }
    assert!(judged.iter().all(|&n| n > 1000), "{judged:?}");
}

#[test]
fn table_changes_by_name() {
    use TableChange::{Drop, Nothing};
    let page = 0x8000_0000 >> 2;
    let rw = page | V | R | W | AD;
    for (what, shift, old, new, change) in [
        ("filled", 12, 0, rw, Nothing),
        ("invalid, but not zero", 12, rw & !V, rw, Nothing),
        ("cleared", 12, rw, 0, Drop),
        ("the same", 12, rw, rw, Nothing),
        ("software bits", 12, rw, rw | PTE_RSW, Nothing),
        ("W and D added", 12, page | V | R | PTE_A, rw, Nothing),
        ("W taken", 12, rw, rw & !W, Drop),
        ("A taken", 12, rw, rw & !PTE_A, Drop),
        ("D taken", 12, rw, rw & !PTE_D, Drop),
        ("U flipped", 12, rw, rw | PTE_U, Drop),
        ("G flipped", 12, rw, rw | PTE_G, Drop),
        ("moved", 12, rw, rw + (1 << 10), Drop),
        ("N set", 12, rw, rw | 1 << 63, Drop),
        (
            "W added to X alone: reserved",
            12,
            page | V | X | PTE_A,
            page | V | X | W | PTE_A,
            Drop,
        ),
        ("a pointer filled", 21, 0, page | V, Nothing),
        ("a pointer cleared", 21, page | V, 0, Drop),
        (
            "a pointer that becomes a leaf",
            21,
            page | V,
            page | V | R | PTE_A,
            Drop,
        ),
        ("a leaf that becomes a pointer", 21, rw, page | V, Drop),
        ("a pointer in a leaf table", 12, page | V, 0, Nothing),
        ("a misaligned superpage", 21, rw + (1 << 10), 0, Nothing),
        ("a pointer with A: reserved", 21, page | V | PTE_A, 0, Nothing),
    ] {
        assert_eq!(table_change(shift, old, new), change, "{what}");
    }
    // Any shift is safe.
    for shift in 0..=255 {
        table_change(shift, rw, 0);
    }
}

/// What QEMU 10.0.2 answers to tests/qemu/mmu.c (see the README there): mode, level, hash of the answers.
const QEMU: &str = "
80 a8ced200245bcd25
81 8c325a971fa65025
82 8c325a971fa65025
90 a8ced200245bcd25
91 8c325a971fa65025
92 8c325a971fa65025
93 8c325a971fa65025
a0 a8ced200245bcd25
a1 8c325a971fa65025
a2 8c325a971fa65025
a3 8c325a971fa65025
a4 8c325a971fa65025
";

#[test]
fn entries_mean_what_they_mean_to_qemu() {
    let addr = 0x8010_0000;
    let mut lines = vec![];
    for (mode, levels) in MODES {
        for level in 0..levels {
            let mut hash = 0xcbf2_9ce4_8422_2325u64;
            for bits in (0..256).filter(|b| level == 0 || b & V == 0 || b & (R | W | X) != 0) {
                for case in 0..48 {
                    let (adue, privilege, flags, kind) = (case / 24, case / 12 % 2, case / 3 % 4, case % 3);
                    let mut rig = rig(M, mode);
                    let pte = addr >> (12 + 9 * level) << (12 + 9 * level) >> 2 | bits;
                    let entry = map(&mut rig, levels, addr, level, pte);
                    rig.hart.csrs.menvcfg = adue << 61;
                    rig.hart.regs[slots::MSTATUS] = MPRV | privilege << MPP_SHIFT | flags << 18;
                    let (access, done) = match kind {
                        0 => (Access::Fetch, 8 + privilege),
                        1 => (Access::Read, 0),
                        _ => (Access::Write, 0),
                    };
                    if access == Access::Fetch {
                        rig.hart.csrs.privilege = privilege as u8;
                    }
                    let cause = translate(&mut rig, addr, access).map_or_else(|cause| cause, |_| done);
                    let answer = cause << 2 | rig.machine.ram.word(entry) >> 6 & 3;
                    hash = (hash ^ answer).wrapping_mul(0x100_0000_01b3);
                }
            }
            lines.push(format!("{mode:x}{level} {hash:016x}"));
        }
    }
    assert_eq!(lines.join("\n"), QEMU.trim());
}
