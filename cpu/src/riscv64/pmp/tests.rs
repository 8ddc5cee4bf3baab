//! Tests of PMP: each rule, and all of them against a bytewise reading of the manual.

use super::*;
use crate::riscv64::csr::bits::{S, U};

fn pmp(entries: &[(u8, u64)]) -> Pmp {
    let mut config = [0; ENTRIES];
    let mut address = [0; ENTRIES];
    for (i, &(c, a)) in entries.iter().enumerate() {
        (config[i], address[i]) = (c, a);
    }
    Pmp::from_state(PmpState { config, address })
}

/// The rights of an access by the manual's words, byte by byte (3.7.1).
fn by_the_book(pmp: &Pmp, addr: u64, size: u64, privilege: u8) -> Rights {
    let matches = |i: usize, byte: u128| {
        let (config, address) = (pmp.state.config[i], pmp.state.address[i] as u128);
        match config >> 3 & 3 {
            0 => false,
            1 => {
                let low = if i == 0 {
                    0
                } else {
                    pmp.state.address[i - 1] as u128
                };
                low * 4 <= byte && byte < address * 4
            }
            2 => byte / 4 == address,
            _ => {
                // y...y01...1: all bits from the lowest zero down are "don't care".
                let mut dont_care = 0;
                while address >> dont_care & 1 != 0 {
                    dont_care += 1;
                }
                byte >> (dont_care + 3) == address >> (dont_care + 1)
            }
        }
    };
    for i in 0..ENTRIES {
        let count = (0..size)
            .filter(|&b| matches(i, addr as u128 + b as u128))
            .count() as u64;
        if count == 0 {
            continue;
        }
        let config = pmp.state.config[i];
        let all = count == size;
        let has = |bit: u8| all && (privilege == M && config >> 7 == 0 || config >> bit & 1 != 0);
        return Rights {
            read: has(0),
            write: has(1),
            fetch: has(2),
        };
    }
    let all = privilege == M;
    Rights {
        read: all,
        write: all,
        fetch: all,
    }
}

#[test]
fn no_entries() {
    let p = Pmp::new();
    assert_eq!(p.rights(0, 8, M), Rights::ALL);
    assert_eq!(p.rights(0, 8, S), Rights::NONE);
    assert_eq!(p.page_rights(0x8000_0000, U), Some(Rights::NONE));
    assert_eq!(p.page_rights(0x8000_0000, M), Some(Rights::ALL));
}

/// Configuration, address, address of the entry below; first and last byte matched.
type Case = (u8, u64, u64, Option<(u64, u64)>);

#[test]
fn ranges() {
    let cases: [Case; 10] = [
        (TOR, 0x400, 0x100, Some((0x400, 0xfff))),
        (TOR, 0x100, 0x100, None),
        (TOR, 0x0ff, 0x100, None),
        (NA4, 0x401, 0, Some((0x1004, 0x1007))),
        (A, 0x400, 0, Some((0x1000, 0x1007))),
        (A, 0x401, 0, Some((0x1000, 0x100f))),
        (A, 0x1ff, 0, Some((0, 0xfff))),
        (A, 0x5ff, 0, Some((0x1000, 0x1fff))),
        (A, ADDRESS_WRITABLE, 0, Some((0, (1 << 57) - 1))),
        (0, 0x400, 0, None),
    ];
    for (config, address, below, range) in cases {
        let p = pmp(&[(0, below), (config | R, address)]);
        assert_eq!(
            p.active.first().map(|r| (r.first, r.last)),
            range,
            "{config:#x} {address:#x}"
        );
    }
    // The first entry's lower bound is 0.
    assert_eq!(pmp(&[(TOR, 4)]).active[0].last, 15);
}

#[test]
fn the_first_match_decides_and_must_match_all() {
    let p = pmp(&[(NA4 | R, 0x400), (A | R | W | X, 0x5ff)]);
    assert_eq!(
        p.rights(0x1000, 4, S),
        Rights {
            read: true,
            write: false,
            fetch: false
        }
    );
    assert_eq!(p.rights(0x1004, 4, S), Rights::ALL);
    assert_eq!(p.rights(0x1000, 8, S), Rights::NONE);
    assert_eq!(
        p.rights(0x0ffe, 4, M),
        Rights::NONE,
        "partial matches fail in M too"
    );
    assert_eq!(p.page_rights(0x1800, S), None);
    assert_eq!(p.page_rights(0x2000, S), Some(Rights::NONE));
}

#[test]
fn locked_entries_bind_m() {
    let open = pmp(&[(A | R, 0x5ff)]);
    let locked = pmp(&[(A | R | L, 0x5ff)]);
    assert_eq!(open.rights(0x1000, 8, M), Rights::ALL);
    assert_eq!(
        locked.rights(0x1000, 8, M),
        Rights {
            read: true,
            write: false,
            fetch: false
        }
    );
}

#[test]
fn locks_hold_registers() {
    let mut p = Pmp::new();
    p.write_address(1, 0x100);
    p.write_address(2, 0x200);
    p.write_config(0, u64::from(TOR | R | L) << 16);
    p.write_config(0, 0);
    assert_eq!(p.config(0), u64::from(TOR | R | L) << 16);
    p.write_address(2, 0);
    p.write_address(1, 0);
    assert_eq!(
        (p.address(1), p.address(2)),
        (0x100, 0x200),
        "its own address and the lower bound"
    );
    p.write_address(0, 7);
    assert_eq!(p.address(0), 7);
    // A lock without TOR leaves the entry below alone; one that is off holds too.
    p.write_config(8, u64::from(L) | u64::from(A | L) << 56);
    p.write_address(8, 1);
    p.write_address(14, 3);
    p.write_address(15, 3);
    assert_eq!((p.address(8), p.address(14), p.address(15)), (0, 3, 0));
    // The last entry of one register bounds the first of the next.
    let mut p = Pmp::new();
    p.write_config(8, u64::from(TOR | L));
    p.write_address(7, 5);
    assert_eq!(p.address(7), 0);
}

#[test]
fn write_without_read_is_reserved() {
    let mut p = Pmp::new();
    p.write_config(0, 0x0706_0504_0302_0100);
    assert_eq!(p.config(0), 0x0704_0504_0300_0100);
    p.write_config(0, 0x60);
    assert_eq!(p.config(0), 0);
}

#[test]
fn random_registers_agree_with_the_book() {
    let mut seed = 7u64;
    let mut next = move || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        seed >> 24
    };
    for _ in 0..3000 {
        let mut p = Pmp::new();
        for i in 0..6 {
            // Addresses near two page boundaries, so that regions meet.
            let near = 0x400 * (1 + next() % 2) + next() % 9;
            p.write_address(
                i,
                near.wrapping_sub(4) | (((1 << (next() % 12)) - 1) * (next() & 1)),
            );
        }
        p.write_config(0, next() << 40 ^ next() << 20 ^ next());
        for _ in 0..8 {
            let addr = 0xff0 + next() % 0x1020;
            let size = 1 << (next() % 4);
            for privilege in [U, S, M] {
                let book = by_the_book(&p, addr, size, privilege);
                assert_eq!(p.rights(addr, size, privilege), book, "{addr:#x} {size} {p:x?}");
                if let Some(page) = p.page_rights(addr, privilege)
                    && (addr + size - 1) >> 12 == addr >> 12
                {
                    assert_eq!(page, book, "page of {addr:#x} {p:x?}");
                }
            }
        }
    }
}
