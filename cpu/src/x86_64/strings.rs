//! Repeated string instructions, and those on ports (SDM 1 7.3.9, 2B "REP", 2A "INS", 2B "OUTS").
//!
//! Every iteration is a step of its own that leaves all registers as the architecture says, so that it can be
//! interrupted and observed between any two. `rep movs` and `rep stos` in RAM are made many at once where nothing can
//! be seen between them: within a page, in either direction, and as far as the budget goes.

use super::hart::Hart;
use super::helper::Form;
use super::slots::{CC_DST, CC_OP, CC_SRC, EFLAGS, RAX, RCX, RDI, RDX, RSI};
use super::{flags, trap};
use crate::ir::{Size, Slot};
use crate::x86_64::flags::Kind;
use crate::x86_64::mode::Mode;
use crate::{Access, Context, Cpu, Trap};

/// EFLAGS.DF.
const DF: u64 = 1 << 10;
/// Segment register of destinations.
const ES: u8 = 0;

/// A string operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StringOp {
    /// Memory to memory.
    Movs = 0,
    /// Accumulator to memory.
    Stos = 1,
    /// Memory to accumulator.
    Lods = 2,
    /// Compares memory with memory.
    Cmps = 3,
    /// Compares the accumulator with memory.
    Scas = 4,
    /// Port to memory.
    Ins = 5,
    /// Memory to port.
    Outs = 6,
}

/// A repeat prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Repeat {
    /// None.
    None = 0,
    /// `rep`; comparisons go on while equal.
    While = 1,
    /// `repne`; comparisons go on while not equal.
    WhileNot = 2,
}

/// The first argument of [`super::helper::STRING`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringForm {
    /// The operation.
    pub op: StringOp,
    /// The prefix.
    pub repeat: Repeat,
    /// Size of addresses.
    pub address: Size,
    /// Segment register of sources.
    pub segment: u8,
    /// Somebody wants to see every step.
    pub single: bool,
}

impl StringForm {
    /// Packed.
    pub const fn to_bits(self) -> u64 {
        let address = match self.address {
            Size::B1 | Size::B2 => 1,
            Size::B4 => 2,
            Size::B8 => 3,
        };
        self.op as u64
            | (self.repeat as u64) << 4
            | address << 6
            | (self.segment as u64) << 8
            | (self.single as u64) << 12
    }

    /// Unpacked.
    pub const fn from_bits(bits: u64) -> StringForm {
        StringForm {
            op: match bits & 15 {
                0 => StringOp::Movs,
                1 => StringOp::Stos,
                2 => StringOp::Lods,
                3 => StringOp::Cmps,
                4 => StringOp::Scas,
                5 => StringOp::Ins,
                _ => StringOp::Outs,
            },
            repeat: match bits >> 4 & 3 {
                0 => Repeat::None,
                1 => Repeat::While,
                _ => Repeat::WhileNot,
            },
            address: match bits >> 6 & 3 {
                0 | 1 => Size::B2,
                2 => Size::B4,
                _ => Size::B8,
            },
            segment: (bits >> 8 & 7) as u8,
            single: bits >> 12 & 1 != 0,
        }
    }
}

/// One instruction at one point of its execution.
struct Run {
    form: StringForm,
    size: Size,
    /// What a pointer moves by.
    step: u64,
    mode: Mode,
}

