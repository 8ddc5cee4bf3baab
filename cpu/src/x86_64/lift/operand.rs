//! Operands: registers of all sizes, effective addresses, segments (SDM 1 3.7, 3A 3.4, 5.3).
//!
//! A segment that isn't flat is checked before each access through it: in protected mode by a helper, for its type
//! counts; in real and virtual-8086 mode by its limit alone. In 64-bit mode only fs and gs have a base, and
//! none has a limit.

use super::Lifter;
use super::builder::width;
use crate::ir::{Bin, Cond, Op, Size, Slot, Val, Width};
use crate::x86_64::helper;
use crate::x86_64::mode::Mode;
use crate::x86_64::slots::{base, gpr, limit};
use crate::x86_64::trap;
use iced_x86::{Instruction, OpKind, Register};

/// Segment registers in the encoding's order.
pub(crate) const ES: u8 = 0;
/// Code segment.
pub(crate) const CS: u8 = 1;
/// Stack segment.
pub(crate) const SS: u8 = 2;
/// Data segment.
pub(crate) const DS: u8 = 3;
/// The first that has a base in 64-bit mode.
pub(crate) const FS: u8 = 4;
const GS: u8 = 5;

/// Where an operand is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A general register or a part of it, the second byte if `high`.
    Reg { slot: Slot, size: Size, high: bool },
    /// Memory at a linear address that was checked.
    Mem { addr: Val, offset: i32, size: Size },
}

impl Place {
    /// Size of the operand.
    pub fn size(self) -> Size {
        match self {
            Place::Reg { size, .. } | Place::Mem { size, .. } => size,
        }
    }
}

/// An offset in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    pub segment: u8,
    /// Its value is `v + disp`, cut to `size`, and `disp` isn't 0 only for 8 bytes.
    pub v: Val,
    pub disp: i32,
    pub size: Size,
}

/// What an access does with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reads it.
    Read,
    /// Writes it, in one store.
    Write,
    /// Reads it, and then writes it whatever it was.
    Modify,
}

/// The size in bytes as a [`Size`].
pub(crate) fn size_of(bytes: usize) -> Option<Size> {
    match bytes {
        1 => Some(Size::B1),
        2 => Some(Size::B2),
        4 => Some(Size::B4),
        8 => Some(Size::B8),
        _ => None,
    }
}

/// A general register by the decoder's name.
pub(crate) fn general(r: Register) -> Option<Place> {
    let n = r as usize;
    let of = |first: Register| (n - first as usize) as u8;
    let reg = |n, size, high| {
        Some(Place::Reg {
            slot: gpr(n),
            size,
            high,
        })
    };
    const AL: usize = Register::AL as usize;
    const AX: usize = Register::AX as usize;
    const EAX: usize = Register::EAX as usize;
    const RAX: usize = Register::RAX as usize;
    const EIP: usize = Register::EIP as usize;
    match n {
        AL..AX => match of(Register::AL) {
            // al to bl, ah to bh, spl to r15b
            n @ 0..4 => reg(n, Size::B1, false),
            n @ 4..8 => reg(n - 4, Size::B1, true),
            n => reg(n - 4, Size::B1, false),
        },
        AX..EAX => reg(of(Register::AX), Size::B2, false),
        EAX..RAX => reg(of(Register::EAX), Size::B4, false),
        RAX..EIP => reg(of(Register::RAX), Size::B8, false),
        _ => None,
    }
}

/// A segment register by the decoder's name.
pub(crate) fn segment(r: Register) -> u8 {
    match r {
        Register::ES => ES,
        Register::CS => CS,
        Register::SS => SS,
        Register::FS => FS,
        Register::GS => GS,
        _ => DS,
    }
}

/// Whether an operand is memory.
pub(crate) fn is_memory(i: &Instruction, n: u32) -> bool {
    i.op_kind(n) == OpKind::Memory
}

/// Size of an operand that is a general register or memory.
pub(crate) fn operand_size(i: &Instruction, n: u32) -> Size {
    let bytes = match i.op_kind(n) {
        OpKind::Register => i.op_register(n).size(),
        _ => i.memory_size().size(),
    };
    size_of(bytes).unwrap_or(Size::B8)
}

