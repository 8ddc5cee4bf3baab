//! Files that are to be started: ELF, Linux's Image and bzImage, multiboot, BIOSes, gzip around them.

use firmware::x86::{X86Boot, load_x86_kernel};

use super::bytes::Bytes;

const RAM: u64 = 16 << 20;

/// A file of random content, for both guests.
pub fn kernels(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let memory = RAM << (bytes.byte() % 4);
    let initrd = bytes.byte();
    let file = bytes.rest();
    if let Ok(loaded) = firmware::load_kernel(file, firmware::layout::RAM, memory) {
        let ram = firmware::layout::RAM..=firmware::layout::RAM + memory;
        for segment in &loaded.segments {
            assert!(
                ram.contains(&segment.address) && ram.contains(&segment.end()),
                "outside of RAM"
            );
        }
    }
    let initrd = vec![initrd; usize::from(initrd) * 64];
    let boot = X86Boot {
        memory,
        cpus: 1,
        kernel: file,
        initrd: (!initrd.is_empty()).then_some(&initrd),
        command_line: "console=ttyS0",
        vga: true,
    };
    if let Ok(loaded) = load_x86_kernel(&boot) {
        let mut end = 0;
        for segment in &loaded.segments {
            assert!(segment.address >= end, "segments overlap");
            end = segment.end();
        }
    }
}