/// Makes at least one step of a string instruction; see [`super::helper::STRING`].
pub(super) fn string(p: &mut Hart, cx: &mut dyn Context, args: [u64; 3], pc: u64) -> Result<u64, Trap> {
    let insn = Form(args[2]);
    let size = match insn.size() {
        0 => Size::B1,
        1 => Size::B2,
        2 => Size::B4,
        _ => Size::B8,
    };
    let down = p.regs()[EFLAGS] & DF != 0;
    let run = Run {
        form: StringForm::from_bits(args[0]),
        size,
        step: if down {
            size.bytes().wrapping_neg()
        } else {
            size.bytes()
        },
        mode: Mode::from_bits_retain(p.block_mode()),
    };
    let repeats = run.form.repeat != Repeat::None;
    let count = if repeats {
        p.regs()[RCX] & run.form.address.mask()
    } else {
        1
    };
    let mut again = false;
    if count != 0 {
        let made = match run.many(p, cx, count) {
            Some(made) => made,
            None => {
                run.once(p, cx)?;
                1
            }
        };
        if repeats {
            run.set(p, RCX, count - made);
            again = count > made && run.goes_on(p);
        }
    }
    let next = pc.wrapping_add(insn.len());
    let next = if run.mode.contains(Mode::LONG) {
        next
    } else {
        next & 0xffff_ffff
    };
    let slot = p.layout().pc;
    p.regs_mut()[slot] = if again { pc } else { next };
    Ok(0)
}

impl Run {
    /// Writes an address register or a counter.
    fn set(&self, p: &mut Hart, slot: Slot, v: u64) {
        let mask = match self.form.address {
            // 32 bits clear the upper half.
            Size::B4 | Size::B8 => u64::MAX,
            Size::B1 | Size::B2 => 0xffff,
        };
        let old = p.regs()[slot];
        p.regs_mut()[slot] = old & !mask | v & self.form.address.mask();
    }

    fn moves(&self, slot: Slot) -> bool {
        match self.form.op {
            StringOp::Movs | StringOp::Cmps => slot == RSI || slot == RDI,
            StringOp::Lods | StringOp::Outs => slot == RSI,
            StringOp::Stos | StringOp::Scas | StringOp::Ins => slot == RDI,
        }
    }

    /// Moves the pointers by `count` elements.
    fn advance(&self, p: &mut Hart, count: u64) {
        for slot in [RSI, RDI] {
            if self.moves(slot) {
                let v = p.regs()[slot].wrapping_add(self.step.wrapping_mul(count));
                self.set(p, slot, v);
            }
        }
    }

    /// Whether a comparison lets the repetition go on.
    fn goes_on(&self, p: &Hart) -> bool {
        if !matches!(self.form.op, StringOp::Cmps | StringOp::Scas) {
            return true;
        }
        let r = p.regs();
        let equal = flags::arithmetic(r[CC_OP], r[CC_DST], r[CC_SRC]) & flags::ZF != 0;
        equal == (self.form.repeat == Repeat::While)
    }

    /// The linear address of `len` bytes at a pointer.
    fn address(&self, p: &Hart, slot: Slot, len: u64) -> Result<u64, Trap> {
        self.address_below(p, slot, 0, len)
    }

    /// The linear address of `len` bytes from `below` bytes below a pointer on.
    fn address_below(&self, p: &Hart, slot: Slot, below: u64, len: u64) -> Result<u64, Trap> {
        let offset = (p.regs()[slot] & self.form.address.mask()).wrapping_sub(below);
        let (segment, write) = if slot == RSI {
            (self.form.segment, false)
        } else {
            (ES, self.writes())
        };
        p.data_address(segment, offset, len, write)
    }

    /// Whether the destination is written, not compared with.
    fn writes(&self) -> bool {
        matches!(self.form.op, StringOp::Movs | StringOp::Stos | StringOp::Ins)
    }

    /// The linear address of the element at a pointer.
    fn element(&self, p: &Hart, slot: Slot) -> Result<u64, Trap> {
        let addr = self.address(p, slot, self.size.bytes())?;
        if self.mode.contains(Mode::ALIGNMENT) && addr & (self.size.bytes() - 1) != 0 {
            return Err(trap::fault(trap::AC, 0));
        }
        Ok(addr)
    }

