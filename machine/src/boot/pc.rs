//! Starting the board `pc`: a BIOS from the reset vector, or a kernel as a boot loader would enter it.

use firmware::x86::{X86Boot, X86Start, load_bios, load_x86_kernel};

use super::{Bios, Boot};
use crate::board::Images;
use crate::config::{Config, FirmwareFile, HartStart, StartMode};
use crate::error::MachineError;

/// EFER.LMA.
const LONG_MODE_ACTIVE: u64 = 1 << 10;

/// The name under which SeaBIOS finds a display's option ROM.
const DISPLAY_ROM: &str = "vgaroms/vgabios.bin";

/// Places everything.
pub(super) fn prepare(boot: &Boot, mut config: Config) -> Result<(Config, Images), MachineError> {
    config.cdrom = boot.cdrom;
    config.testdev = boot.testdev;
    config.on_shutdown = boot.on_shutdown;
    let loaded = match (&boot.bios, &boot.kernel) {
        (Bios::File(_), Some(_)) => {
            return Err(MachineError::Config(
                "a --bios starts what is on a drive: give either a --bios or a --kernel".into(),
            ));
        }
        (Bios::File(bytes), None) => {
            if let Some(rom) = &boot.display_rom {
                config.firmware_files.push(FirmwareFile {
                    name: DISPLAY_ROM.into(),
                    bytes: rom.clone(),
                });
            }
            load_bios(bytes)?
        }
        (Bios::BuiltIn | Bios::None, Some(kernel)) => load_x86_kernel(&X86Boot {
            memory: boot.memory,
            cpus: boot.harts.into(),
            kernel,
            initrd: boot.initrd.as_deref(),
            command_line: &boot.append,
            vga: true,
        })?,
        (Bios::BuiltIn | Bios::None, None) => {
            return Err(MachineError::Config(
                "nothing to start: give a --kernel or a --bios".into(),
            ));
        }
    };
    // The others wait for a start-up interrupt.
    config.harts.fill(HartStart {
        pc: RESET_VECTOR,
        args: [0; 3],
        mode: StartMode::Board,
    });
    if let X86Start::Registers(r) = &loaded.start {
        config.harts[0] = if r.efer & LONG_MODE_ACTIVE != 0 {
            HartStart {
                pc: r.rip,
                args: [r.rsi, r.rsp, r.cr3],
                mode: StartMode::Long,
            }
        } else {
            HartStart {
                pc: r.rip,
                args: [r.rax, r.rbx, r.rsp],
                mode: StartMode::Protected,
            }
        };
    }
    let segments = loaded.segments.into_iter();
    let images = segments.map(|segment| (segment.address, segment.bytes));
    Ok((config, images.collect()))
}

/// Where x86 begins.
const RESET_VECTOR: u64 = 0xffff_fff0;
