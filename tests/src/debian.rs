//! Debian's kernels and initial RAM disks as subjects, where `tests/images.sh` has fetched them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use machine::boot::{Bios, Boot};
use machine::disk::DriveConfig;
use machine::host::{DriveImage, Drives};

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

/// The folder of the x86-64 images: `$TICKBACK_IMAGES_X86_64`, else `target/images/x86_64`.
#[must_use]
pub fn x86_folder() -> PathBuf {
    std::env::var_os("TICKBACK_IMAGES_X86_64").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/x86_64"),
        PathBuf::from,
    )
}

/// The folder of the x86-64 images, `$TICKBACK_IMAGES_X86_64`, else `target/images/x86_64`, if it has these files. A test
/// that gets `None` has said why, and passes.
#[must_use]
pub fn x86_images(test: &str, files: &[&str]) -> Option<PathBuf> {
    let dir = x86_folder();
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

/// The same with a disk: it is read, written and read again.
pub const DISK_SESSION: &str = "wait tickback: shell ready
wait # 
send uname -a; nproc; (dd if=/dev/vda bs=64k | sha256sum &); busybox sha256sum /bin/busybox\\n
wait  -
wait # 
send for i in 1 2 3 4; do (dd if=/dev/vda bs=4k skip=$((i*100)) count=100 2>/dev/null | sha256sum &) ; done; wait\\n
wait # 
send dd if=/dev/vda of=/dev/vda bs=64k count=16 seek=32 2>/dev/null; sync; echo wrote\\n
wait wrote
wait # 
send echo 3 >/proc/sys/vm/drop_caches; sha256sum /dev/vda; cat /proc/interrupts | head -3; sleep 1; echo slept\\n
wait slept
wait # 
send poweroff -f\\n
";

/// Gives the subject a disk of `len` random bytes (a multiple of 512), a file of `folder`.
///
/// # Errors
/// It can't be written.
pub fn with_disk(mut subject: Subject, folder: &Path, len: usize) -> Result<Subject> {
    let path = folder.join("disk.img");
    let mut random = crate::Random(len as u64);
    let bytes: Vec<u8> = (0..len / 8).flat_map(|_| random.number().to_le_bytes()).collect();
    std::fs::write(&path, bytes)?;
    let image = DriveImage::open(&path, false, false)?;
    subject.config.drives = vec![DriveConfig {
        sectors: image.sectors(),
        read_only: false,
    }];
    subject.drives = Arc::new(Drives::new(vec![image]));
    Ok(subject)
}

fn read(dir: &Path, name: &str) -> Result<Vec<u8>> {
    let path = dir.join(name);
    std::fs::read(&path).with_context(|| path.display().to_string())
}

/// What all boots have in common.
fn dated() -> Boot {
    Boot {
        date_ns: 1_700_000_000_000_000_000,
        seed: 7,
        ..Boot::default()
    }
}

/// A boot of the amd64 kernel on the PC with these words on its command line, and this console script.
///
/// # Errors
/// The images can't be read or placed.
pub fn x86_boot(dir: &Path, name: &str, harts: u8, words: &str, script: &str) -> Result<Subject> {
    let boot = Boot {
        board: "pc".into(),
        memory: 256 << 20,
        harts,
        kernel: Some(read(dir, "vmlinuz")?),
        initrd: Some(read(dir, "initramfs.cpio.gz")?),
        append: format!("console=ttyS0 {words}"),
        ..dated()
    };
    Subject::booted(name, &boot, script, Drives::default())
}

/// The files that [`bios_boot`] wants.
pub const BIOS_FILES: [&str; 3] = ["bios-256k.bin", "vgabios-stdvga.bin", "grub-rescue-cdrom.iso"];

/// What a user does at GRUB's menu: its command line, a command, power-off. The screen is waited for.
pub const GRUB_SESSION: &str = "screen GNU GRUB
key c
screen grub>
type ls\\n
screen msdos1
type halt\\n
";

/// SeaBIOS from reset in real mode, and GRUB's rescue image from a virtio disk, with this console script.
///
/// # Errors
/// The images can't be read or placed.
pub fn bios_boot(dir: &Path, name: &str, script: &str) -> Result<Subject> {
    let [bios, display, disk] = BIOS_FILES;
    let image = DriveImage::open(&dir.join(disk), true, false)?;
    let boot = Boot {
        board: "pc".into(),
        memory: 64 << 20,
        bios: Bios::File(read(dir, bios)?),
        display_rom: Some(read(dir, display)?),
        drives: vec![DriveConfig {
            sectors: image.sectors(),
            read_only: true,
        }],
        ..dated()
    };
    Subject::booted(name, &boot, script, Drives::new(vec![image]))
}

/// A boot with these words on the kernel's command line, and this console script.
///
/// # Errors
/// The images can't be read or placed.
pub fn boot(dir: &Path, name: &str, harts: u8, words: &str, script: &str) -> Result<Subject> {
    let boot = Boot {
        memory: 512 << 20,
        harts,
        kernel: Some(read(dir, "vmlinux")?),
        initrd: Some(read(dir, "initramfs.cpio.gz")?),
        append: format!("console=ttyS0 {words}"),
        ..dated()
    };
    Subject::booted(name, &boot, script, Drives::default())
}
