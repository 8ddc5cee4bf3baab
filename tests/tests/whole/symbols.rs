//! The symbols that are found in Debian's kernel, against what the kernel itself says in `/proc/kallsyms`, against
//! `System.map`, and by gdb.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use icount::{End, Icount};
use machine::{History, KernelSymbols, Timeline, TimelineOptions, board};
use tests::debian::{boot, images, x86_boot, x86_images};
use tests::recorded::{console, record};
use tests::subject::Subject;
use tests::ways::With;

/// The kernel's own list, modules and programs for BPF left out.
const SCRIPT: &str = "wait tickback: shell ready
wait # 
send grep -v ] /proc/kallsyms | busybox sha256sum\\n
wait # 
send poweroff -f\\n
";

/// What `sha256sum` says of a file.
fn sha256(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    let sum = String::from_utf8(output.stdout).unwrap();
    sum.split(' ').next().unwrap().into()
}

#[test]
fn a_kernels_symbols_are_those_that_it_says_it_has() {
    let test = "a_kernels_symbols_are_those_that_it_says_it_has";
    if let Some(images) = images(test) {
        let subject = boot(&images, "symbols", 1, "", SCRIPT).unwrap();
        check(test, &subject, &images);
    }
}

#[test]
fn a_kernels_symbols_are_where_kaslr_has_put_them() {
    let test = "a_kernels_symbols_are_where_kaslr_has_put_them";
    if let Some(images) = x86_images(test, &["vmlinuz", "initramfs.cpio.gz"]) {
        let subject = x86_boot(&images, "symbols", 1, "", SCRIPT).unwrap();
        let slide = check(test, &subject, &images);
        assert_ne!(slide, Some(0), "the kernel was not moved");
    }
}

/// Boots, and compares. By how much the kernel was moved, if there is a `System.map`.
fn check(test: &str, subject: &Subject, images: &Path) -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("symbols.tick");
    let (finished, end, _) = record(subject, &dir, With::Jit, 28, &[], 20_000_000_000).unwrap();
    assert_eq!(end, End::PowerOff(0));
    let console = console(&dir).unwrap();
    let console = String::from_utf8_lossy(&console);

    let history = History::open(&dir, With::Jit.engine().unwrap()).unwrap();
    let mut timeline = Timeline::new(history, TimelineOptions::default());
    let mut at = |place: Icount| -> Option<KernelSymbols> {
        timeline.seek(place).unwrap();
        timeline.machine_mut().machine_mut().kernel_symbols()
    };
    let found = at(finished.at).unwrap();
    let listed = found.symbols.iter().fold(String::new(), |mut text, symbol| {
        let _ = writeln!(
            text,
            "{:016x} {} {}",
            symbol.address,
            symbol.kind.letter(),
            symbol.name
        );
        text
    });
    let list = folder.path().join("kallsyms");
    std::fs::write(&list, &listed).unwrap();
    let sum = sha256(&list);
    assert!(console.contains(&sum), "{sum} is not in:\n{console}");
    let banner = found.banner.clone().unwrap();
    assert!(found.mapped && console.contains(&banner), "{banner}");

    // The same at other moments; at power-on a kernel that isn't compressed is there, but no page tables are.
    for part in [3, 5, 7, 9] {
        let there = at(Icount(finished.at.0 / 10 * part)).unwrap();
        assert!(there == found, "{part} tenths");
    }
    if let Some(first) = at(Icount(0)) {
        assert!(!first.mapped && first.symbols == found.symbols);
    }

    let slide = compare(&found, &images.join("System.map"));
    let elf = board::elf_machine(&subject.config.board).unwrap();
    let file = folder.path().join("kernel.elf");
    std::fs::write(&file, found.to_elf(elf)).unwrap();
    let banner = found.named("linux_banner").unwrap().address;
    let start = found.named("start_kernel").unwrap().address;
    let gdb = Command::new("gdb-multiarch")
        .args(["-nx", "-batch", "-ex", "print/x &linux_banner"])
        .args(["-ex", "info line start_kernel", "-ex"])
        .arg(format!("info symbol {:#x}", start + 4))
        .args(["-ex", &format!("info symbol {:#x}", banner + 8)])
        .arg(&file)
        .output();
    match gdb {
        Err(_) => tests::debian::skipped(&format!("{test}: gdb-multiarch is not installed")),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            for expected in [
                format!("= {banner:#x}"),
                format!("{start:#x}"),
                "start_kernel + 4 in section .text".into(),
                "linux_banner + 8 in section .".into(),
            ] {
                assert!(said.contains(&expected), "{expected} is not in:\n{said}");
            }
        }
    }
    slide
}

/// Compares with the list that the kernel's build made; by how much the kernel was moved.
fn compare(found: &KernelSymbols, map: &Path) -> Option<u64> {
    let map = std::fs::read_to_string(map).ok()?;
    let theirs = map.lines().map(|line| {
        let mut words = line.split(' ');
        let address = u64::from_str_radix(words.next().unwrap(), 16).unwrap();
        (address, words.nth(1).unwrap())
    });
    let theirs: BTreeSet<(u64, &str)> = theirs.collect();
    let (text, _) = theirs.iter().find(|(_, name)| *name == "_text")?;
    let slide = found.text().unwrap() - text;
    let ours = found.symbols.iter().map(|symbol| {
        let slide = if symbol.per_cpu { 0 } else { slide };
        (symbol.address - slide, &*symbol.name)
    });
    let ours: BTreeSet<(u64, &str)> = ours.collect();
    assert_eq!(ours.difference(&theirs).next(), None);
    // A kernel doesn't list what is absolute, but for the variables of each CPU.
    let unlisted: Vec<_> = theirs.difference(&ours).collect();
    assert!(unlisted.len() < 10, "{unlisted:x?}");
    Some(slide)
}

#[test]
fn a_guest_that_is_no_linux_has_no_symbols() {
    let subject = tests::subject::embedded().unwrap().swap_remove(0);
    let mut run = tests::ways::Run::live(&subject, With::Jit).unwrap();
    run.finish(Icount(10_000_000)).unwrap();
    assert_eq!(run.machine().kernel_symbols(), None);
}
