//! Registers as gdb sees them: numbers, target description, reads and writes from outside.
//!
//! Numbers are gdb's own: x0 to x31 are 0 to 31, pc 32, f0 to f31 33 to 64, CSR n is 65 + n, the privilege 4161.
//! Privilege checks don't apply to a debugger; what a CSR can hold (WARL) does, and read-only CSRs are refused.
//! `time` isn't offered, because a hart knows virtual time only while an instruction runs.

use super::csr::bits::{M, S, U};
use super::csr::{self, Write, number};
use super::hart::Hart;
use super::slots;
use crate::{RegisterInfo, StateError};
use std::fmt::Write as _;
use std::sync::LazyLock;

#[cfg(test)]
mod tests;

const PC: u32 = 32;
const F0: u32 = 33;
const CSR0: u32 = 65;
const PRIVILEGE: u32 = CSR0 + 4096;

const X_NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];
const F_NAMES: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4",
    "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8",
    "ft9", "ft10", "ft11",
];

static REGISTERS: LazyLock<Vec<RegisterInfo>> = LazyLock::new(|| {
    let info = |name, number| RegisterInfo {
        name,
        number,
        bits: 64,
    };
    let mut all = Vec::new();
    all.extend((0u32..).zip(X_NAMES).map(|(i, name)| info(name, i)));
    all.push(info("pc", PC));
    all.extend((F0..).zip(F_NAMES).map(|(i, name)| info(name, i)));
    for row in csr::ROWS {
        let numbers = CSR0 + row.number as u32..;
        all.extend(
            numbers
                .zip(row.names)
                .filter(|(n, _)| offered(*n))
                .map(|(n, name)| info(name, n)),
        );
    }
    all.push(info("priv", PRIVILEGE));
    all
});

fn offered(number: u32) -> bool {
    number != CSR0 + number::TIME as u32
}

/// All registers, by number.
pub fn registers() -> &'static [RegisterInfo] {
    &REGISTERS
}

/// The target description.
pub fn target_xml() -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n\
         <target version=\"1.0\">\n<architecture>riscv:rv64</architecture>\n",
    );
    let fcsr = CSR0 + number::FCSR as u32;
    let features = [
        ("org.gnu.gdb.riscv.cpu", 0..=PC),
        ("org.gnu.gdb.riscv.fpu", F0..=fcsr),
        ("org.gnu.gdb.riscv.csr", fcsr + 1..=PRIVILEGE - 1),
        ("org.gnu.gdb.riscv.virtual", PRIVILEGE..=PRIVILEGE),
    ];
    for (feature, numbers) in features {
        // Writing to a String can't fail.
        let _ = writeln!(xml, "<feature name=\"{feature}\">");
        if numbers.contains(&F0) {
            xml.push_str(
                "<union id=\"riscv_double\"><field name=\"float\" type=\"ieee_single\"/>\
                 <field name=\"double\" type=\"ieee_double\"/></union>\n",
            );
        }
        for r in registers().iter().filter(|r| numbers.contains(&r.number)) {
            let kind = match r.number {
                1 | PC => "code_ptr",
                2..=4 | 8 => "data_ptr",
                F0..CSR0 => "riscv_double",
                _ => "int",
            };
            let group = match r.number {
                0..=PC => "general",
                F0..CSR0 => "float",
                _ => "system",
            };
            let (name, number, bits) = (r.name, r.number, r.bits);
            let _ = writeln!(
                xml,
                "<reg name=\"{name}\" bitsize=\"{bits}\" regnum=\"{number}\" type=\"{kind}\" group=\"{group}\"/>"
            );
        }
        xml.push_str("</feature>\n");
    }
    xml.push_str("</target>\n");
    xml
}

impl Hart {
    pub(super) fn debug_read(&self, number: u32) -> Option<u64> {
        match number {
            0..PC => Some(self.regs[slots::x(number as u8)]),
            PC => Some(self.regs[slots::PC]),
            F0..CSR0 => Some(self.regs[slots::f((number - F0) as u8)]),
            PRIVILEGE => Some(self.csrs.privilege as u64),
            CSR0..PRIVILEGE if offered(number) => {
                let csr = (number - CSR0) as u16;
                csr::find(csr).map(|row| (row.read)(self, csr, 0))
            }
            _ => None,
        }
    }

    pub(super) fn debug_write(&mut self, number: u32, bytes: &[u8]) -> Result<(), StateError> {
        let refuse = |why: &str| Err(StateError(format!("register {number}: {why}")));
        let Ok(bytes) = <[u8; 8]>::try_from(bytes) else {
            return refuse("needs eight bytes");
        };
        let value = u64::from_le_bytes(bytes);
        match number {
            0 if value == 0 => {}
            0 => return refuse("is always zero"),
            1..PC => self.regs[slots::x(number as u8)] = value,
            PC if value & 1 == 0 => self.regs[slots::PC] = value,
            PC => return refuse("must be even"),
            F0..CSR0 => self.regs[slots::f((number - F0) as u8)] = value,
            PRIVILEGE => match u8::try_from(value) {
                Ok(privilege @ (U | S | M)) => self.csrs.privilege = privilege,
                _ => return refuse("must be 0, 1 or 3"),
            },
            CSR0..PRIVILEGE if offered(number) => {
                let csr = (number - CSR0) as u16;
                let Some(row) = csr::find(csr) else {
                    return refuse("doesn't exist");
                };
                if csr >> 10 == 3 {
                    return refuse("is read-only");
                }
                (row.write)(
                    self,
                    Write {
                        number: csr,
                        value,
                        now: None,
                    },
                );
                self.refresh_pending();
                self.wake();
            }
            _ => return refuse("doesn't exist"),
        }
        Ok(())
    }
}
