//! The disassembler, and what is an instruction at all, against GNU binutils (skipped where they aren't
//! installed).

use std::fmt::Write;
use std::process::{Command, Output};

use super::{Random, random_encoding};
use crate::riscv64::disasm::disassemble;
use crate::riscv64::rows;

const TOOLS: &str = "riscv64-linux-gnu-";
const ARCH: &str = "-march=rv64gc_zicsr_zifencei_zihintpause_zicboz_zba_zbb_zbs_svinval";
const START: u64 = 0x4000_0000;

/// Runs a tool; `None` if it isn't installed.
fn run(tool: &str, args: &[&str]) -> Option<Output> {
    let output = match Command::new(format!("{TOOLS}{tool}")).args(args).output() {
        Ok(output) => output,
        Err(e) => {
            assert_eq!(e.kind(), std::io::ErrorKind::NotFound);
            return None;
        }
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(output)
}

/// Text of each of `insns`, which are laid out from `START` in eight bytes each (the rest c.nop). They take
/// the way through an object file because that says which extensions there are.
fn objdump(insns: &[u32]) -> Option<Vec<String>> {
    let mut source = String::new();
    for insn in insns {
        let (size, fill) = if insn & 3 == 3 { (4, 2) } else { (2, 3) };
        writeln!(source, ".{size}byte {insn:#x}").unwrap();
        (0..fill).for_each(|_| source.push_str(".2byte 1\n"));
    }
    let path = |ext: &str| {
        let name = format!("tickback-objdump-{}-{}.{ext}", std::process::id(), insns.len());
        std::env::temp_dir().join(name).to_string_lossy().into_owned()
    };
    let (asm, object) = (path("s"), path("o"));
    std::fs::write(&asm, source).unwrap();
    let assembled = run(
        "as",
        &[ARCH, "-mpriv-spec=1.12", "-mno-relax", &asm, "-o", &object],
    );
    std::fs::remove_file(&asm).unwrap();
    assembled?;
    // Without symbols, all of the section is taken for instructions.
    run("strip", &["-s", &object])?;
    let vma = format!("--adjust-vma={START:#x}");
    let output = run(
        "objdump",
        &["-D", "-z", "-j", ".text", "-M", "no-aliases", &vma, &object],
    );
    std::fs::remove_file(&object).unwrap();
    let text = String::from_utf8(output?.stdout).unwrap();
    let mut texts = vec![String::new(); insns.len()];
    for line in text.lines() {
        let mut columns = line.split('\t');
        let address = columns.next().unwrap().trim().trim_end_matches(':');
        let Ok(address) = u64::from_str_radix(address, 16) else {
            continue;
        };
        let offset = address.wrapping_sub(START);
        if offset % 8 != 0 {
            continue;
        }
        let rest: Vec<&str> = columns.skip(1).collect();
        texts[offset as usize / 8] = normal(&rest.join(" "));
    }
    Some(texts)
}

/// Without comments and what the two may write differently.
fn normal(text: &str) -> String {
    let text = text.split(['#', '<']).next().unwrap().trim();
    text.trim_end_matches(",dyn").into()
}

/// Whether the two are meant to differ.
fn by_intent(insn: u32, ours: &str, theirs: &str) -> bool {
    let name = ours.split(' ').next().unwrap();
    match name {
        // Unused fields of fences are to be ignored; objdump knows only those that are zero.
        "fence" | "fence.i" => theirs.starts_with(".4byte"),
        "pause" => theirs == "fence w,unknown",
        "c.nop" => theirs == "c.addi zero,0",
        // RV128's name.
        "c.slli" | "c.srli" | "c.srai" => theirs.starts_with(&format!("{name}64 ")),
        // Exact conversions have a rounding mode all the same, which objdump doesn't know or write.
        "fcvt.d.w" | "fcvt.d.wu" | "fcvt.d.s" => {
            theirs.starts_with(".4byte") || ours.trim_end_matches(",rne") == theirs
        }
        // CSRs that this hart doesn't have.
        _ if name.starts_with("csr") => {
            let their_csr = theirs.split(',').nth(1).unwrap_or_default();
            ours.replace(&format!("{:#x}", insn >> 20), their_csr) == theirs
        }
        _ => false,
    }
}

#[test]
fn every_row_reads_as_in_objdump() {
    let mut random = Random::new(4);
    let insns: Vec<u32> = rows::all()
        .flat_map(|row| (0..40).map(move |_| row))
        .map(|row| random_encoding(row, &mut random))
        .collect();
    let Some(theirs) = objdump(&insns) else { return };
    let mut wrong = Vec::new();
    for (i, (insn, theirs)) in insns.iter().zip(theirs).enumerate() {
        let (ours, len) = disassemble(START + 8 * i as u64, &insn.to_le_bytes());
        assert_eq!(len, if insn & 3 == 3 { 4 } else { 2 });
        if ours != theirs && !by_intent(*insn, &ours, &theirs) {
            wrong.push(format!("{insn:08x}: {ours:40} | {theirs}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ (ours | objdump):\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Whether `theirs` says that there is no such instruction on this hart.
fn is_illegal(insn: u32, theirs: &str) -> bool {
    theirs.starts_with(".2byte")
        || theirs.starts_with(".4byte")
        || theirs.ends_with(",unknown") && !theirs.starts_with("fence")
        // Names for what is defined to be illegal or reserved.
        || theirs == "c.unimp"
        || theirs == "c.addi16sp sp,0"
        // Extensions that belong to none of those that the object file names: hypervisor, debug mode.
        || insn & 0x7f == 0x73 && ["h", "dret"].iter().any(|prefix| theirs.starts_with(prefix))
}

#[test]
fn illegal_encodings_are_illegal_in_objdump() {
    let mut random = Random::new(5);
    let mut insns: Vec<u32> = (0..0x10000).filter(|insn| insn & 3 != 3).collect();
    insns.extend((0..100_000).map(|_| {
        // Only opcodes of ours, with every function; else almost nothing would be an instruction.
        const OPCODES: [u32; 21] = [
            0x03, 0x07, 0x0f, 0x13, 0x17, 0x1b, 0x23, 0x27, 0x2f, 0x33, 0x37, 0x3b, 0x43, 0x47, 0x4b, 0x4f,
            0x53, 0x63, 0x67, 0x6f, 0x73,
        ];
        random.next() as u32 & !0x7f | OPCODES[random.below(21) as usize]
    }));
    let Some(theirs) = objdump(&insns) else { return };
    let mut wrong = Vec::new();
    for (i, (insn, theirs)) in insns.iter().zip(theirs).enumerate() {
        let (ours, _) = disassemble(START + 8 * i as u64, &insn.to_le_bytes());
        if ours.starts_with('.') != is_illegal(*insn, &theirs) && !by_intent(*insn, &ours, &theirs) {
            wrong.push(format!("{insn:08x}: {ours:40} | {theirs}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ (ours | objdump):\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
