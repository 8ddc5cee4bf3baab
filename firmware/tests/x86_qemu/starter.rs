//! A PC in QEMU that starts as an [`X86Loaded`] says: the segments are put into memory by QEMU's loader
//! device, and a firmware ROM made here brings the processor into the state, by the manual's own
//! sequence, and sets up what the board has to: the power management block's address and the local APIC.
//!
//! ```text
//! ROM at f_0000:  0000  segments there (ACPI's root pointer)   3000  64-bit code: registers, then the entry
//!                 1000  16-bit code: into protected mode       4000  descriptors and their pointers
//!                 2000  32-bit code: board, control registers  fff0  reset vector
//! ```

use dynasmrt::{DynasmApi, VecAssembler, dynasm, x64::X64Relocation, x86::X86Relocation};
use firmware::x86::{X86Loaded, X86Registers, X86Start, layout};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const QEMU: &str = "qemu-system-x86_64";

/// What came of a run.
pub struct Pc {
    /// What the first serial port sent.
    pub console: String,
    /// QEMU's exit status: 0 after power-off, (v << 1) | 1 after a write of v to port f4. None if it was stopped.
    pub code: Option<i32>,
}

/// A machine that says nothing for so many seconds hangs.
const PATIENCE: Duration = Duration::from_secs(60);

impl Pc {
    /// Starts as `loaded` says and runs to the end, or until the console has said `until`. `None` if QEMU isn't
    /// installed.
    pub fn start(loaded: &X86Loaded, memory: u64, extra: &[&str], until: Option<&str>) -> Option<Pc> {
        let X86Start::Registers(registers) = &loaded.start else {
            panic!("a firmware ROM needs no starter");
        };
        let folder = tempfile::tempdir().unwrap();
        let mut rom = rom(registers);
        let mut arguments = Vec::new();
        for segment in &loaded.segments {
            if let Some(at) = segment.address.checked_sub(ROM)
                && segment.end() <= layout::SHADOW_END
            {
                let at = at as usize;
                rom[at..at + segment.bytes.len()].copy_from_slice(&segment.bytes);
                continue;
            }
            let path = folder.path().join(format!("{:x}", segment.address));
            std::fs::write(&path, &segment.bytes).unwrap();
            let (path, address) = (path.display(), segment.address);
            arguments.push("-device".into());
            arguments.push(format!("loader,file={path},addr={address:#x},force-raw=on"));
        }
        let path = folder.path().join("rom");
        std::fs::write(&path, rom).unwrap();
        arguments.extend(["-bios".into(), path.display().to_string()]);
        arguments.extend(["-m".into(), format!("{}M", memory >> 20)]);
        arguments.extend(extra.iter().map(|word| word.to_string()));
        Pc::run(&arguments, until)
    }

    /// An ELF kernel by QEMU's own loader.
    pub fn kernel(path: &Path) -> Option<Pc> {
        let words = [
            "-icount",
            "shift=0",
            "-m",
            "64M",
            "-kernel",
            &path.display().to_string(),
        ];
        Pc::run(&words.map(String::from), None)
    }