/// Registers.
impl Lifter {
    /// The raw value of a register of any size.
    pub fn register(&mut self, place: Place) -> Val {
        match place {
            Place::Reg { slot, high, .. } => {
                let v = self.get(slot);
                if high { self.shr(v, 8) } else { v }
            }
            Place::Mem { .. } => self.load(place, false),
        }
    }

    /// Writes a register: 32 bits clear the upper half, fewer leave the rest as it is.
    pub fn set_part(&mut self, slot: Slot, size: Size, high: bool, v: Val) {
        let v = match size {
            Size::B8 => v,
            Size::B4 => self.zx(size, v),
            Size::B1 | Size::B2 => {
                let shift = if high { 8 } else { 0 };
                let old = self.get(slot);
                let rest = self.and(old, !(size.mask() << shift));
                let v = self.zx(size, v);
                let v = self.shl(v, shift);
                self.or(rest, v)
            }
        };
        self.set(slot, v);
    }

    /// Writes the low part of a register.
    pub fn set_low(&mut self, slot: Slot, size: Size, v: Val) {
        self.set_part(slot, size, false, v);
    }
}

/// Memory.
impl Lifter {
    /// Bytes of an address of the instruction's memory operand.
    fn address_size(&self, i: &Instruction) -> Size {
        let by_register = |r: Register| match r {
            Register::None => None,
            Register::RIP => Some(8),
            Register::EIP => Some(4),
            r => Some(r.size()),
        };
        let bytes = by_register(i.memory_base())
            .or_else(|| by_register(i.memory_index()))
            .or(match i.memory_displ_size() {
                size @ (2 | 4 | 8) => Some(size as usize),
                _ => None,
            })
            .unwrap_or(self.mode().code_bits() as usize / 8);
        size_of(bytes).unwrap_or(Size::B8)
    }

    /// The offset of the memory operand within its segment.
    pub fn effective(&mut self, i: &Instruction) -> Offset {
        let size = self.address_size(i);
        let w = width(size);
        let segment = segment(i.memory_segment());
        let displacement = i.memory_displacement64();
        let whole = |v| Offset {
            segment,
            v,
            disp: 0,
            size,
        };
        match i.memory_base() {
            // The decoder has added the offset from the page of the next instruction.
            Register::RIP => {
                let v = self.page(displacement as i64);
                return whole(v);
            }
            Register::EIP => {
                let v = self.page(i64::from(displacement as i32));
                let v = self.zx(Size::B4, v);
                return whole(v);
            }
            _ => {}
        }
        let mut sum = general(i.memory_base()).map(|place| self.register(place));
        if let Some(index) = general(i.memory_index()) {
            let v = self.register(index);
            let v = self.bin_constant(
                Bin::Shl,
                Width::W64,
                v,
                i.memory_index_scale().trailing_zeros().into(),
            );
            sum = Some(match sum {
                Some(sum) => self.bin(Bin::Add, w, sum, v),
                None => v,
            });
        }
        match (sum, size) {
            (None, _) => {
                let v = self.constant(displacement & size.mask());
                whole(v)
            }
            (Some(v), Size::B8) => Offset {
                segment,
                v,
                disp: displacement as i32,
                size,
            },
            (Some(v), _) => {
                let v = match displacement as i32 {
                    0 => v,
                    disp => self.bin_constant(Bin::Add, Width::W32, v, disp as u32 as u64),
                };
                let v = self.zx(size, v);
                whole(v)
            }
        }
    }

    /// Whether accesses through a segment need no check.
    fn is_flat(&self, segment: u8) -> bool {
        self.is(match segment {
            ES => Mode::FLAT_ES,
            SS => Mode::FLAT_SS,
            DS => Mode::FLAT_DS,
            _ => return false,
        })
    }

    /// The linear address of an access of `len` bytes, checked as far as segmentation goes.
    pub fn linear(&mut self, at: Offset, len: u64, write: bool) -> (Val, i32) {
        let Offset { segment, v, disp, .. } = at;
        if self.is(Mode::LONG) {
            if segment < FS {
                return (v, disp);
            }
            let start = self.get(base(segment));
            return (self.bin(Bin::Add, Width::W64, start, v), disp);
        }
        if self.is_flat(segment) {
            return (v, 0);
        }
        if self.is(Mode::PROTECTED) {
            let number = self.constant(segment.into());
            let more = len as u8 | if write { helper::CHECK_WRITE } else { 0 };
            let form = self.form(Size::B4, more);
            return (self.ask(helper::CHECK_SEGMENT, [Some(number), Some(v)], form), 0);
        }
        let last = self.add(v, len as i64 - 1);
        let end = self.get(limit(segment));
        let beyond = self.cmp(Cond::LtU, Width::W64, end, last);
        let vector = if segment == SS { trap::SS } else { trap::GP };
        self.trap_if(beyond, trap::cause_with(vector, 0));
        let start = self.get(base(segment));
        (self.bin(Bin::Add, Width::W32, start, v), 0)
    }

