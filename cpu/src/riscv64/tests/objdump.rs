//! The disassembler, and what is an instruction at all, against GNU objdump (skipped where it isn't
//! installed).

use std::process::Command;

use super::{Random, random_encoding};
use crate::riscv64::disasm::disassemble;
use crate::riscv64::rows;

const OBJDUMP: &str = "riscv64-linux-gnu-objdump";
const START: u64 = 0x4000_0000;

/// Text of each of `insns`, which are laid out from `START` in eight bytes each (the rest c.nop).
fn objdump(insns: &[u32]) -> Option<Vec<String>> {
    const C_NOP: [u8; 2] = [1, 0];
    let mut bytes = Vec::new();
    for insn in insns {
        let len = if insn & 3 == 3 { 4 } else { 2 };
        bytes.extend_from_slice(&insn.to_le_bytes()[..len]);
        while bytes.len() % 8 != 0 {
            bytes.extend_from_slice(&C_NOP);
        }
    }
    let path = std::env::temp_dir().join(format!("tickback-objdump-{}-{}", std::process::id(), insns.len()));
    std::fs::write(&path, bytes).unwrap();
    let output = Command::new(OBJDUMP)
        .args(["-D", "-b", "binary", "-m", "riscv:rv64", "-M", "no-aliases", "-M", "priv-spec=1.12"])
        .arg(format!("--adjust-vma={START:#x}"))
        .arg(&path)
        .output();
    std::fs::remove_file(&path).unwrap();
    let output = match output {
        Ok(output) => output,
        Err(e) => {
            assert_eq!(e.kind(), std::io::ErrorKind::NotFound);
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut texts = vec![String::new(); insns.len()];
    for line in text.lines() {
        let mut columns = line.split('\t');
        let address = columns.next().unwrap().trim().trim_end_matches(':');
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let offset = address - START;
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

#[test]
fn every_row_reads_as_in_objdump() {
    let mut random = Random::new(4);
    let insns: Vec<u32> =
        rows::all().flat_map(|row| (0..40).map(move |_| row)).map(|row| random_encoding(row, &mut random)).collect();
    let Some(theirs) = objdump(&insns) else { return };
    let mut wrong = Vec::new();
    for (i, (insn, theirs)) in insns.iter().zip(theirs).enumerate() {
        let (ours, len) = disassemble(START + 8 * i as u64, &insn.to_le_bytes());
        assert_eq!(len, if insn & 3 == 3 { 4 } else { 2 });
        if ours != theirs {
            wrong.push(format!("{insn:08x}: {ours:40} | {theirs}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ (ours | objdump):\n{}", wrong.len(), wrong.join("\n"));
}

/// What neither reads as an instruction, or both do.
#[test]
fn illegal_encodings_are_illegal_in_objdump() {
    let mut random = Random::new(5);
    let mut insns: Vec<u32> = (0..0x10000).filter(|insn| insn & 3 != 3).collect();
    insns.extend((0..60_000).map(|_| {
        // Only opcodes of ours, with every function; else almost nothing would be an instruction.
        const OPCODES: [u32; 18] = [
            0x03, 0x07, 0x0f, 0x13, 0x17, 0x1b, 0x23, 0x27, 0x2f, 0x33, 0x37, 0x3b, 0x43, 0x53, 0x63, 0x67, 0x6f, 0x73,
        ];
        random.next() as u32 & !0x7f | OPCODES[random.below(18) as usize]
    }));
    let Some(theirs) = objdump(&insns) else { return };
    let mut wrong = Vec::new();
    for (i, (insn, theirs)) in insns.iter().zip(theirs).enumerate() {
        let (ours, _) = disassemble(START + 8 * i as u64, &insn.to_le_bytes());
        let (we, they) = (!ours.starts_with('.'), !theirs.starts_with(".2byte") && !theirs.starts_with(".4byte"));
        if we != they {
            wrong.push(format!("{insn:08x}: {ours:40} | {theirs}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ (ours | objdump):\n{}", wrong.len(), wrong.join("\n"));
}
