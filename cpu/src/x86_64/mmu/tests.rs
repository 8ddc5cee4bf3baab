//! Walks by cases: entries, processor, access; what is granted or which error code.

use super::super::fake::*;
use super::super::slots;
use super::super::trap::PF;
use super::*;
use crate::Cpu;
use Access::{Fetch, Read, Write};

/// Walks; what is granted ("rwf"), or the error code of the page fault.
fn walk(rig: &mut Rig, addr: u64, access: Access) -> Result<(u64, String), u16> {
    match rig.hart.translate(&mut rig.machine, addr, access) {
        Ok(t) => {
            let rights = [(t.read, 'r'), (t.write, 'w'), (t.fetch, 'f')];
            let rights = rights.iter().filter(|(on, _)| *on).map(|(_, c)| c).collect();
            Ok((t.addr, rights))
        }
        Err(trap) => {
            assert_eq!(trap::vector(trap.cause), PF);
            assert_eq!(
                trap.value,
                addr & if rig.hart.long_mode() { !0 } else { 0xffff_ffff }
            );
            Err(trap::error_code(trap.cause).unwrap())
        }
    }
}

/// The page 0x40_0000 is mapped by an own page table at 0x5000; its entries and those above are the test's.
fn long(upper: u64, leaf: u64) -> Rig {
    let mut rig = Rig::long();
    rig.machine.write8(0x3010, 0x5000 | upper);
    rig.machine.write8(0x5000, leaf);
    rig
}

const PAGE: u64 = 0x40_0000;
const K: u8 = 0;
const U: u8 = 3;

struct Case {
    upper: u64,
    leaf: u64,
    ring: u8,
    access: Access,
    /// "" a page at 0x12_3000; else what is set up besides.
    with: &'static str,
    expected: Result<&'static str, u16>,
}

const fn case(
    upper: u64,
    leaf: u64,
    ring: u8,
    access: Access,
    with: &'static str,
    expected: Result<&'static str, u16>,
) -> Case {
    Case {
        upper,
        leaf,
        ring,
        access,
        with,
        expected,
    }
}

#[test]
fn rights_of_a_page_in_long_mode() {
    const AD: u64 = A | D;
    let ur = P | US | RW;
    let cases = [
        case(ur, P | RW | US | AD, U, Read, "", Ok("rwf")),
        case(ur, P | RW | US | A, U, Read, "", Ok("rf")),
        case(ur, P | RW | US, U, Write, "", Ok("rwf")),
        case(ur, P | US | AD, U, Write, "", Err(7)),
        case(ur, P | US | AD, U, Read, "", Ok("rf")),
        case(ur & !RW, P | US | RW | AD, U, Write, "", Err(7)),
        case(ur & !US, P | US | RW | AD, U, Read, "", Err(5)),
        case(ur, P | RW | AD, U, Read, "", Err(5)),
        case(ur, P | RW | AD, U, Fetch, "", Err(0x15)),
        case(ur, 0, U, Fetch, "", Err(0x14)),
        case(ur, 0, U, Write, "", Err(6)),
        case(ur, 0, K, Read, "", Err(0)),
        case(0, P, K, Write, "", Err(2)),
        case(ur, P | AD, K, Write, "", Err(3)),
        case(ur, P | AD, K, Write, "no wp", Ok("rwf")),
        case(ur, P | US | AD, U, Write, "no wp", Err(7)),
        case(ur, P | RW | AD | XD, K, Fetch, "", Err(0x11)),
        case(ur | XD, P | RW | AD, K, Fetch, "", Err(0x11)),
        case(ur, P | RW | AD | XD, K, Read, "", Ok("rw")),
        case(ur, P | RW | AD | XD, K, Read, "no nxe", Err(9)),
        case(ur, P | RW | AD, K, Fetch, "no nxe", Ok("rwf")),
        case(ur, 0, K, Fetch, "no nxe", Err(0)),
        case(ur, 0, K, Fetch, "no nxe, smep", Err(0x10)),
        case(ur, P | RW | US | AD, K, Fetch, "smep", Err(0x11)),
        case(ur, P | RW | US | AD, K, Fetch, "", Ok("rwf")),
        case(ur, P | RW | US | AD, K, Read, "smap", Err(1)),
        case(ur, P | RW | US | AD, K, Write, "smap", Err(3)),
        case(ur, P | RW | US | AD, K, Write, "smap, ac", Ok("rwf")),
        case(ur, P | RW | US | AD, U, Write, "smap", Ok("rwf")),
        case(ur, P | RW | US | AD, U, Read, "smap, ac, system", Err(1)),
        case(ur, P | RW | AD, U, Read, "system", Ok("rwf")),
        case(ur, P | 1 << 40, K, Read, "", Err(9)),
        case(ur, P | 1 << 51, K, Read, "", Err(9)),
        case(
            ur,
            P | 1 << 52 | 1 << 62 | AD | PS | 1 << 8,
            K,
            Read,
            "",
            Ok("rf"),
        ),
        case(ur | PS, 0, K, Read, "", Err(9)),
    ];
    for (i, c) in cases.iter().enumerate() {
        let mut rig = long(c.upper, c.leaf | 0x12_3000);
        if c.ring == U {
            rig.ring(3, selector::USER_CODE64);
        }
        for word in c.with.split(", ") {
            let (h, cr4) = (&mut rig.hart, &mut 0);
            match word {
                "no wp" => h.core.cr0 &= !CR0_WP,
                "no nxe" => h.core.efer &= !EFER_NXE,
                "smep" => *cr4 = CR4_SMEP,
                "smap" => *cr4 = CR4_SMAP,
                "ac" => h.regs[slots::EFLAGS] |= AC,
                "system" => h.view = View::System,
                _ => {}
            }
            h.core.cr4 |= *cr4;
        }
        let expected = c.expected.map(|rights| (0x12_3456, rights.to_string()));
        assert_eq!(
            walk(&mut rig, PAGE + 0x456, c.access),
            expected,
            "case {i}: {}",
            c.with
        );
    }
}