    /// With alignment checks on: #AC(0) unless the address is a multiple of `size`.
    pub fn check_alignment(&mut self, addr: Val, offset: i32, size: Size) {
        if self.is(Mode::ALIGNMENT) && size != Size::B1 {
            self.require_alignment(addr, offset, size.bytes(), trap::cause_with(trap::AC, 0));
        }
    }

    /// An exception unless the address is a multiple of `len`, a power of two.
    pub fn require_alignment(&mut self, addr: Val, offset: i32, len: u64, cause: u64) {
        let v = self.add(addr, offset as i64 & (len as i64 - 1));
        let odd = self.and(v, len - 1);
        self.trap_if(odd, cause);
    }

    /// An access that is checked already as far as segmentation goes.
    pub fn at(&mut self, (addr, offset): (Val, i32), size: Size, how: Use) -> Place {
        self.check_alignment(addr, offset, size);
        if how == Use::Modify {
            self.check(addr, offset, size.bytes(), true);
        }
        Place::Mem { addr, offset, size }
    }

    /// The op that checks that `len` bytes can be read or written.
    pub fn check(&mut self, addr: Val, offset: i32, len: u64, write: bool) {
        self.op(Op::Check {
            len: len as u8,
            write,
            addr,
            offset,
        });
    }

    /// The memory operand.
    pub fn memory(&mut self, i: &Instruction, size: Size, how: Use) -> Place {
        let offset = self.effective(i);
        let linear = self.linear(offset, size.bytes(), how != Use::Read);
        self.at(linear, size, how)
    }

    /// Linear address of a memory operand of `len` bytes, which a helper reads or writes.
    pub fn operand_address(&mut self, i: &Instruction, len: u64, write: bool) -> Val {
        let offset = self.effective(i);
        let (addr, disp) = self.linear(offset, len.min(64), write);
        if len > 64 && !self.is(Mode::LONG) {
            let v = self.add(offset.v, len as i64 - 1);
            let last = Offset { v, ..offset };
            self.linear(last, 1, write);
        }
        self.add(addr, disp.into())
    }

    /// Loads what is at a place in memory.
    pub fn load(&mut self, place: Place, signed: bool) -> Val {
        match place {
            Place::Mem { addr, offset, size } => self.op(Op::Load {
                size,
                signed,
                addr,
                offset,
            }),
            Place::Reg { .. } => self.register(place),
        }
    }
}

/// Operands of an instruction.
impl Lifter {
    /// Where an operand is that is a general register or memory.
    pub fn place(&mut self, i: &Instruction, n: u32, how: Use) -> Place {
        match general(i.op_register(n)) {
            Some(place) if i.op_kind(n) == OpKind::Register => place,
            _ => {
                let size = operand_size(i, n);
                self.memory(i, size, how)
            }
        }
    }

    /// Reads a place; above its size anything may be.
    pub fn fetch(&mut self, place: Place) -> Val {
        self.register(place)
    }

    /// Writes a place. In memory that is the instruction's last op that can trap, so it comes before all registers
    /// and flags.
    pub fn put(&mut self, place: Place, value: Val) {
        match place {
            Place::Reg { slot, size, high } => self.set_part(slot, size, high, value),
            Place::Mem { addr, offset, size } => {
                self.op(Op::Store {
                    size,
                    addr,
                    offset,
                    value,
                });
            }
        }
    }

    /// Reads an operand: register, memory or immediate, this cut to `size`.
    pub fn read(&mut self, i: &Instruction, n: u32, size: Size) -> Val {
        match i.op_kind(n) {
            OpKind::Register | OpKind::Memory => {
                let place = self.place(i, n, Use::Read);
                self.fetch(place)
            }
            _ => self.constant(i.immediate(n) & size.mask()),
        }
    }
}
