//! Registers as gdb sees them: numbers, target description, reads and writes from outside.
//!
//! Names and order of the first features are those that gdb knows for x86-64 (gdb/features/i386/64bit-*.xml); the
//! description says the numbers. `rip` is the linear program counter, whatever the base of CS. Segment,
//! control and debug registers can be read and not written: each is more than a number.

use super::bits::*;
use super::hart::Hart;
use super::registers::{CS, DS, ES, FS, GS, SS};
use super::slots;
use super::x87::FXSAVE_X87;
use crate::softfloat::extended::F80;
use crate::{RegisterInfo, StateError};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15: gdb's order, in that of the encoding.
const GENERAL: [u8; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
const SEGMENTS: [u8; 6] = [CS, SS, DS, ES, FS, GS];

const RIP: u32 = 16;
const EFLAGS: u32 = 17;
const SEGMENT0: u32 = 18;
const ST0: u32 = 24;
const FCTRL: u32 = 32;
const FS_BASE: u32 = 40;
const XMM0: u32 = 42;
const MXCSR: u32 = 58;
const SYSTEM0: u32 = 59;

const NAMES: [&str; 59] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "rip", "eflags", "cs", "ss", "ds", "es", "fs", "gs", "st0", "st1", "st2", "st3", "st4", "st5",
    "st6", "st7", "fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop", "fs_base", "gs_base",
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
    "xmm12", "xmm13", "xmm14", "xmm15", "mxcsr",
];

/// A register of the system's side.
type System = (&'static str, fn(&Hart) -> u64);

const SYSTEM: &[System] = &[
    ("k_gs_base", |h| h.regs[slots::KERNEL_GS_BASE]),
    ("cr0", |h| h.core.cr0),
    ("cr2", |h| h.core.cr2),
    ("cr3", |h| h.core.cr3),
    ("cr4", |h| h.core.cr4),
    ("efer", |h| h.core.efer),
    ("xcr0", |h| h.core.xcr0),
    ("cpl", |h| h.core.cpl.into()),
    ("cs_base", |h| h.segment(CS).base),
    ("ss_base", |h| h.segment(SS).base),
    ("ds_base", |h| h.segment(DS).base),
    ("es_base", |h| h.segment(ES).base),
    ("gdt_base", |h| h.core.gdtr.base),
    ("gdt_limit", |h| h.core.gdtr.limit.into()),
    ("idt_base", |h| h.core.idtr.base),
    ("idt_limit", |h| h.core.idtr.limit.into()),
    ("ldt", |h| h.core.ldtr.selector.into()),
    ("tr", |h| h.core.tr.selector.into()),
    ("tr_base", |h| h.core.tr.base),
    ("dr0", |h| h.core.dr[0]),
    ("dr1", |h| h.core.dr[1]),
    ("dr2", |h| h.core.dr[2]),
    ("dr3", |h| h.core.dr[3]),
    ("dr6", |h| h.core.dr6),
    ("dr7", |h| h.core.dr7),
    ("star", |h| h.core.msrs.star),
    ("lstar", |h| h.core.msrs.lstar),
    ("sfmask", |h| h.core.msrs.sfmask),
];

static REGISTERS: LazyLock<Vec<RegisterInfo>> = LazyLock::new(|| {
    let bits = |number| match number {
        EFLAGS..ST0 | FCTRL..FS_BASE | MXCSR => 32,
        ST0..FCTRL => 80,
        XMM0..MXCSR => 128,
        _ => 64,
    };
    let names = NAMES.into_iter().chain(SYSTEM.iter().map(|(name, _)| *name));
    (0u32..)
        .zip(names)
        .map(|(number, name)| RegisterInfo {
            name,
            number,
            bits: bits(number),
        })
        .collect()
});

/// All registers, by number.
pub fn registers() -> &'static [RegisterInfo] {
    &REGISTERS
}

const FLAGS_TYPE: &str = "<flags id=\"x86_eflags\" size=\"4\">\
<field name=\"CF\" start=\"0\" end=\"0\"/><field name=\"\" start=\"1\" end=\"1\"/>\
<field name=\"PF\" start=\"2\" end=\"2\"/><field name=\"AF\" start=\"4\" end=\"4\"/>\
<field name=\"ZF\" start=\"6\" end=\"6\"/><field name=\"SF\" start=\"7\" end=\"7\"/>\
<field name=\"TF\" start=\"8\" end=\"8\"/><field name=\"IF\" start=\"9\" end=\"9\"/>\
<field name=\"DF\" start=\"10\" end=\"10\"/><field name=\"OF\" start=\"11\" end=\"11\"/>\
<field name=\"NT\" start=\"14\" end=\"14\"/><field name=\"RF\" start=\"16\" end=\"16\"/>\
<field name=\"VM\" start=\"17\" end=\"17\"/><field name=\"AC\" start=\"18\" end=\"18\"/>\
<field name=\"VIF\" start=\"19\" end=\"19\"/><field name=\"VIP\" start=\"20\" end=\"20\"/>\
<field name=\"ID\" start=\"21\" end=\"21\"/></flags>\n";

const VECTOR_TYPES: &str = "<vector id=\"v4f\" type=\"ieee_single\" count=\"4\"/>\
<vector id=\"v2d\" type=\"ieee_double\" count=\"2\"/><vector id=\"v16i8\" type=\"int8\" count=\"16\"/>\
<vector id=\"v8i16\" type=\"int16\" count=\"8\"/><vector id=\"v4i32\" type=\"int32\" count=\"4\"/>\
<vector id=\"v2i64\" type=\"int64\" count=\"2\"/><union id=\"vec128\">\
<field name=\"v4_float\" type=\"v4f\"/><field name=\"v2_double\" type=\"v2d\"/>\
<field name=\"v16_int8\" type=\"v16i8\"/><field name=\"v8_int16\" type=\"v8i16\"/>\
<field name=\"v4_int32\" type=\"v4i32\"/><field name=\"v2_int64\" type=\"v2i64\"/>\
<field name=\"uint128\" type=\"uint128\"/></union>\n";

