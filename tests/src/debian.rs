//! Debian's kernels and initial RAM disks as subjects, where `tests/images.sh` has fetched them.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use machine::boot::{Boot, prepare};

use crate::subject::Subject;

/// The folder of the images: `$TICKBACK_IMAGES`, else `target/images/riscv64`.
#[must_use]
pub fn folder() -> PathBuf {
    std::env::var_os("TICKBACK_IMAGES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/riscv64"),
        PathBuf::from,
    )
}

/// The folder, if it has what a boot needs. A test that gets `None` has said why, and passes.
#[must_use]
pub fn images(test: &str) -> Option<PathBuf> {
    let dir = folder();
    if dir.join("vmlinux").is_file() && dir.join("initramfs.cpio.gz").is_file() {
        return Some(dir);
    }
    let why = format!("{test}: no images in {} (tests/images.sh riscv64)", dir.display());
    skipped(&why);
    None
}

/// The folder of the x86-64 images, `$TICKBACK_IMAGES_X86_64`, else `target/images/x86_64`, if it has these files. A test
/// that gets `None` has said why, and passes.
#[must_use]
pub fn x86_images(test: &str, files: &[&str]) -> Option<PathBuf> {
    let dir = std::env::var_os("TICKBACK_IMAGES_X86_64").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/x86_64"),
        PathBuf::from,
    );
    if files.iter().all(|file| dir.join(file).is_file()) {
        return Some(dir);
    }
    let why = format!("{test}: no images in {} (tests/images.sh x86_64)", dir.display());
    skipped(&why);
    None
}

/// Says that a test was skipped, and why, here and where skipped tests are listed.
#[allow(clippy::print_stderr)]
pub fn skipped(why: &str) {
    eprintln!("skipped {why}");
    if let Some(list) = std::env::var_os("TICKBACK_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(list);
        // What can't be listed was said above.
        let _ = file.and_then(|mut file| writeln!(file, "{why}"));
    }
}

/// What a user does in the shell: some commands with output, files and processes, then power-off.
pub const SESSION: &str = "wait tickback: shell ready
wait # 
send uname -a; nproc\\n
wait # 
send for i in 1 2 3 4; do (busybox sha256sum /bin/busybox &) ; done; wait\\n
wait # 
send ls -l /proc/self/fd | wc -l; cat /proc/interrupts | head -3\\n
wait # 
send sleep 1; echo slept; dd if=/dev/urandom bs=64 count=1 2>/dev/null | md5sum\\n
wait slept
wait # 
send poweroff -f\\n
";

/// A boot of the amd64 kernel on the PC with these words on its command line, and this console script.
///
/// # Errors
/// The images can't be read or placed.
pub fn x86_boot(dir: &Path, name: &str, harts: u8, words: &str, script: &str) -> Result<Subject> {
    let boot = Boot {
        board: "pc".into(),
        memory: 256 << 20,
        harts,
        kernel: Some(std::fs::read(dir.join("vmlinuz")).context("vmlinuz")?),
        initrd: Some(std::fs::read(dir.join("initramfs.cpio.gz")).context("initramfs.cpio.gz")?),
        append: format!("console=ttyS0 {words}"),
        date_ns: 1_700_000_000_000_000_000,
        seed: 7,
        ..Boot::default()
    };
    let (config, images) = prepare(&boot)?;
    Ok(Subject {
        name: name.into(),
        config,
        images,
        script: script.into(),
        hot: Vec::new(),
        watches: Vec::new(),
    })
}

/// A boot with these words on the kernel's command line, and this console script.
///
/// # Errors
/// The images can't be read or placed.
pub fn boot(dir: &Path, name: &str, harts: u8, words: &str, script: &str) -> Result<Subject> {
    let read = |name: &str| {
        let path = dir.join(name);
        std::fs::read(&path).with_context(|| path.display().to_string())
    };
    let boot = Boot {
        memory: 512 << 20,
        harts,
        kernel: Some(read("vmlinux")?),
        initrd: Some(read("initramfs.cpio.gz")?),
        append: format!("console=ttyS0 {words}"),
        date_ns: 1_700_000_000_000_000_000,
        seed: 7,
        ..Boot::default()
    };
    let (config, images) = prepare(&boot)?;
    Ok(Subject {
        name: name.into(),
        config,
        images,
        script: script.into(),
        hot: Vec::new(),
        watches: Vec::new(),
    })
}
