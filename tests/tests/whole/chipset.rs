//! What the PC's chipset does to a processor's accesses and interrupts, tried by a firmware (tests/chipset/chipset.S): A20, the ROM
//! shadow, FERR# and port 0xf0, a local APIC that moves. By every engine, and against QEMU where that does the same.
//!
//! It is assembled by GNU as and ld, which come with the C compiler.

use std::process::Command;
use std::sync::Arc;

use icount::{End, Icount};
use machine::AddressKind;
use machine::boot::{Bios, Boot};
use machine::host::Drives;
use snapshot::{Page, PageId, PageSource, SnapshotError};
use tests::debian::skipped;
use tests::subject::Subject;
use tests::ways::{How, Run, With, compare};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/chipset/chipset.S");
const LIST: u64 = 0x8000;

/// A20: what is read across 1 MiB, which code is called there, and what a write there hits; by port 92 and the keyboard controller.
const A20: [u16; 8] = [1, 0x1111, 2, 0x3333, 0x2222, 1, 0x3333, 0x2222];
/// The shadow: ROM; RAM; RAM that can't be written; ROM again. What is read, and what code returns.
const SHADOW: [u16; 11] = [
    0x5152, 0x5152, 0x11, 0xbbbb, 0x22, 0xbbbb, 0xbbbb, 0x22, 0x5152, 0x11, 0xbbbb,
];
/// The local APIC's page: RAM, version, TPR, RAM, RAM.
const APIC: [u16; 5] = [0x5678, 0x14, 0x20, 0x5678, 0x9abc];

/// What must be on the list, and how much of it QEMU has too.
fn expected() -> (Vec<u16>, usize) {
    let mut list = vec![0x1111];
    list.extend(A20.repeat(3));
    list.extend(SHADOW.repeat(2));
    list.extend([0x5152, 0x1234]);
    let alike = list.len();
    // How many interrupts came, and what is pending: before the instruction that waits, after it, after others, after fnclex.
    for count in 0..3 {
        list.extend([count, count + 1, count + 1, 0x84, 0]);
    }
    list.push(0xffff);
    // Writes beneath the ROM.
    list.extend([0x5152, 0x11, 0xeeee]);
    list.extend(APIC.repeat(2));
    // Another processor has RAM there.
    list.extend([1, 0x5678, 0x14, 0x5678]);
    (list, alike)
}

fn words(bytes: &[u8]) -> Vec<u16> {
    bytes
        .chunks_exact(2)
        .map(|word| u16::from_le_bytes([word[0], word[1]]))
        .collect()
}

/// The firmware, assembled.
fn image() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let run = |program: &str, args: &str| {
        let mut command = Command::new(program);
        let status = command.args(args.split_whitespace()).current_dir(&dir).status();
        assert!(status.is_ok_and(|status| status.success()), "{program} {args}");
    };
    std::fs::copy(SOURCE, dir.path().join("chipset.S")).unwrap();
    run("as", "--64 -o o chipset.S");
    run("ld", "-m elf_x86_64 -Ttext=0 -e 0 --oformat binary -o image o");
    std::fs::read(dir.path().join("image")).unwrap()
}

fn subject() -> Subject {
    let boot = Boot {
        board: "pc".into(),
        memory: 16 << 20,
        harts: 2,
        bios: Bios::File(image()),
        testdev: true,
        ..Boot::default()
    };
    Subject::booted("chipset", &boot, "", Drives::default()).unwrap()
}

#[test]
fn accesses_and_interrupts_go_where_the_chipset_says() {
    let (expected, alike) = expected();
    let mut steps = None;
    for with in [With::Interp, With::Jit, With::PlainJit] {
        let mut run = Run::live(&subject(), with).unwrap();
        let (at, end) = run.finish(Icount(20_000_000)).unwrap();
        let mut bytes = vec![0; 2 * expected.len()];
        assert!(run.machine().debug_read(AddressKind::Physical, LIST, &mut bytes));
        assert_eq!(words(&bytes), expected, "{with:?}");
        assert_eq!(end, Some(End::PowerOff(0x21)));
        assert_eq!(*steps.get_or_insert(at), at);
    }
    match qemu(alike) {
        Some(theirs) => assert_eq!(theirs, expected[..alike]),
        None => skipped("the chipset against QEMU: qemu-system-x86_64 is not there"),
    }
}

/// What is written down under QEMU, if it is there.
fn qemu(len: usize) -> Option<Vec<u16>> {
    let dir = tempfile::tempdir().unwrap();
    let (bios, ram) = (dir.path().join("bios"), dir.path().join("ram"));
    std::fs::write(&bios, image()).unwrap();
    let memory = format!(
        "memory-backend-file,id=m,size=16M,share=on,mem-path={}",
        ram.display()
    );
    let status = Command::new("qemu-system-x86_64")
        .args(["-machine", "pc,memory-backend=m", "-m", "16", "-object", &memory])
        .args(["-display", "none", "-nodefaults", "-no-reboot"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-bios"])
        .arg(&bios)
        .status()
        .ok()?;
    assert_eq!(status.code(), Some(0x10 << 1 | 1), "QEMU ends by the program");
    let ram = std::fs::read(&ram).unwrap();
    Some(words(&ram[LIST as usize..][..2 * len]))
}

/// All pages are in memory.
struct Nowhere;

impl PageSource for Nowhere {
    fn page(&self, id: PageId) -> Result<Arc<Page>, SnapshotError> {
        unreachable!("{id:?} is asked for")
    }

    fn pages(&self, ids: &[PageId]) -> Result<Vec<Arc<Page>>, SnapshotError> {
        ids.iter().map(|id| self.page(*id)).collect()
    }
}

/// Wherever a run is cut or restored from, the map is what it was there.
#[test]
fn the_map_is_part_of_the_state() {
    let subject = subject();
    let places: Vec<u64> = (1..60).map(|n| n * 997).collect();
    let mut seen = Run::live(&subject, With::Jit).unwrap();
    let seen = seen.walk(&How::Straight, &places).unwrap();
    let mut cut = Run::live(&subject, With::Interp).unwrap();
    compare(&seen, &cut.walk(&How::Cut(3), &places).unwrap()).unwrap();
    // Backwards through what was saved, each run on to the next.
    let mut run = Run::live(&subject, With::Jit).unwrap();
    let mut saved = Vec::new();
    for place in &places {
        run.walk(&How::Straight, &[*place]).unwrap();
        saved.push(run.machine().save().unwrap());
    }
    for (at, pair) in saved.windows(2).enumerate().rev() {
        run.machine().restore(&pair[0], &Nowhere).unwrap();
        let found = run.walk(&How::Straight, &[places[at + 1]]).unwrap();
        compare(&found, &seen[at + 1..at + 2]).unwrap();
    }
}