/// The target description.
pub fn target_xml() -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n\
         <target version=\"1.0\">\n<architecture>i386:x86-64</architecture>\n",
    );
    let last = SYSTEM0 + SYSTEM.len() as u32 - 1;
    let features = [
        ("org.gnu.gdb.i386.core", 0..=FS_BASE - 1, FLAGS_TYPE),
        ("org.gnu.gdb.i386.segments", FS_BASE..=FS_BASE + 1, ""),
        ("org.gnu.gdb.i386.sse", XMM0..=MXCSR, VECTOR_TYPES),
        ("org.tickback.x86_64.system", SYSTEM0..=last, ""),
    ];
    for (feature, numbers, types) in features {
        // Writing to a String can't fail.
        let _ = writeln!(xml, "<feature name=\"{feature}\">\n{types}");
        for r in registers().iter().filter(|r| numbers.contains(&r.number)) {
            let (kind, group) = match r.number {
                6 | 7 => ("data_ptr", "general"),
                RIP => ("code_ptr", "general"),
                0..RIP => ("int64", "general"),
                EFLAGS => ("x86_eflags", "general"),
                SEGMENT0..ST0 => ("int32", "general"),
                ST0..FCTRL => ("i387_ext", "float"),
                FCTRL..FS_BASE => ("int", "float"),
                FS_BASE..XMM0 => ("int64", "general"),
                XMM0..MXCSR => ("vec128", "vector"),
                MXCSR => ("int", "vector"),
                _ => ("uint64", "system"),
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
    pub(super) fn debug_read(&self, number: u32) -> Option<Vec<u8>> {
        let wide = |value: u64| Some(value.to_le_bytes().to_vec());
        let narrow = |value: u64| Some((value as u32).to_le_bytes().to_vec());
        match number {
            0..RIP => wide(self.regs[slots::gpr(GENERAL[number as usize])]),
            RIP => wide(self.regs[slots::PC]),
            EFLAGS => narrow(self.eflags()),
            SEGMENT0..ST0 => {
                let n = SEGMENTS[(number - SEGMENT0) as usize];
                narrow(self.segment(n).selector.into())
            }
            ST0..FCTRL => Some(self.x87.st((number - ST0) as u8).to_bytes().to_vec()),
            FCTRL..FS_BASE => narrow(self.x87_control(number - FCTRL)),
            FS_BASE..XMM0 => wide(self.regs[slots::base(FS + (number - FS_BASE) as u8)]),
            XMM0..MXCSR => {
                let n = (number - XMM0) as u8;
                let parts = [0, 1].map(|part| self.regs[slots::xmm(n, part)].to_le_bytes());
                Some(parts.concat())
            }
            MXCSR => narrow(self.mxcsr()),
            _ => SYSTEM
                .get((number - SYSTEM0) as usize)
                .and_then(|(_, read)| wide(read(self))),
        }
    }

    /// fctrl, fstat, ftag, fiseg, fioff, foseg, fooff, fop.
    fn x87_control(&self, n: u32) -> u64 {
        let mut image = [0; FXSAVE_X87];
        self.x87.fxsave(&mut image, false);
        let half = |at: usize| u64::from(u16::from_le_bytes([image[at], image[at + 1]]));
        let word = |at: usize| half(at) | half(at + 2) << 16;
        match n {
            0 => half(0),
            1 => half(2),
            2 => self.x87.full_tags().into(),
            3 => half(12),
            4 => word(8),
            5 => half(20),
            6 => word(16),
            _ => half(6),
        }
    }

    pub(super) fn debug_write(&mut self, number: u32, bytes: &[u8]) -> Result<(), StateError> {
        let refuse = |why: &str| Err(StateError(format!("register {number}: {why}")));
        let Some(info) = registers().get(number as usize) else {
            return refuse("doesn't exist");
        };
        if bytes.len() != (info.bits / 8) as usize {
            return refuse("has another size");
        }
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        let whole = u128::from_le_bytes(padded);
        let value = whole as u64;
        match number {
            0..RIP => self.regs[slots::gpr(GENERAL[number as usize])] = value,
            RIP if self.code64() || value >> 32 == 0 => self.regs[slots::PC] = value,
            RIP => return refuse("has 32 bits in this mode"),
            EFLAGS if (value ^ self.eflags()) & VM != 0 => return refuse("VM can't be changed"),
            EFLAGS => self.set_eflags(value),
            ST0..FCTRL => {
                let place = usize::from(self.x87.top().wrapping_add((number - ST0) as u8) & 7);
                let mut extended = [0; 10];
                extended.copy_from_slice(bytes);
                self.x87.registers[place] = F80::from_bytes(extended);
            }
            FS_BASE..XMM0 if canonical(value) => {
                self.regs[slots::base(FS + (number - FS_BASE) as u8)] = value;
            }
            FS_BASE..XMM0 => return refuse("isn't canonical"),
            XMM0..MXCSR => {
                let n = (number - XMM0) as u8;
                self.regs[slots::xmm(n, 0)] = value;
                self.regs[slots::xmm(n, 1)] = (whole >> 64) as u64;
            }
            MXCSR if self.set_mxcsr(value) => {}
            MXCSR => return refuse("has other bits"),
            // gdb writes back what it read.
            _ if self.debug_read(number).is_some_and(|old| old == bytes) => {}
            _ => return refuse("can't be written"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