#[test]
fn accessed_and_dirty_are_set_when_the_access_succeeds() {
    let mut rig = long(P | RW | US, P | US | 0x12_3000);
    rig.machine.write8(0x1000, 0x2000 | P | RW | US);
    rig.machine.write8(0x2000, 0x3000 | P | RW | US);
    rig.ring(3, selector::USER_CODE64);
    let flags =
        |rig: &Rig| [0x1000, 0x2000, 0x3010, 0x5000].map(|at| rig.machine.read(at, Size::B8) & (A | D));
    assert_eq!(walk(&mut rig, PAGE, Write), Err(7));
    assert_eq!(flags(&rig), [0; 4]);
    assert!(walk(&mut rig, PAGE, Read).is_ok());
    assert_eq!(flags(&rig), [A; 4]);
    rig.machine.write8(0x5000, 0x12_3000 | P | US | RW);
    assert!(walk(&mut rig, PAGE, Write).is_ok());
    assert_eq!(flags(&rig), [A, A, A, A | D]);
}

#[test]
fn large_pages_in_long_mode() {
    let mut rig = Rig::long();
    let full = P | RW | US | A | D;
    rig.machine.write8(0x2008, 0x8000_0000 | full | PS | 1 << 12);
    assert_eq!(walk(&mut rig, 0x7654_3210, Read), Ok((0xb654_3210, "rwf".into())));
    rig.machine.write8(0x2008, 0x8000_0000 | full | PS | 1 << 13);
    assert_eq!(walk(&mut rig, 0x7654_3210, Read), Err(9));
    rig.machine.write8(0x3010, 0xff_0020_0000 | full | PS);
    assert_eq!(
        walk(&mut rig, PAGE + 0x1f_ffff, Read),
        Ok((0xff_003f_ffff, "rwf".into()))
    );
    rig.machine.write8(0x3010, 0x20_2000 | full | PS);
    assert_eq!(walk(&mut rig, PAGE, Read), Err(9));
    rig.machine.write8(0x1000, 0x2000 | full | PS);
    assert_eq!(walk(&mut rig, PAGE, Read), Err(9), "no pages of 512 GiB");
}

#[test]
fn what_is_not_canonical_is_a_general_protection_fault() {
    let mut rig = Rig::long();
    for addr in [0x8000_0000_0000, 0xffff_7fff_ffff_ffff, 1 << 63] {
        let result = rig.hart.translate(&mut rig.machine, addr, Read);
        assert_eq!(result.err(), Some(trap::no_address(addr)));
        assert_eq!(rig.hart.debug_translate(&mut rig.machine, addr), None);
    }
    assert_eq!(walk(&mut rig, 0xffff_8000_0000_0000, Read), Err(0));
}

