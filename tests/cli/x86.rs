//! The board `pc`: the demo on it, and what it refuses.

use crate::support::Place;

#[test]
fn x86_demo_finds_its_culprit() {
    let place = Place::new();
    place
        .run(&["demo", "--guest", "x86_64", "--output", "d.tick"])
        .exits(0)
        .says(&["all equal", "<list_remove+20>", "gdb-multiarch"]);
    place
        .run(&["replay", "--quiet", "d.tick"])
        .exits(0)
        .says(&["all equal"]);
    place.run(&["info", "d.tick"]).exits(0).says(&["pc"]);
    assert!(place.path("d.tick").join("demo.elf").is_file());
}

#[test]
fn files_that_a_pc_does_not_start() {
    let place = Place::new();
    place.file("odd", vec![0x90; 100_000]);
    place.file("bios", vec![0x90; 64 << 10]);
    place.file("empty", "");
    place.file("raw", [0x37, 1, 0, 16, 19]);
    place.file("riscv.elf", firmware::demo().to_elf());
    place.file("pc.elf", firmware::x86_demo().to_elf());
    // A bzImage's header (boot flag, "HdrS", protocol 2.15, 64-bit entry) and nothing behind it.
    let mut cut = vec![0; 2048];
    cut[0x1f1] = 30;
    cut[0x1f4..0x1f8].copy_from_slice(&100_000u32.to_le_bytes());
    cut[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    cut[0x200..0x202].copy_from_slice(&[0xeb, 0x6a]);
    cut[0x202..0x206].copy_from_slice(b"HdrS");
    cut[0x206..0x208].copy_from_slice(&0x20fu16.to_le_bytes());
    // LOADED_HIGH; XLF_KERNEL_64: it has a 64-bit entry.
    cut[0x211] = 1;
    cut[0x236] = 1;
    place.file("cut", cut);
    let pc = |arguments: &[&str]| place.run(&[&["run", "--machine", "pc", "-m", "64M"], arguments].concat());
    pc(&[]).refuses(2, &["nothing to start"]);
    pc(&["--bios", "odd"]).refuses(1, &["odd", "64 KiB", "100000"]);
    pc(&["--bios", "empty"]).refuses(1, &["empty"]);
    pc(&["--bios", "missing"]).refuses(1, &["missing", "No such file"]);
    pc(&["--bios", "bios", "--cdrom", "missing.iso"]).refuses(1, &["missing.iso", "No such file"]);
    pc(&["--bios", "bios", "--kernel", "pc.elf"]).refuses(1, &["either a --bios or a --kernel"]);
    pc(&["--kernel", "riscv.elf"]).refuses(1, &["riscv.elf"]);
    pc(&["--kernel", "raw"]).refuses(1, &["raw", "no kernel of a known kind"]);
    pc(&["--kernel", "empty"]).refuses(1, &["empty"]);
    pc(&["--kernel", "cut"]).refuses(1, &["cut", "cut off"]);
}