    fn run(arguments: &[String], until: Option<&str>) -> Option<Pc> {
        let child = Command::new(QEMU)
            .args([
                "-M",
                "pc",
                "-cpu",
                "max",
                "-nographic",
                "-monitor",
                "none",
                "-net",
                "none",
            ])
            .args(["-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("SKIPPED: {QEMU} is not installed");
            return None;
        };
        let mut output = child.stdout.take().unwrap();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(size @ 1..) = output.read(&mut chunk) {
                if sender.send(chunk[..size].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut bytes = Vec::new();
        let mut stopped = false;
        loop {
            match receiver.recv_timeout(PATIENCE) {
                Ok(chunk) => bytes.extend(chunk),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => stopped = true,
            }
            let said = String::from_utf8_lossy(&bytes);
            stopped |= until.is_some_and(|text| said.contains(text));
            if stopped {
                child.kill().unwrap();
                break;
            }
        }
        let status = child.wait().unwrap();
        Some(Pc {
            console: String::from_utf8_lossy(&bytes).replace('\r', ""),
            code: status.code().filter(|_| !stopped),
        })
    }
}

const ROM: u64 = 0xf_0000;
const CODE_16: usize = 0x1000;
const CODE_32: usize = 0x2000;
const CODE_64: usize = 0x3000;
const DESCRIPTORS: usize = 0x4000;
const OWN_POINTER: usize = 0x4100;
const GUEST_POINTER: usize = 0x4200;

fn rom(registers: &X86Registers) -> Vec<u8> {
    let mut rom = vec![0; 0x1_0000];
    let mut put = |at: usize, bytes: &[u8]| rom[at..at + bytes.len()].copy_from_slice(bytes);
    put(0xfff0, &[0xea, 0x00, 0x10, 0x00, 0xf0]);
    put(CODE_16, &code_16());
    put(CODE_32, &code_32(registers));
    put(CODE_64, &code_64(registers));
    let flat = [0u64, 0x00cf_9b00_0000_ffff, 0x00cf_9300_0000_ffff];
    put(DESCRIPTORS, &flat.map(u64::to_le_bytes).concat());
    put(OWN_POINTER, &pointer(0x17, ROM + DESCRIPTORS as u64));
    put(GUEST_POINTER, &pointer(registers.gdt_limit, registers.gdt_base));
    rom
}

fn pointer(limit: u16, base: u64) -> Vec<u8> {
    [limit.to_le_bytes().as_slice(), &(base as u32).to_le_bytes()].concat()
}

fn code_16() -> Vec<u8> {
    let [low, high] = (OWN_POINTER as u16).to_le_bytes();
    let mut code = vec![0xfa];
    code.extend([0x66, 0x2e, 0x0f, 0x01, 0x16, low, high]); // lgdt cs:[OWN_POINTER]
    code.extend([0x0f, 0x20, 0xc0, 0x0c, 0x01, 0x0f, 0x22, 0xc0]); // cr0 |= PE
    code.extend([0x66, 0xea]); // jmp 8:CODE_32
    code.extend((ROM as u32 + CODE_32 as u32).to_le_bytes());
    code.extend([8, 0]);
    code
}

fn code_32(r: &X86Registers) -> Vec<u8> {
    let mut asm = VecAssembler::<X86Relocation>::new(0);
    // Function 3 of device 1: PMBASE, and PMIOSE.
    dynasm!(asm
        ; .arch x86
        ; mov eax, 0x10
        ; mov ds, ax
        ; mov es, ax
        ; mov ss, ax
        ; mov dx, 0xcf8
        ; mov eax, 0x8000_0b40_u32 as i32
        ; out dx, eax
        ; mov dx, 0xcfc
        ; mov eax, i32::from(layout::PM) | 1
        ; out dx, eax
        ; mov dx, 0xcf8
        ; mov eax, 0x8000_0b80_u32 as i32
        ; out dx, eax
        ; mov dx, 0xcfc
        ; mov al, 1
        ; out dx, al
    );
    for (offset, value) in layout::VIRTUAL_WIRE {
        dynasm!(asm
            ; .arch x86
            ; mov DWORD [(layout::LAPIC + offset) as i32], value as i32
        );
    }
    dynasm!(asm
        ; .arch x86
        ; lgdt [(ROM as usize + GUEST_POINTER) as i32]
    );
    let long = r.efer != 0;
    if long {
        dynasm!(asm
            ; .arch x86
            ; mov eax, r.cr4 as i32
            ; mov cr4, eax
            ; mov eax, r.cr3 as i32
            ; mov cr3, eax
            ; mov ecx, 0xc000_0080_u32 as i32
            ; xor edx, edx
            // LMA is the processor's to set.
            ; mov eax, r.efer as i32 & !0x400
            ; wrmsr
        );
    }
    let entry = if long {
        ROM as u32 + CODE_64 as u32
    } else {
        r.rip as u32
    };
    dynasm!(asm
        ; .arch x86
        ; mov eax, r.cr0 as i32
        ; mov cr0, eax
        ; mov eax, i32::from(r.data.selector)
        ; mov ds, ax
        ; mov es, ax
        ; mov fs, ax
        ; mov gs, ax
        ; mov ss, ax
        ; mov esp, r.rsp as i32
        ; mov eax, r.rax as i32
        ; mov ebx, r.rbx as i32
        ; mov esi, r.rsi as i32
        ; .bytes [0xeau8]
        ; .u32 entry
        ; .u16 r.cs.selector
    );
    asm.finalize().unwrap()
}

fn code_64(r: &X86Registers) -> Vec<u8> {
    let mut asm = VecAssembler::<X64Relocation>::new(0);
    dynasm!(asm
        ; .arch x64
        ; mov rsp, QWORD r.rsp as i64
        ; mov rbx, QWORD r.rbx as i64
        ; mov rsi, QWORD r.rsi as i64
        ; mov rax, QWORD r.rip as i64
        ; jmp rax
    );
    asm.finalize().unwrap()
}