#[test]
fn tables_outside_of_memory_have_reserved_bits() {
    let mut rig = Rig::long();
    rig.hart.core.cr3 = 0x80_0000;
    assert_eq!(walk(&mut rig, PAGE, Write), Err(0xb));
}

fn legacy(cr4: u64) -> Rig {
    let mut rig = Rig::protected();
    rig.hart.core.cr0 |= CR0_PG | CR0_WP;
    rig.hart.core.cr4 = cr4;
    rig.hart.core.cr3 = 0x1018;
    rig
}

#[test]
fn paging_with_32_bits() {
    let full = P | RW | US | A | D;
    let mut rig = legacy(CR4_PSE);
    let entry = |rig: &mut Rig, at: u64, value: u64| rig.machine.write(at, Size::B4, value);
    entry(&mut rig, 0x1000 + 4 * 0x3ff, 0x5000 | full);
    entry(&mut rig, 0x5000 + 4 * 0x3fe, 0x12_3000 | full);
    assert_eq!(walk(&mut rig, 0xffff_e123, Read), Ok((0x12_3123, "rwf".into())));
    assert_eq!(
        walk(&mut rig, 0xffff_f123, Fetch),
        Err(0),
        "no I/D without NX or SMEP"
    );
    assert_eq!(
        walk(&mut rig, 0x1_ffff_e123, Read),
        Ok((0x12_3123, "rwf".into())),
        "linear addresses have 32 bits"
    );
    // PSE-36: bits 13 to 20 of the entry are bits 32 to 39 of the address.
    entry(&mut rig, 0x1004, 0x0540_2000 | full | PS);
    assert_eq!(walk(&mut rig, 0x7f_ffff, Read), Ok((0x1_057f_ffff, "rwf".into())));
    entry(&mut rig, 0x1004, 0x0560_0000 | full | PS);
    assert_eq!(walk(&mut rig, 0x7f_ffff, Read), Err(9));
    rig.hart.core.cr4 = 0;
    entry(&mut rig, 0x1004, 0x5000 | full | PS);
    entry(&mut rig, 0x5ffc, 0x7000 | P);
    assert_eq!(
        walk(&mut rig, 0x7f_ffff, Read),
        Ok((0x7fff, "rf".into())),
        "PS is ignored without PSE"
    );
    assert_eq!(rig.machine.read(0x5ffc, Size::B4), 0x7000 | P | A);
    assert_eq!(rig.machine.read(0x6000, Size::B4), 0, "four bytes are written");
    let path = rig
        .hart
        .translate(&mut rig.machine, 0x7f_ffff, Read)
        .unwrap()
        .path;
    assert_eq!(
        path[..3],
        [(0x1004, 21), (0x5ffc, 12), (0, 0)].map(|(entry, shift)| TableStep { entry, shift })
    );
}

#[test]
fn pae_uses_the_registers_that_cr3_loaded() {
    let full = P | RW | US | A | D;
    let mut rig = legacy(CR4_PAE);
    rig.hart.core.cr0 &= !CR0_PG;
    rig.machine.write8(0x1020 + 24, 0x3000 | P);
    rig.machine.write8(0x3ff8, 0x12_0020_0000 | full | PS);
    rig.machine.write8(0x3ff0, 0x5000 | full);
    rig.machine.write8(0x5000, 0x12_3000 | full | XD);
    assert_eq!(rig.call(super::super::helper::WRITE_CR, [3, 0x1020], 2, 0), Ok(0));
    let cr0 = rig.hart.core.cr0 | CR0_PG;
    assert_eq!(rig.call(super::super::helper::WRITE_CR, [0, cr0], 2, 0), Ok(0));
    assert_eq!(
        walk(&mut rig, 0xffe0_1234, Read),
        Ok((0x12_0020_1234, "rwf".into()))
    );
    assert_eq!(walk(&mut rig, 0xffc0_0000, Read), Err(9), "XD without NXE");
    rig.hart.core.efer = EFER_NXE;
    assert_eq!(walk(&mut rig, 0xffc0_0000, Fetch), Err(0x11));
    assert_eq!(walk(&mut rig, 0, Fetch), Err(0x10));
    rig.machine.write8(0x5000, 0x12_3000 | full | 1 << 52);
    assert_eq!(
        walk(&mut rig, 0xffc0_0000, Read),
        Err(9),
        "bits 62 to 52 are reserved"
    );
    // What memory says now doesn't matter until CR3 is written.
    let key = rig.hart.data_space();
    rig.machine.write8(0x1020 + 24, 0);
    assert!(walk(&mut rig, 0xffe0_1234, Read).is_ok());
    assert_eq!(rig.call(super::super::helper::WRITE_CR, [3, 0x1020], 2, 0), Ok(0));
    assert_eq!(walk(&mut rig, 0xffe0_1234, Read), Err(0));
    assert_ne!(rig.hart.data_space(), key);
    rig.machine.write8(0x1020 + 24, 0x3000 | P);
    assert_eq!(rig.call(super::super::helper::WRITE_CR, [3, 0x1020], 2, 0), Ok(0));
    assert_eq!(rig.hart.data_space(), key, "equal registers, equal key");
    rig.machine.write8(0x1020 + 24, 0x3000 | P | RW);
    assert_eq!(rig.call(super::super::helper::WRITE_CR, [3, 0x1020], 2, 0), gp(0));
}