    /// One element.
    fn once(&self, p: &mut Hart, cx: &mut dyn Context) -> Result<(), Trap> {
        let (size, len) = (self.size, self.size.bytes());
        match self.form.op {
            StringOp::Movs => {
                let from = self.element(p, RSI)?;
                cx.check(p, from, len, Access::Read)?;
                let to = self.element(p, RDI)?;
                cx.check(p, to, len, Access::Write)?;
                let v = cx.load(p, from, size)?;
                cx.store(p, to, size, v)?;
            }
            StringOp::Stos => {
                let to = self.element(p, RDI)?;
                let v = p.regs()[RAX] & size.mask();
                cx.store(p, to, size, v)?;
            }
            StringOp::Lods => {
                let from = self.element(p, RSI)?;
                let v = cx.load(p, from, size)? & size.mask();
                let old = p.regs()[RAX];
                p.regs_mut()[RAX] = match size {
                    Size::B4 | Size::B8 => v,
                    Size::B1 | Size::B2 => old & !size.mask() | v,
                };
            }
            StringOp::Cmps => {
                let from = self.element(p, RSI)?;
                cx.check(p, from, len, Access::Read)?;
                let with = self.element(p, RDI)?;
                cx.check(p, with, len, Access::Read)?;
                let (a, b) = (cx.load(p, from, size)?, cx.load(p, with, size)?);
                self.compare(p, a, b);
            }
            StringOp::Scas => {
                let with = self.element(p, RDI)?;
                let b = cx.load(p, with, size)?;
                let a = p.regs()[RAX];
                self.compare(p, a, b);
            }
            StringOp::Ins => {
                let port = p.regs()[RDX] as u16;
                p.check_ports(cx, port, size)?;
                let to = self.element(p, RDI)?;
                // The port may forget what was read.
                cx.check(p, to, len, Access::Write)?;
                p.port_accessed(port, size);
                let v = cx.port_read(port, size);
                cx.store(p, to, size, v & size.mask())?;
            }
            StringOp::Outs => {
                let port = p.regs()[RDX] as u16;
                p.check_ports(cx, port, size)?;
                let from = self.element(p, RSI)?;
                let v = cx.load(p, from, size)?;
                p.port_accessed(port, size);
                cx.port_write(port, size, v & size.mask());
            }
        }
        self.advance(p, 1);
        Ok(())
    }

    fn compare(&self, p: &mut Hart, a: u64, b: u64) {
        let size = super::lift::log2(self.size);
        let regs = p.regs_mut();
        regs[CC_OP] = flags::cc(Kind::Sub, size);
        regs[CC_DST] = a.wrapping_sub(b);
        regs[CC_SRC] = b;
    }

    /// As many elements at once as nothing can be seen between; `None` if that is at most one.
    fn many(&self, p: &mut Hart, cx: &mut dyn Context, count: u64) -> Option<u64> {
        let len = self.size.bytes();
        if self.form.single || self.mode.contains(Mode::ALIGNMENT) {
            return None;
        }
        let down = self.step != len;
        let mut made = count.min(cx.steps_left());
        for slot in [RSI, RDI] {
            if self.moves(slot) {
                let offset = p.regs()[slot] & self.form.address.mask();
                let addr = self.address(p, slot, len).ok()?;
                let in_page = (4096 - addr % 4096) / len;
                // Before the pointer wraps.
                let (here, room) = match down {
                    false => (in_page, (self.form.address.mask() - offset) / len),
                    true if in_page == 0 => (0, 0),
                    true => (addr % 4096 / len + 1, offset / len),
                };
                made = made.min(here).min(room);
            }
        }
        if made < 2 {
            return None;
        }
        let bytes = made * len;
        let below = if down { bytes - len } else { 0 };
        let done = match self.form.op {
            StringOp::Movs => {
                let (from, to) = (
                    self.address_below(p, RSI, below, bytes).ok()?,
                    self.address_below(p, RDI, below, bytes).ok()?,
                );
                cx.copy(p, [to, from, bytes], self.size, down)
            }
            StringOp::Stos => {
                let to = self.address_below(p, RDI, below, bytes).ok()?;
                let v = p.regs()[RAX] & self.size.mask();
                cx.fill(p, to, made, self.size, v)
            }
            StringOp::Lods | StringOp::Cmps | StringOp::Scas | StringOp::Ins | StringOp::Outs => false,
        };
        if !done {
            return None;
        }
        cx.more_steps(made - 1);
        self.advance(p, made);
        Some(made)
    }
}
