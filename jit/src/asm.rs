//! The assembler of blocks: a plain byte sink that dynasm writes to, and the forms with a run-time
//! register, displacement or immediate, which are encoded here, because dynasm always takes their
//! 32-bit form.
//!
//! Encodings: SDM 2, chapter 2 (prefixes, ModRM, SIB, VEX).

use dynasmrt::{AssemblyOffset, DynasmApi};

/// A general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(pub u8);

/// A vector register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xmm(pub u8);

pub const RAX: Reg = Reg(0);
pub const RCX: Reg = Reg(1);
pub const RDX: Reg = Reg(2);
pub const RBX: Reg = Reg(3);
pub const RSP: Reg = Reg(4);
pub const RBP: Reg = Reg(5);
pub const RSI: Reg = Reg(6);
pub const RDI: Reg = Reg(7);
pub const R8: Reg = Reg(8);
pub const R9: Reg = Reg(9);
pub const R10: Reg = Reg(10);
pub const R11: Reg = Reg(11);
pub const R12: Reg = Reg(12);
pub const R13: Reg = Reg(13);
pub const R14: Reg = Reg(14);
pub const R15: Reg = Reg(15);

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    pub base: Reg,
    /// Register and log2 of its scale.
    pub index: Option<(Reg, u8)>,
    pub disp: i32,
}

impl Mem {
    pub const fn new(base: Reg, disp: i32) -> Mem {
        Mem {
            base,
            index: None,
            disp,
        }
    }

    pub const fn indexed(base: Reg, index: Reg, scale: u8, disp: i32) -> Mem {
        Mem {
            base,
            index: Some((index, scale)),
            disp,
        }
    }
}

/// The operand that ModRM's r/m field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rm {
    Reg(Reg),
    Mem(Mem),
    /// Relative to the end of the instruction; the displacement is its last four bytes, to be patched.
    Rip,
}

impl From<Reg> for Rm {
    fn from(r: Reg) -> Rm {
        Rm::Reg(r)
    }
}

impl From<Xmm> for Rm {
    fn from(x: Xmm) -> Rm {
        Rm::Reg(Reg(x.0))
    }
}

impl From<Mem> for Rm {
    fn from(m: Mem) -> Rm {
        Rm::Mem(m)
    }
}

/// The eight operations of the classic arithmetic group, by their number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alu {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Condition codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cc {
    O = 0,
    B = 2,
    Ae = 3,
    E = 4,
    Ne = 5,
    Be = 6,
    A = 7,
    S = 8,
    P = 10,
    Np = 11,
    L = 12,
    Ge = 13,
    Le = 14,
    G = 15,
}

impl Cc {
    pub fn not(self) -> Cc {
        match self {
            Cc::B => Cc::Ae,
            Cc::Ae => Cc::B,
            Cc::E => Cc::Ne,
            Cc::Ne => Cc::E,
            Cc::Be => Cc::A,
            Cc::A => Cc::Be,
            // Only ever used as it is.
            Cc::O | Cc::S => self,
            Cc::P => Cc::Np,
            Cc::Np => Cc::P,
            Cc::L => Cc::Ge,
            Cc::Ge => Cc::L,
            Cc::Le => Cc::G,
            Cc::G => Cc::Le,
        }
    }
}

/// Bytes under construction.
#[derive(Default)]
pub struct Asm {
    pub buf: Vec<u8>,
}

impl Extend<u8> for Asm {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, iter: T) {
        self.buf.extend(iter);
    }
}

impl<'a> Extend<&'a u8> for Asm {
    fn extend<T: IntoIterator<Item = &'a u8>>(&mut self, iter: T) {
        self.buf.extend(iter);
    }
}

impl DynasmApi for Asm {
    fn offset(&self) -> AssemblyOffset {
        AssemblyOffset(self.buf.len())
    }

    fn push(&mut self, byte: u8) {
        self.buf.push(byte);
    }

    fn align(&mut self, alignment: usize, with: u8) {
        while !self.buf.len().is_multiple_of(alignment) {
            self.buf.push(with);
        }
    }
}

/// Mandatory prefixes, and what else decides how an opcode is written.
const P66: u8 = 0x66;
const PF2: u8 = 0xf2;
const PF3: u8 = 0xf3;

impl Asm {
    pub fn pos(&self) -> usize {
        self.buf.len()
    }

