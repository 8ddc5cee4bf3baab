//! Instructions as text, in the syntax of the GNU assembler: canonical mnemonics (`addi a0,a1,0`, not `mv`),
//! ABI register names, targets as absolute addresses, CSRs by name.
//!
//! Source: RISC-V Assembly Programmer's Manual; RISC-V Calling Conventions.

use super::decode;
use super::rows::*;

const X_NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

const F_NAMES: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4",
    "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8",
    "ft9", "ft10", "ft11",
];

/// Text and length in bytes of the instruction at the start of `bytes`, which stand at address `pc`. What
/// is no instruction is written as data.
pub fn disassemble(pc: u64, bytes: &[u8]) -> (String, usize) {
    let half = |at: usize| Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let Some(low) = half(0) else {
        return match bytes.first() {
            Some(byte) => (format!(".byte 0x{byte:02x}"), 1),
            None => (String::new(), 0),
        };
    };
    let (insn, len) = match (decode::length(low), half(2)) {
        (4, Some(high)) => (u32::from(low) | u32::from(high) << 16, 4),
        (4, None) => return (format!(".2byte 0x{low:04x}"), 2),
        _ => (u32::from(low), 2),
    };
    let text = decode::decode(insn).and_then(|row| {
        let (suffix, operands) = row.form.text(insn, pc)?;
        let separator = if operands.is_empty() { "" } else { " " };
        Some(format!("{}{suffix}{separator}{operands}", row.name))
    });
    let text = text.unwrap_or_else(|| match len {
        2 => format!(".2byte 0x{insn:04x}"),
        _ => format!(".4byte 0x{insn:08x}"),
    });
    (text, len)
}

/// How the operands of a format are written.
pub(crate) trait Operands {
    /// The operands of an instruction at `pc`.
    fn text(&self, pc: u64) -> String;
    /// What is appended to the mnemonic.
    fn suffix(&self) -> &'static str {
        ""
    }
}

fn x(X(n): X) -> &'static str {
    X_NAMES[usize::from(n & 31)]
}

fn f(F(n): F) -> &'static str {
    F_NAMES[usize::from(n & 31)]
}

/// A rounding mode after other operands; the dynamic one, being usual, isn't written.
fn rm(RmField(n): RmField) -> &'static str {
    match n {
        0 => ",rne",
        1 => ",rtz",
        2 => ",rdn",
        3 => ",rup",
        4 => ",rmm",
        _ => "",
    }
}

fn order(Order(aq_rl): Order) -> &'static str {
    match aq_rl & 3 {
        0 => "",
        1 => ".rl",
        2 => ".aq",
        _ => ".aqrl",
    }
}

fn target(pc: u64, offset: i32) -> u64 {
    pc.wrapping_add(offset as u64)
}

/// The accesses that a fence orders.
fn fence_set(bits: u8) -> String {
    let letters: String = "iorw"
        .chars()
        .enumerate()
        .filter(|(i, _)| bits >> (3 - i) & 1 != 0)
        .map(|(_, letter)| letter)
        .collect();
    if letters.is_empty() {
        "unknown".into()
    } else {
        letters
    }
}

impl Operands for R {
    fn text(&self, _: u64) -> String {
        format!("{},{},{}", x(self.rd), x(self.rs1), x(self.rs2))
    }
}

impl Operands for I {
    fn text(&self, _: u64) -> String {
        format!("{},{},{}", x(self.rd), x(self.rs1), self.imm)
    }
}

impl Operands for Shift {
    fn text(&self, _: u64) -> String {
        format!("{},{},{:#x}", x(self.rd), x(self.rs1), self.shamt)
    }
}

impl Operands for Unary {
    fn text(&self, _: u64) -> String {
        format!("{},{}", x(self.rd), x(self.rs1))
    }
}

impl Operands for Imm {
    fn text(&self, _: u64) -> String {
        format!("{},{}", x(self.rd), self.imm)
    }
}

impl Operands for ShiftImm {
    fn text(&self, _: u64) -> String {
        format!("{},{:#x}", x(self.rd), self.shamt)
    }
}

impl Operands for Load {
    fn text(&self, _: u64) -> String {
        format!("{},{}({})", x(self.rd), self.offset, x(self.rs1))
    }
}

impl Operands for Store {
    fn text(&self, _: u64) -> String {
        format!("{},{}({})", x(self.rs2), self.offset, x(self.rs1))
    }
}

impl Operands for Branch {
    fn text(&self, pc: u64) -> String {
        format!("{},{},{:#x}", x(self.rs1), x(self.rs2), target(pc, self.offset))
    }
}

impl Operands for BranchZero {
    fn text(&self, pc: u64) -> String {
        format!("{},{:#x}", x(self.rs1), target(pc, self.offset))
    }
}

impl Operands for Upper {
    fn text(&self, _: u64) -> String {
        format!("{},{:#x}", x(self.rd), self.imm as u32 >> 12)
    }
}

impl Operands for Jal {
    fn text(&self, pc: u64) -> String {
        format!("{},{:#x}", x(self.rd), target(pc, self.offset))
    }
}

impl Operands for Jump {
    fn text(&self, pc: u64) -> String {
        format!("{:#x}", target(pc, self.offset))
    }
}

impl Operands for Reg {
    fn text(&self, _: u64) -> String {
        x(self.rs1).into()
    }
}

impl Operands for Amo {
    fn text(&self, _: u64) -> String {
        format!("{},{},({})", x(self.rd), x(self.rs2), x(self.rs1))
    }
    fn suffix(&self) -> &'static str {
        order(self.order)
    }
}

impl Operands for Lr {
    fn text(&self, _: u64) -> String {
        format!("{},({})", x(self.rd), x(self.rs1))
    }
    fn suffix(&self) -> &'static str {
        order(self.order)
    }
}