#[test]
fn address_line_20_masks_what_is_physical() {
    let mut rig = Rig::real();
    rig.hart.set_pin(super::super::hart::PIN_A20M, 1);
    let found = rig.hart.translate(&mut rig.machine, 0x10_ffef, Read).unwrap();
    assert_eq!(found.addr, 0xffef);
    rig.hart.set_pin(super::super::hart::PIN_A20M, 0);
    let found = rig.hart.translate(&mut rig.machine, 0x10_ffef, Read).unwrap();
    assert_eq!(found.addr, 0x10_ffef);
}

/// Every pair of processors that differ in what a walk looks at has different keys.
#[test]
fn keys_tell_apart_what_translates_differently() {
    type Change = fn(&mut Hart);
    let data: [Change; 7] = [
        |h| h.core.cr3 += 0x1000,
        |h| h.core.cr0 &= !CR0_WP,
        |h| h.core.cr4 |= CR4_SMAP,
        |h| h.core.efer &= !EFER_NXE,
        |h| h.core.cpl = 3,
        |h| h.core.pins.a20 = false,
        |h| h.view = View::Physical,
    ];
    let base = Rig::long().hart;
    for (i, change) in data.iter().enumerate() {
        let mut rig = Rig::long();
        change(&mut rig.hart);
        assert_ne!(rig.hart.data_space(), base.data_space(), "{i}");
    }
    let mut rig = Rig::long();
    rig.hart.core.cr4 |= CR4_SMEP;
    assert_ne!(rig.hart.fetch_space(), base.fetch_space());
    rig.hart.core.cr4 = base.core.cr4 | CR4_SMAP;
    assert_eq!(rig.hart.fetch_space(), base.fetch_space());
    rig.hart.regs[slots::EFLAGS] |= AC;
    assert_eq!(rig.hart.data_space(), base.data_space(), "AC undoes SMAP");
    rig.hart.core.cr3 |= 0x18;
    assert_eq!(
        rig.hart.data_space(),
        base.data_space(),
        "cacheability says nothing"
    );
}

#[test]
fn stores_to_tables() {
    use TableChange::{Drop, Nothing};
    let full = 0x5000 | P | RW | US;
    let cases = [
        (0, full, Nothing),
        (full, full | A, Nothing),
        (full, full | A | D | 1 << 9, Nothing),
        (full & !RW, full, Nothing),
        (full, full & !RW, Drop),
        (full, 0, Drop),
        (full | A, full, Drop),
        (full & !US, full, Drop),
        (full, full + 0x1000, Drop),
        (full, full | PS, Drop),
        (full, full | 1 << 40, Drop),
        (0x6000, 0x7000, Nothing),
        // Two entries of 32-bit paging.
        (full << 32, full << 32 | full, Nothing),
        (full << 32, full, Drop),
        (full << 32 | full, (full | A) << 32 | full, Drop),
    ];
    for (old, new, expected) in cases {
        assert_eq!(table_change(old, new), expected, "{old:#x} -> {new:#x}");
    }
}