    fn dword(&mut self, v: i32) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    fn modrm(&mut self, reg: u8, rm: Rm) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.buf.push(0xc0 | reg | (r.0 & 7)),
            Rm::Rip => {
                self.buf.push(reg | 5);
                self.dword(0);
            }
            Rm::Mem(m) => {
                let base = m.base.0 & 7;
                let mode = match m.disp {
                    // rbp and r13 have no form without displacement.
                    0 if base != 5 => 0x00,
                    -128..=127 => 0x40,
                    _ => 0x80,
                };
                match m.index {
                    None if base != 4 => self.buf.push(mode | reg | base),
                    None => self.buf.extend_from_slice(&[mode | reg | 4, 0x24]),
                    Some((index, scale)) => self
                        .buf
                        .extend_from_slice(&[mode | reg | 4, scale << 6 | (index.0 & 7) << 3 | base]),
                }
                match mode {
                    0x40 => self.buf.push(m.disp as u8),
                    0x80 => self.dword(m.disp),
                    _ => {}
                }
            }
        }
    }

    /// The X and B bits of a REX prefix.
    fn xb(rm: Rm) -> u8 {
        match rm {
            Rm::Reg(r) => r.0 >> 3,
            Rm::Rip => 0,
            Rm::Mem(m) => m.base.0 >> 3 | m.index.map_or(0, |(i, _)| i.0 >> 3 << 1),
        }
    }

    /// Prefix, REX, opcode (up to three bytes, the first one highest), ModRM. `byte` forces a REX so that
    /// registers 4 to 7 mean spl to dil.
    fn ins(&mut self, prefix: u8, w: bool, opcode: u32, reg: u8, rm: Rm, byte: bool) {
        if prefix != 0 {
            self.buf.push(prefix);
        }
        let rex = (w as u8) << 3 | reg >> 3 << 2 | Self::xb(rm);
        if rex != 0 || byte {
            self.buf.push(0x40 | rex);
        }
        if opcode > 0xffff {
            self.buf.push((opcode >> 16) as u8);
        }
        if opcode > 0xff {
            self.buf.push((opcode >> 8) as u8);
        }
        self.buf.push(opcode as u8);
        self.modrm(reg, rm);
    }

    /// A VEX-encoded instruction of 128 bits or scalar: `map` 1 to 3, `pp` 0 to 3 (none, 66, F3, F2).
    #[allow(clippy::too_many_arguments, reason = "the fields of the encoding")]
    fn vex(&mut self, map: u8, pp: u8, w: bool, opcode: u8, reg: u8, vvvv: u8, rm: Rm) {
        let xb = Self::xb(rm);
        let r = (!(reg >> 3) & 1) << 7;
        if map == 1 && !w && xb == 0 {
            self.buf
                .extend_from_slice(&[0xc5, r | (!vvvv & 15) << 3 | pp, opcode]);
            return self.modrm(reg, rm);
        }
        let x = (!(xb >> 1) & 1) << 6;
        let b = (!xb & 1) << 5;
        self.buf.extend_from_slice(&[
            0xc4,
            r | x | b | map,
            (w as u8) << 7 | (!vvvv & 15) << 3 | pp,
            opcode,
        ]);
        self.modrm(reg, rm);
    }

    // Moves.

    pub fn mov(&mut self, w: bool, dst: Reg, src: Reg) {
        if dst != src || !w {
            self.ins(0, w, 0x8b, dst.0, src.into(), false);
        }
    }

    pub fn load(&mut self, w: bool, dst: Reg, src: Mem) {
        self.ins(0, w, 0x8b, dst.0, src.into(), false);
    }

    pub fn store(&mut self, w: bool, dst: Mem, src: Reg) {
        self.ins(0, w, 0x89, src.0, dst.into(), false);
    }

    pub fn store8(&mut self, dst: Mem, src: Reg) {
        self.ins(0, false, 0x88, src.0, dst.into(), true);
    }

    pub fn store16(&mut self, dst: Mem, src: Reg) {
        self.ins(P66, false, 0x89, src.0, dst.into(), false);
    }

    /// Stores the low `bytes` of a constant; false if it doesn't fit.
    pub fn store_imm(&mut self, bytes: u64, dst: Mem, value: u64) -> bool {
        match bytes {
            1 => {
                self.ins(0, false, 0xc6, 0, dst.into(), false);
                self.buf.push(value as u8);
            }
            2 => {
                self.ins(P66, false, 0xc7, 0, dst.into(), false);
                self.buf.extend_from_slice(&(value as u16).to_le_bytes());
            }
            4 => {
                self.ins(0, false, 0xc7, 0, dst.into(), false);
                self.dword(value as i32);
            }
            _ => {
                let Ok(imm) = i32::try_from(value as i64) else {
                    return false;
                };
                self.ins(0, true, 0xc7, 0, dst.into(), false);
                self.dword(imm);
            }
        }
        true
    }

    /// Loads a constant; changes no flags.
    pub fn mov_imm(&mut self, dst: Reg, value: u64) {
        if let Ok(imm) = u32::try_from(value) {
            if dst.0 >= 8 {
                self.buf.push(0x41);
            }
            self.buf.push(0xb8 | (dst.0 & 7));
            self.dword(imm as i32);
        } else if let Ok(imm) = i32::try_from(value as i64) {
            self.ins(0, true, 0xc7, 0, dst.into(), false);
            self.dword(imm);
        } else {
            self.buf
                .extend_from_slice(&[0x48 | dst.0 >> 3, 0xb8 | (dst.0 & 7)]);
            self.buf.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Zero; changes flags.
    pub fn zero(&mut self, dst: Reg) {
        self.ins(0, false, 0x33, dst.0, dst.into(), false);
    }

    /// Extends 8, 16 or 32 bits to 64.
    pub fn extend_from(&mut self, bytes: u64, signed: bool, dst: Reg, src: Rm) {
        let byte = bytes == 1;
        match (bytes, signed) {
            (1, false) => self.ins(0, false, 0x0fb6, dst.0, src, byte),
            (2, false) => self.ins(0, false, 0x0fb7, dst.0, src, false),
            (4, false) => self.ins(0, false, 0x8b, dst.0, src, false),
            (1, true) => self.ins(0, true, 0x0fbe, dst.0, src, false),
            (2, true) => self.ins(0, true, 0x0fbf, dst.0, src, false),
            (4, true) => self.ins(0, true, 0x63, dst.0, src, false),
            _ => self.ins(0, true, 0x8b, dst.0, src, false),
        }
    }

    pub fn lea(&mut self, dst: Reg, m: Mem) {
        match m {
            Mem {
                base,
                index: None,
                disp: 0,
            } => self.mov(true, dst, base),
            _ => self.ins(0, true, 0x8d, dst.0, m.into(), false),
        }
    }

    pub fn lea32(&mut self, dst: Reg, m: Mem) {
        self.ins(0, false, 0x8d, dst.0, m.into(), false);
    }

    // Arithmetic.

    pub fn alu(&mut self, w: bool, op: Alu, dst: Reg, src: Rm) {
        self.ins(0, w, (op as u32) << 3 | 3, dst.0, src, false);
    }

    pub fn alu_imm(&mut self, w: bool, op: Alu, dst: Rm, imm: i32) {
        if let Ok(imm) = i8::try_from(imm) {
            self.ins(0, w, 0x83, op as u8, dst, false);
            self.buf.push(imm as u8);
        } else {
            self.ins(0, w, 0x81, op as u8, dst, false);
            self.dword(imm);
        }
    }

    /// `op [mem], reg`.
    pub fn alu_store(&mut self, w: bool, op: Alu, dst: Mem, src: Reg) {
        self.ins(0, w, (op as u32) << 3 | 1, src.0, dst.into(), false);
    }

    pub fn test(&mut self, w: bool, a: Reg, b: Reg) {
        self.ins(0, w, 0x85, b.0, a.into(), false);
    }

    pub fn test_imm8(&mut self, a: Reg, imm: u8) {
        self.ins(0, false, 0xf6, 0, a.into(), true);
        self.buf.push(imm);
    }

    pub fn not(&mut self, w: bool, dst: Reg) {
        self.ins(0, w, 0xf7, 2, dst.into(), false);
    }

    pub fn neg(&mut self, w: bool, dst: Reg) {
        self.ins(0, w, 0xf7, 3, dst.into(), false);
    }

    /// Shift by a constant: `which` 0 rol, 1 ror, 4 shl, 5 shr, 7 sar.
    pub fn shift_imm(&mut self, w: bool, which: u8, dst: Reg, count: u8) {
        self.ins(0, w, 0xc1, which, dst.into(), false);
        self.buf.push(count);
    }

    /// Rotate by cl: `which` 0 rol, 1 ror.
    pub fn rotate_cl(&mut self, w: bool, which: u8, dst: Reg) {
        self.ins(0, w, 0xd3, which, dst.into(), false);
    }

    /// shlx (`pp` 1), shrx (3), sarx (2).
    pub fn shift_x(&mut self, w: bool, pp: u8, dst: Reg, src: Rm, count: Reg) {
        self.vex(2, pp, w, 0xf7, dst.0, count.0, src);
    }

    pub fn rorx(&mut self, w: bool, dst: Reg, src: Rm, count: u8) {
        self.vex(3, 3, w, 0xf0, dst.0, 0, src);
        self.buf.push(count);
    }

    pub fn imul(&mut self, w: bool, dst: Reg, src: Rm) {
        self.ins(0, w, 0x0faf, dst.0, src, false);
    }

    /// imul with an immediate.
    pub fn imul_imm(&mut self, w: bool, dst: Reg, src: Rm, imm: i32) {
        self.ins(0, w, 0x69, dst.0, src, false);
        self.dword(imm);
    }

    /// One-operand group of F7: 4 mul, 5 imul, 6 div, 7 idiv.
    pub fn mul_div(&mut self, w: bool, which: u8, src: Rm) {
        self.ins(0, w, 0xf7, which, src, false);
    }

    /// cdq or cqo.
    pub fn sign_into_rdx(&mut self, w: bool) {
        if w {
            self.buf.push(0x48);
        }
        self.buf.push(0x99);
    }

    /// lzcnt, tzcnt, popcnt by the last opcode byte (BD, BC, B8).
    pub fn count(&mut self, w: bool, opcode: u8, dst: Reg, src: Rm) {
        self.ins(PF3, w, 0x0f00 | u32::from(opcode), dst.0, src, false);
    }

    pub fn bswap(&mut self, dst: Reg) {
        self.buf
            .extend_from_slice(&[0x48 | dst.0 >> 3, 0x0f, 0xc8 | (dst.0 & 7)]);
    }

    pub fn setcc(&mut self, cc: Cc, dst: Reg) {
        self.ins(0, false, 0x0f90 | cc as u32, 0, dst.into(), true);
    }

    /// lahf, and what it says to all of rax: SF, ZF, AF, PF and CF at bits 7, 6, 4, 2 and 0.
    pub fn flags_to_rax(&mut self) {
        self.buf.extend_from_slice(&[0x9f, 0x0f, 0xb6, 0xc4]);
    }

    pub fn cmov(&mut self, w: bool, cc: Cc, dst: Reg, src: Rm) {
        self.ins(0, w, 0x0f40 | cc as u32, dst.0, src, false);
    }

    // The stack; none of these changes flags but `add_top`.

    pub fn push_reg(&mut self, r: Reg) {
        if r.0 >= 8 {
            self.buf.push(0x41);
        }
        self.buf.push(0x50 | (r.0 & 7));
    }

    pub fn pop_reg(&mut self, r: Reg) {
        if r.0 >= 8 {
            self.buf.push(0x41);
        }
        self.buf.push(0x58 | (r.0 & 7));
    }

    pub fn push_imm(&mut self, imm: i32) {
        if let Ok(imm) = i8::try_from(imm) {
            self.buf.extend_from_slice(&[0x6a, imm as u8]);
        } else {
            self.buf.push(0x68);
            self.dword(imm);
        }
    }

    pub fn push_mem(&mut self, m: Mem) {
        self.ins(0, false, 0xff, 6, m.into(), false);
    }

    /// Adds to the top of the stack.
    pub fn add_top(&mut self, imm: i32) {
        self.alu_imm(true, Alu::Add, Mem::new(RSP, 0).into(), imm);
    }

    /// Drops the top of the stack.
    pub fn drop_top(&mut self) {
        self.lea(RSP, Mem::new(RSP, 8));
    }

    // Control. The displacements of the 32-bit forms are patched by whoever knows the target; the
    // position of the displacement is returned.

    pub fn jcc(&mut self, cc: Cc) -> usize {
        self.buf.extend_from_slice(&[0x0f, 0x80 | cc as u8]);
        self.dword(0);
        self.buf.len() - 4
    }

    pub fn jmp(&mut self) -> usize {
        self.buf.push(0xe9);
        self.dword(0);
        self.buf.len() - 4
    }

    pub fn call(&mut self) -> usize {
        self.buf.push(0xe8);
        self.dword(0);
        self.buf.len() - 4
    }

    /// A short forward jump; bound by [`Asm::bind_short`].
    pub fn jcc_short(&mut self, cc: Cc) -> usize {
        self.buf.extend_from_slice(&[0x70 | cc as u8, 0]);
        self.buf.len()
    }

    /// A short forward jump; bound by [`Asm::bind_short`].
    pub fn jmp_short(&mut self) -> usize {
        self.buf.extend_from_slice(&[0xeb, 0]);
        self.buf.len()
    }

    /// Makes a short jump go here.
    pub fn bind_short(&mut self, from: usize) {
        let distance = self.buf.len() - from;
        debug_assert!(distance < 128);
        self.buf[from - 1] = distance as u8;
    }

    pub fn jmp_mem(&mut self, m: Mem) {
        self.ins(0, false, 0xff, 4, m.into(), false);
    }

    pub fn patch32(&mut self, at: usize, value: i32) {
        self.buf[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    // SSE and AVX. `d`: binary64, else binary32.

    const fn scalar(d: bool) -> u8 {
        if d { PF2 } else { PF3 }
    }

    /// movss or movsd from memory; the rest of the register is zeroed.
    pub fn fload(&mut self, d: bool, dst: Xmm, src: Mem) {
        self.ins(Self::scalar(d), false, 0x0f10, dst.0, src.into(), false);
    }

    pub fn fstore(&mut self, d: bool, dst: Mem, src: Xmm) {
        self.ins(Self::scalar(d), false, 0x0f11, src.0, dst.into(), false);
    }

    /// movss or movsd from a constant.
    pub fn fload_rip(&mut self, d: bool, dst: Xmm) {
        self.ins(Self::scalar(d), false, 0x0f10, dst.0, Rm::Rip, false);
    }

    /// stmxcsr
    pub fn store_mxcsr(&mut self, dst: Mem) {
        self.ins(0, false, 0x0fae, 3, dst.into(), false);
    }

    /// ldmxcsr
    pub fn load_mxcsr(&mut self, src: Mem) {
        self.ins(0, false, 0x0fae, 2, src.into(), false);
    }

    /// `mov dst, [rip]`
    pub fn load_rip(&mut self, dst: Reg) {
        self.ins(0, true, 0x8b, dst.0, Rm::Rip, false);
    }

    /// `mov [rip], src`
    pub fn store_rip(&mut self, src: Reg) {
        self.ins(0, true, 0x89, src.0, Rm::Rip, false);
    }

    /// movaps
    pub fn fmov(&mut self, dst: Xmm, src: Xmm) {
        if dst != src {
            self.ins(0, false, 0x0f28, dst.0, src.into(), false);
        }
    }

    /// movq or movd from a general register.
    pub fn xmm_from_reg(&mut self, w: bool, dst: Xmm, src: Reg) {
        self.ins(P66, w, 0x0f6e, dst.0, src.into(), false);
    }

    /// movq or movd to a general register.
    pub fn reg_from_xmm(&mut self, w: bool, dst: Reg, src: Xmm) {
        self.ins(P66, w, 0x0f7e, src.0, dst.into(), false);
    }

    /// Scalar arithmetic `dst = a op b` by opcode (58 add, 59 mul, 5C sub, 5E div, 51 sqrt, 5A convert).
    pub fn farith(&mut self, d: bool, opcode: u8, dst: Xmm, a: Xmm, b: Rm) {
        self.vex(1, if d { 3 } else { 2 }, false, opcode, dst.0, a.0, b);
    }

    /// Bitwise `dst = a op b` on all 128 bits (54 and, 55 andn, 56 or, 57 xor).
    pub fn flogic(&mut self, opcode: u8, dst: Xmm, a: Xmm, b: Rm) {
        self.vex(1, 0, false, opcode, dst.0, a.0, b);
    }

    /// ucomisd (2E), comisd (2F) and their kin.
    pub fn fcompare(&mut self, d: bool, opcode: u8, a: Xmm, b: Rm) {
        self.ins(
            if d { P66 } else { 0 },
            false,
            0x0f00 | u32::from(opcode),
            a.0,
            b,
            false,
        );
    }

    /// cvtsi2sd and kin: the rest of `dst` becomes that of `dst`.
    pub fn float_from_int(&mut self, d: bool, w: bool, dst: Xmm, src: Rm) {
        self.ins(Self::scalar(d), w, 0x0f2a, dst.0, src, false);
    }

    /// cvttsd2si (truncating) or cvtsd2si and kin.
    pub fn int_from_float(&mut self, d: bool, w: bool, truncate: bool, dst: Reg, src: Xmm) {
        let opcode = if truncate { 0x0f2c } else { 0x0f2d };
        self.ins(Self::scalar(d), w, opcode, dst.0, src.into(), false);
    }

    // Vectors.

    /// An instruction of 128 bits with a vector as its first operand and, if it has three, another as its second (else
    /// `a` is 0): `map` and `pp` as for [`Asm::vex`].
    pub fn vector(&mut self, (map, pp, opcode): (u8, u8, u8), dst: Xmm, a: Xmm, b: Rm) {
        self.vex(map, pp, false, opcode, dst.0, a.0, b);
    }

    /// As [`Asm::vector`], with a constant byte.
    pub fn vector_imm(&mut self, code: (u8, u8, u8), dst: Xmm, a: Xmm, b: Rm, imm: u8) {
        self.vector(code, dst, a, b);
        self.buf.push(imm);
    }

    /// vmovdqu from memory.
    pub fn vload(&mut self, dst: Xmm, src: Mem) {
        self.vex(1, 2, false, 0x6f, dst.0, 0, src.into());
    }

    /// vmovdqu to memory.
    pub fn vstore(&mut self, dst: Mem, src: Xmm) {
        self.vex(1, 2, false, 0x7f, src.0, 0, dst.into());
    }

    /// Shifts by a constant: opcodes 71, 72, 73 with the number of the shift.
    pub fn vshift_imm(&mut self, opcode: u8, which: u8, dst: Xmm, src: Xmm, imm: u8) {
        self.vex(1, 1, false, opcode, which, dst.0, src.into());
        self.buf.push(imm);
    }

    /// vpextrb, vpextrw, vpextrd, vpextrq to a general register (what is above becomes 0).
    pub fn vextract(&mut self, bytes: u64, index: u8, dst: Reg, src: Xmm) {
        match bytes {
            1 => self.vex(3, 1, false, 0x14, src.0, 0, dst.into()),
            2 => self.vex(1, 1, false, 0xc5, dst.0, 0, src.into()),
            4 => self.vex(3, 1, false, 0x16, src.0, 0, dst.into()),
            _ => self.vex(3, 1, true, 0x16, src.0, 0, dst.into()),
        }
        self.buf.push(index);
    }

    /// vpinsrb, vpinsrw, vpinsrd, vpinsrq.
    pub fn vinsert(&mut self, bytes: u64, index: u8, dst: Xmm, a: Xmm, src: Rm) {
        match bytes {
            1 => self.vex(3, 1, false, 0x20, dst.0, a.0, src),
            2 => self.vex(1, 1, false, 0xc4, dst.0, a.0, src),
            4 => self.vex(3, 1, false, 0x22, dst.0, a.0, src),
            _ => self.vex(3, 1, true, 0x22, dst.0, a.0, src),
        }
        self.buf.push(index);
    }

    /// vpmovmskb, vmovmskps, vmovmskpd.
    pub fn vmask(&mut self, (map, pp, opcode): (u8, u8, u8), dst: Reg, src: Xmm) {
        self.vex(map, pp, false, opcode, dst.0, 0, src.into());
    }

    /// vmovq from a general register or memory; the high quadword becomes 0.
    pub fn vmovq(&mut self, dst: Xmm, src: Rm) {
        match src {
            Rm::Mem(_) => self.vex(1, 2, false, 0x7e, dst.0, 0, src),
            _ => self.vex(1, 1, true, 0x6e, dst.0, 0, src),
        }
    }

    /// `dst = ±(a × dst) ± b` by the 213 forms (A9 madd, AB msub, AD nmadd, AF nmsub).
    pub fn fma213(&mut self, d: bool, opcode: u8, dst: Xmm, a: Xmm, b: Xmm) {
        self.vex(2, 1, d, opcode, dst.0, a.0, b.into());
    }
}
