//! The x86-64 system battery (cpu/src/x86_64/battery) as a BIOS on the whole machine: thousands of transfers, gates, pages,
//! debug traps and instructions in every mode, translated, must leave what the interpreter leaves, which the crate `cpu`
//! holds against QEMU.

use icount::{End, Icount};
use machine::AddressKind;
use machine::boot::{Bios, Boot};
use machine::host::Drives;
use tests::subject::Subject;
use tests::ways::{Run, With};

/// Where the records end, and the length of one (battery.S).
const OUT: u64 = 0x6068;
const RECORDS: u64 = 0x10_0000;
const RECORD: u64 = 160;

fn subject() -> Subject {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../cpu/src/x86_64/battery/battery.bin"
    );
    let mut image = std::fs::read(path).unwrap();
    image.resize(0x1_0000, 0xcc);
    // At the reset vector a jump to its beginning.
    image[0xfff0..0xfff5].copy_from_slice(&[0xea, 0, 0, 0, 0xf0]);
    let boot = Boot {
        board: "pc".into(),
        memory: 16 << 20,
        bios: Bios::File(image),
        testdev: true,
        ..Boot::default()
    };
    Subject::booted("battery", &boot, "", Drives::default()).unwrap()
}

/// Steps, and all that was written down.
fn run(with: With) -> (Icount, Vec<u8>) {
    let mut run = Run::live(&subject(), with).unwrap();
    let (at, end) = run.finish(Icount(100_000_000)).unwrap();
    assert_eq!(end, Some(End::PowerOff(0x21)));
    let mut read = |addr: u64, len: u64| {
        let mut bytes = vec![0; len as usize];
        assert!(run.machine().debug_read(AddressKind::Physical, addr, &mut bytes));
        bytes
    };
    let out = u64::from_le_bytes(read(OUT, 8).try_into().unwrap());
    assert!(out > RECORDS + 15_000 * RECORD, "{out:#x}");
    (at, read(RECORDS, out - RECORDS))
}

#[test]
fn translated_code_does_what_the_interpreter_does() {
    let expected = run(With::Interp);
    for with in [With::Jit, With::PlainJit] {
        let (at, records) = run(with);
        let size = RECORD as usize;
        let pairs = records.chunks(size).zip(expected.1.chunks(size));
        let first = pairs.enumerate().find(|(_, (ours, theirs))| ours != theirs);
        assert!(first.is_none(), "{first:x?}");
        assert_eq!((at, records.len()), (expected.0, expected.1.len()));
    }
}