impl Operands for Csr {
    fn text(&self, _: u64) -> String {
        format!("{},{},{}", x(self.rd), csr(self.csr), x(self.rs1))
    }
}

impl Operands for CsrImm {
    fn text(&self, _: u64) -> String {
        format!("{},{},{}", x(self.rd), csr(self.csr), self.uimm)
    }
}

impl Operands for Fence {
    fn text(&self, _: u64) -> String {
        format!("{},{}", fence_set(self.pred), fence_set(self.succ))
    }
}

impl Operands for Plain {
    fn text(&self, _: u64) -> String {
        String::new()
    }
}

impl Operands for Sfence {
    fn text(&self, _: u64) -> String {
        format!("{},{}", x(self.rs1), x(self.rs2))
    }
}

impl Operands for Cbo {
    fn text(&self, _: u64) -> String {
        format!("({})", x(self.rs1))
    }
}

impl Operands for FR {
    fn text(&self, _: u64) -> String {
        format!("{},{},{}", f(self.rd), f(self.rs1), f(self.rs2))
    }
}

impl Operands for FRm {
    fn text(&self, _: u64) -> String {
        format!("{},{},{}{}", f(self.rd), f(self.rs1), f(self.rs2), rm(self.rm))
    }
}

impl Operands for FUnary {
    fn text(&self, _: u64) -> String {
        format!("{},{}{}", f(self.rd), f(self.rs1), rm(self.rm))
    }
}

impl Operands for FFused {
    fn text(&self, _: u64) -> String {
        format!(
            "{},{},{},{}{}",
            f(self.rd),
            f(self.rs1),
            f(self.rs2),
            f(self.rs3),
            rm(self.rm)
        )
    }
}

impl Operands for FCompare {
    fn text(&self, _: u64) -> String {
        format!("{},{},{}", x(self.rd), f(self.rs1), f(self.rs2))
    }
}

impl Operands for FToX {
    fn text(&self, _: u64) -> String {
        format!("{},{}{}", x(self.rd), f(self.rs1), rm(self.rm))
    }
}

impl Operands for XToF {
    fn text(&self, _: u64) -> String {
        format!("{},{}{}", f(self.rd), x(self.rs1), rm(self.rm))
    }
}

impl Operands for FMoveX {
    fn text(&self, _: u64) -> String {
        format!("{},{}", x(self.rd), f(self.rs1))
    }
}

impl Operands for XMoveF {
    fn text(&self, _: u64) -> String {
        format!("{},{}", f(self.rd), x(self.rs1))
    }
}

impl Operands for FLoad {
    fn text(&self, _: u64) -> String {
        format!("{},{}({})", f(self.rd), self.offset, x(self.rs1))
    }
}

impl Operands for FStore {
    fn text(&self, _: u64) -> String {
        format!("{},{}({})", f(self.rs2), self.offset, x(self.rs1))
    }
}

/// A CSR's name, or its number. Counters and PMP registers come in runs.
fn csr(number: u16) -> String {
    let run = |name: &str, first: u16, index: u16| format!("{name}{}", number - first + index);
    match number {
        0xc03..=0xc1f => run("hpmcounter", 0xc03, 3),
        0xb03..=0xb1f => run("mhpmcounter", 0xb03, 3),
        0x323..=0x33f => run("mhpmevent", 0x323, 3),
        0x3a0..=0x3af => run("pmpcfg", 0x3a0, 0),
        0x3b0..=0x3ef => run("pmpaddr", 0x3b0, 0),
        _ => match CSR_NAMES.binary_search_by_key(&number, |&(n, _)| n) {
            Ok(at) => CSR_NAMES[at].1.into(),
            Err(_) => format!("{number:#x}"),
        },
    }
}

/// Names of CSRs, by number.
#[rustfmt::skip]
const CSR_NAMES: &[(u16, &str)] = &[
    (0x001, "fflags"), (0x002, "frm"), (0x003, "fcsr"), (0x100, "sstatus"),
    (0x104, "sie"), (0x105, "stvec"), (0x106, "scounteren"), (0x10a, "senvcfg"),
    (0x140, "sscratch"), (0x141, "sepc"), (0x142, "scause"), (0x143, "stval"),
    (0x144, "sip"), (0x14d, "stimecmp"), (0x180, "satp"), (0x300, "mstatus"),
    (0x301, "misa"), (0x302, "medeleg"), (0x303, "mideleg"), (0x304, "mie"),
    (0x305, "mtvec"), (0x306, "mcounteren"), (0x30a, "menvcfg"), (0x320, "mcountinhibit"),
    (0x340, "mscratch"), (0x341, "mepc"), (0x342, "mcause"), (0x343, "mtval"),
    (0x344, "mip"), (0x34a, "mtinst"), (0x34b, "mtval2"), (0x5a8, "scontext"),
    (0x747, "mseccfg"), (0x7a0, "tselect"), (0x7a1, "tdata1"), (0x7a2, "tdata2"),
    (0x7a3, "tdata3"), (0x7a4, "tinfo"), (0x7a5, "tcontrol"), (0x7a8, "mcontext"),
    (0x7b0, "dcsr"), (0x7b1, "dpc"), (0x7b2, "dscratch0"), (0x7b3, "dscratch1"),
    (0xb00, "mcycle"), (0xb02, "minstret"), (0xc00, "cycle"), (0xc01, "time"),
    (0xc02, "instret"), (0xda0, "scountovf"), (0xf11, "mvendorid"), (0xf12, "marchid"),
    (0xf13, "mimpid"), (0xf14, "mhartid"), (0xf15, "mconfigptr"),
];
