//! Random cases: one to six instructions with registers and flags.

use crate::vectors::{self, Image};
use crate::x87;
use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, EncodingKind, FlowControl, Formatter, GasFormatter,
    Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};

/// Three pages for code.
pub const CODE: u64 = 0x1000_0000;
/// Scratch memory; cases aim at its middle.
pub const DATA: u64 = 0x2000_0000;
pub const DATA_LEN: usize = 0x2000;

/// CF, PF, AF, ZF, SF, OF and DF.
const FLAGS: u64 = 0xcd5;
const DF: u64 = 1 << 10;
/// IF and the bit that is always 1.
const FIXED_FLAGS: u64 = 0x202;

/// splitmix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Values where carries, signs and counts change, and others.
    pub fn value(&mut self) -> u64 {
        const SPECIAL: [u64; 16] = [
            0,
            1,
            2,
            0x7f,
            0x80,
            0xff,
            0x100,
            0x7fff,
            0x8000,
            0xffff,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            i64::MAX as u64,
            i64::MIN as u64,
            u64::MAX,
        ];
        let v = SPECIAL[self.below(16) as usize];
        match self.below(8) {
            0 | 1 => v,
            2 => v.wrapping_add(self.below(5)).wrapping_sub(2),
            3 => self.below(70),
            // Parts of it special.
            4 => self.next() << 32 | v & 0xffff_ffff,
            5 => self.next() & !0xffff | v & 0xffff,
            _ => self.next(),
        }
    }

    /// An address with room on both sides.
    fn address(&mut self) -> u64 {
        DATA + 0x800 + self.below(0x1000)
    }
}

/// Which instructions a case is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// What lift/ has besides SSE, x87 and the system.
    Integer,
    /// The same in 32-bit code.
    Integer32,
    /// MMX and SSE.
    Vector,
    /// x87.
    X87,
}

impl Family {
    /// Bits of its code.
    pub fn bits(self) -> u32 {
        match self {
            Family::Integer | Family::Vector | Family::X87 => 64,
            Family::Integer32 => 32,
        }
    }
}

/// Mnemonics of [`Family::Integer32`] that must come up, besides what 64-bit code has too.
pub const INTEGER32_MNEMONICS: &[&str] = &[
    "Aaa",
    "Aad",
    "Aam",
    "Aas",
    "Arpl",
    "Adc",
    "Cmpxchg8b",
    "Daa",
    "Das",
    "Dec",
    "Div",
    "Enter",
    "Inc",
    "Jcxz",
    "Lea",
    "Leave",
    "Loop",
    "Mov",
    "Movsb",
    "Pop",
    "Popa",
    "Popad",
    "Push",
    "Pusha",
    "Pushad",
    "Pushf",
    "Pushfd",
    "Salc",
    "Xlatb",
];

/// Every mnemonic of [`Family::Integer`] that must come up.
pub const INTEGER_MNEMONICS: &[&str] = &[
    "Adc",
    "Add",
    "And",
    "Bsf",
    "Bsr",
    "Bswap",
    "Bt",
    "Btc",
    "Btr",
    "Bts",
    "Cbw",
    "Cdq",
    "Cdqe",
    "Clc",
    "Cld",
    "Cmc",
    "Cmova",
    "Cmove",
    "Cmovl",
    "Cmovno",
    "Cmovp",
    "Cmp",
    "Cmpsb",
    "Cmpsq",
    "Cmpxchg",
    "Cmpxchg16b",
    "Cmpxchg8b",
    "Cqo",
    "Crc32",
    "Cwd",
    "Cwde",
    "Dec",
    "Div",
    "Enter",
    "Idiv",
    "Imul",
    "Inc",
    "Jb",
    "Je",
    "Jg",
    "Jrcxz",
    "Jecxz",
    "Lahf",
    "Lea",
    "Leave",
    "Lodsd",
    "Loop",
    "Loope",
    "Loopne",
    "Mov",
    "Movnti",
    "Movsb",
    "Movsq",
    "Movsx",
    "Movsxd",
    "Movzx",
    "Mul",
    "Neg",
    "Nop",
    "Not",
    "Or",
    "Pop",
    "Popcnt",
    "Push",
    "Pushfq",
    "Rcl",
    "Rcr",
    "Rol",
    "Ror",
    "Sahf",
    "Sar",
    "Sbb",
    "Scasw",
    "Seta",
    "Setl",
    "Setnp",
    "Shl",
    "Shld",
    "Shr",
    "Shrd",
    "Stc",
    "Std",
    "Stosd",
    "Sub",
    "Test",
    "Xadd",
    "Xchg",
    "Xlatb",
    "Xor",
];

/// Instructions with what they run on.
pub struct Case {
    pub seed: u64,
    pub bits: u32,
    pub start: u64,
    pub regs: [u64; 16],
    pub flags: u64,
    /// Vector registers.
    pub vectors: Image,
    code: Vec<u8>,
    insns: Vec<Instruction>,
    undefined: u32,
}

/// What is known while a case is made.
struct Maker {
    family: Family,
    random: Random,
    info: InstructionInfoFactory,
    regs: [u64; 16],
    /// Registers whose value at this point isn't that of the beginning.
    written: u16,
    /// Registers that earlier instructions count on.
    pinned: u16,
    /// Flags that the manual says nothing of.
    undefined: u32,
    /// An earlier instruction may have been a jump over this one.
    branched: bool,
}

fn index(r: Register) -> Option<usize> {
    r.is_gpr()
        .then(|| r.full_register() as usize - Register::RAX as usize)
}

impl Case {
    /// The case of a seed, unless it turns out to be impossible.
    pub fn new(family: Family, seed: u64) -> Option<Case> {
        let mut random = Random::new(seed);
        let mut regs = [0; 16];
        for (n, v) in regs.iter_mut().enumerate() {
            *v = match n {
                // The stack, and what strings, frames and tables use.
                4 => random.address() & if random.one_in(3) { u64::MAX } else { !7 },
                3 | 5 | 6 | 7 if !random.one_in(3) => random.address(),
                _ => random.value(),
            };
            if family.bits() == 32 {
                *v &= 0xffff_ffff;
            }
        }
        let flags = random.next() & FLAGS & !DF | if random.one_in(4) { DF } else { 0 } | FIXED_FLAGS;
        // Now and then across the end of a page.
        let start = CODE
            + if random.one_in(4) {
                4096 - random.below(40)
            } else {
                64 + random.below(2000)
            };
        let wanted = if random.one_in(2) { 1 } else { 1 + random.below(6) };
        let mut maker = Maker {
            family,
            random,
            info: InstructionInfoFactory::new(),
            regs,
            written: 0,
            pinned: 1 << 4,
            undefined: 0,
            branched: false,
        };
        let vectors = match family {
            Family::Vector => Image::random(&mut maker.random, true),
            Family::X87 => x87::image(&mut maker.random),
            Family::Integer | Family::Integer32 => Image::fresh(),
        };
        let (mut code, mut insns, mut jumps) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..wanted {
            let (bytes, insn) = maker.instruction(start + code.len() as u64)?;
            if is_near(&insn) {
                jumps.push((code.len() + bytes.len() - 1, insns.len()));
            }
            insns.push(insn);
            code.extend(bytes);
        }
        if family.bits() == 32 {
            maker.regs.iter_mut().for_each(|v| *v &= 0xffff_ffff);
        }
        // Jumps go forward, to the beginning of an instruction or the end.
        for (at, n) in jumps {
            let targets = &insns[n + 1..];
            let past = targets.len() as u64;
            let pick = maker.random.below(past + 1) as usize;
            let target = targets
                .get(pick)
                .map_or(start + code.len() as u64, |i: &Instruction| i.ip());
            code[at] = (target - (start + at as u64 + 1)) as u8;
        }
        // Decoded anew, with targets and displacements as they are now.
        let mut decoder = Decoder::with_ip(family.bits(), &code, start, DecoderOptions::NONE);
        let insns: Vec<Instruction> = insns.iter().map(|_| decoder.decode()).collect();
        if x87::sees_c1(&insns) {
            return None;
        }
        Some(Case {
            seed,
            bits: family.bits(),
            start,
            regs: maker.regs,
            flags,
            vectors,
            code,
            insns,
            undefined: maker.undefined,
        })
    }

    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// Flags that can be compared.
    pub fn defined_flags(&self) -> u64 {
        FLAGS & !bits(self.undefined)
    }

    /// Whether C1 of the x87's status word can't be compared.
    pub fn leaves_c1_open(&self) -> bool {
        x87::leaves_c1_open(&self.insns)
    }

    pub fn mnemonics(&self) -> impl Iterator<Item = String> + '_ {
        self.insns.iter().map(|i| format!("{:?}", i.mnemonic()))
    }

    pub fn text(&self) -> String {
        let mut text = format!("seed {}, flags {:#x}\n", self.seed, self.flags);
        for (n, v) in self.regs.iter().enumerate() {
            text += &format!("  r{n}={v:#x}");
        }
        let mut formatter = GasFormatter::new();
        if self.vectors != Image::fresh() {
            text += &format!("{:?}", self.vectors);
        }
        for i in &self.insns {
            let at = (i.ip() - self.start) as usize;
            text += &format!("\n  {:x}: {:02x?} ", i.ip(), &self.code[at..at + i.len()]);
            formatter.format(i, &mut text);
        }
        text
    }
}

/// The decoder's flags at their places.
fn bits(flags: u32) -> u64 {
    const PLACES: [(u32, u64); 7] = [
        (RflagsBits::CF, 1),
        (RflagsBits::PF, 1 << 2),
        (RflagsBits::AF, 1 << 4),
        (RflagsBits::ZF, 1 << 6),
        (RflagsBits::SF, 1 << 7),
        (RflagsBits::DF, 1 << 10),
        (RflagsBits::OF, 1 << 11),
    ];
    PLACES
        .iter()
        .filter(|(flag, _)| flags & flag != 0)
        .map(|(_, place)| place)
        .sum()
}

impl Maker {
    /// An instruction at `ip` that fits to what came before.
    fn instruction(&mut self, ip: u64) -> Option<(Vec<u8>, Instruction)> {
        for _ in 0..60 {
            let bytes = self.bytes();
            let mut decoder = Decoder::with_ip(self.family.bits(), &bytes, ip, DecoderOptions::NONE);
            let insn = decoder.decode();
            if insn.is_invalid() || !self.wanted(&insn) {
                continue;
            }
            // To a jump prefixes mean nothing; on processors of the other maker 0x66 means 16 bits, and to loope and loopne
            // a repeat prefix is the condition.
            let prefixes = &bytes[..insn.len().saturating_sub(2)];
            if is_near(&insn) && prefixes.iter().any(|b| matches!(b, 0x66 | 0xf2 | 0xf3)) {
                continue;
            }
            let offsets = decoder.get_constant_offsets(&insn);
            let mut bytes = bytes[..insn.len()].to_vec();
            if offsets.has_displacement() {
                let (at, len) = (offsets.displacement_offset(), offsets.displacement_size());
                self.aim(&insn, &mut bytes[at..at + len]);
            }
            let insn = Decoder::with_ip(self.family.bits(), &bytes, ip, DecoderOptions::NONE).decode();
            let memory =
                insn.op_kinds().any(|kind| kind == OpKind::Memory) && insn.mnemonic() != Mnemonic::Lea;
            if memory && !self.place(&insn) || !self.flags(&insn) {
                continue;
            }
            self.prepare(&insn);
            let info = self.info.info(&insn);
            for used in info.used_registers() {
                if let Some(n) = index(used.register()) {
                    match used.access() {
                        OpAccess::Read | OpAccess::CondRead => self.pinned |= 1 << n,
                        _ => {
                            self.pinned |= 1 << n;
                            self.written |= 1 << n;
                        }
                    }
                }
            }
            return Some((bytes, insn));
        }
        None
    }

    fn vector_bytes(&mut self) -> Vec<u8> {
        let r = &mut self.random;
        let mut bytes = Vec::new();
        for (prefix, rarity) in [(0x67, 30), (0x2e, 100)] {
            if r.one_in(rarity) {
                bytes.push(prefix);
            }
        }
        bytes.extend([&[][..], &[0x66], &[0xf3], &[0xf2]][r.below(4) as usize]);
        if r.one_in(2) {
            bytes.push(0x40 | r.next() as u8 & 15);
        }
        bytes.extend([&[0x0f][..], &[0x0f], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]][r.below(5) as usize]);
        while bytes.len() < 20 {
            bytes.push(r.next() as u8);
        }
        bytes
    }

    fn bytes(&mut self) -> Vec<u8> {
        if self.family == Family::Vector {
            return self.vector_bytes();
        }
        if self.family == Family::X87 {
            return x87::bytes(&mut self.random);
        }
        let r = &mut self.random;
        let mut bytes = Vec::new();
        for (prefix, rarity) in [
            (0x66, 5),
            (0x67, 24),
            (0xf3, 16),
            (0xf2, 16),
            (0xf0, 24),
            (0x2e, 200),
        ] {
            if r.one_in(rarity) {
                bytes.push(prefix);
            }
        }
        if self.family.bits() == 64 && !r.one_in(3) {
            bytes.push(0x40 | r.next() as u8 & 15);
        }
        // Among all opcodes some have much to go wrong.
        const OFTEN: [&[u8]; 10] = [
            &[0xf6],
            &[0xf7],
            &[0xfe],
            &[0xff],
            &[0xd3],
            &[0xc1],
            &[0x0f, 0xc7, 0x08],
            &[0x0f, 0xb8],
            &[0x0f, 0xba],
            &[0x0f, 0x38, 0xf1],
        ];
        match r.below(16) {
            0..8 => {}
            8..13 => bytes.push(0x0f),
            _ => bytes.extend(OFTEN[r.below(10) as usize]),
        }
        while bytes.len() < 20 {
            bytes.push(r.next() as u8);
        }
        bytes
    }

    fn wanted(&self, i: &Instruction) -> bool {
        match self.family {
            Family::Integer | Family::Integer32 => integer(i),
            Family::Vector => vectors::wanted(i),
            Family::X87 => x87::wanted(i),
        }
    }

    /// Where a memory operand is going to be.
    fn target(&mut self, i: &Instruction) -> u64 {
        let aligned = match self.family {
            Family::Vector => !self.random.one_in(4),
            Family::Integer | Family::Integer32 | Family::X87 => i.mnemonic() == Mnemonic::Cmpxchg16b,
        };
        self.random.address() & if aligned { !15 } else { u64::MAX }
    }

    /// Displacements without a register point into the scratch memory, whatever their size.
    fn aim(&mut self, i: &Instruction, displacement: &mut [u8]) {
        let target = self.target(i);
        let value = match i.memory_base() {
            Register::RIP | Register::EIP => target.wrapping_sub(i.next_ip()),
            Register::None if i.memory_index() == Register::None => target,
            _ => return,
        };
        displacement.copy_from_slice(&value.to_le_bytes()[..displacement.len()]);
    }

    /// Has the registers of an address point into the scratch memory, if it is still to be said what they hold.
    fn place(&mut self, i: &Instruction) -> bool {
        let (base, other) = (index(i.memory_base()), index(i.memory_index()));
        let wide = i.memory_base().size() == 8 || i.memory_index().size() == 8 || self.family.bits() == 32;
        let target = self.target(i);
        let displacement = i.memory_displacement64();
        let scale = u64::from(i.memory_index_scale());
        let free = |maker: &Maker, n: usize| (maker.written | maker.pinned) >> n & 1 == 0;
        if let Some(n) = other
            && free(self, n)
        {
            self.regs[n] = self.random.below(64).wrapping_sub(16);
            self.pinned |= 1 << n;
        }
        let index_value = other.map_or(0, |n| self.regs[n].wrapping_mul(scale));
        match base {
            Some(n) if Some(n) == other => {}
            Some(n) if free(self, n) => {
                self.regs[n] = target.wrapping_sub(displacement).wrapping_sub(index_value);
                if self.family.bits() == 32 {
                    self.regs[n] &= 0xffff_ffff;
                }
                if !wide {
                    // The upper half doesn't count.
                    self.regs[n] = self.regs[n] & 0xffff_ffff | self.random.next() << 32;
                }
                self.pinned |= 1 << n;
            }
            _ => {}
        }
        true
    }

    /// Whether the instruction reads no undefined flag; what it leaves undefined is remembered.
    fn flags(&mut self, i: &Instruction) -> bool {
        if i.rflags_read() & self.undefined != 0 {
            return false;
        }
        // By cl, whose value may be 0: then nothing is written.
        let by_register = is_shift(i.mnemonic()) && i.op_kind(i.op_count() - 1) == OpKind::Register;
        let repeats = i.has_rep_prefix() || i.has_repne_prefix();
        if !by_register && !repeats && !self.branched {
            let modified = i.rflags_written() | i.rflags_cleared() | i.rflags_set();
            self.undefined &= !modified;
        }
        self.undefined |= i.rflags_undefined();
        if by_register {
            self.undefined |= RflagsBits::OF | RflagsBits::AF;
            // Counts above the width.
            if i.memory_size().size() < 4 || i.op0_register().size() < 4 {
                self.undefined |= RflagsBits::CF;
            }
        }
        self.branched |= i.flow_control() == FlowControl::ConditionalBranch;
        true
    }

    /// Registers that a form needs small.
    fn prepare(&mut self, i: &Instruction) {
        let free = (self.written | self.pinned) & 2 == 0;
        if free && (i.has_rep_prefix() || i.has_repne_prefix()) && i.is_string_instruction() {
            self.regs[1] = self.random.below(40);
        }
        let by_offset = matches!(
            i.mnemonic(),
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
        );
        if by_offset
            && i.op0_kind() == OpKind::Memory
            && let Some(n) = index(i.op1_register())
            && (self.written | self.pinned) >> n & 1 == 0
        {
            self.regs[n] = self.random.below(4096).wrapping_sub(2048);
            if i.op1_register().size() < 8 {
                self.regs[n] ^= self.random.next() << (8 * i.op1_register().size());
            }
        }
        // Lengths of strings.
        if matches!(
            i.mnemonic(),
            Mnemonic::Pcmpestri | Mnemonic::Pcmpestrm | Mnemonic::Pcmpestri64 | Mnemonic::Pcmpestrm64
        ) && (self.written | self.pinned) & 5 == 0
        {
            for n in [0, 2] {
                self.regs[n] = self.random.below(40).wrapping_sub(20);
            }
        }
        // A dividend that is likely to fit.
        if matches!(i.mnemonic(), Mnemonic::Div | Mnemonic::Idiv) && (self.written | self.pinned) & 5 == 0 {
            let high = self.random.value();
            let more = self.random.below(3);
            self.regs[2] = match more {
                0 => 0,
                1 => (self.regs[0] as i64 >> 63) as u64,
                _ => high >> self.random.below(64),
            };
            if i.memory_size().size() == 1 || i.op0_register().size() == 1 {
                self.regs[0] &= !0xff00 | self.random.below(16) << 8;
            }
        }
    }
}

/// A short jump.
fn is_near(i: &Instruction) -> bool {
    matches!(i.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32)
}

fn is_shift(m: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(m, Shl | Sal | Shr | Sar | Rol | Ror | Rcl | Rcr | Shld | Shrd)
}

/// Whether it is an instruction of [`Family::Integer`] that can run here.
fn integer(i: &Instruction) -> bool {
    use Mnemonic::*;
    let code = i.code();
    let mnemonic = i.mnemonic();
    let features = code.cpuid_features();
    let ours = features.iter().all(|f| {
        matches!(
            f,
            CpuidFeature::INTEL8086
                | CpuidFeature::INTEL186
                | CpuidFeature::INTEL286
                | CpuidFeature::INTEL386
                | CpuidFeature::INTEL486
                | CpuidFeature::INTEL8086_ONLY
                | CpuidFeature::X64
                | CpuidFeature::CMOV
                | CpuidFeature::CX8
                | CpuidFeature::CMPXCHG16B
                | CpuidFeature::POPCNT
                | CpuidFeature::MULTIBYTENOP
        )
    });
    let other = matches!(mnemonic, Crc32 | Movnti | Lahf | Sahf | Salc);
    // Fields of the hart that differ from ours, or that would stop this program.
    let never = matches!(
        mnemonic,
        Sgdt | Sidt
            | Sldt
            | Str
            | Smsw
            | Lar
            | Lsl
            | Verr
            | Verw
            | Popf
            | Popfq
            | Popfd
            | Lds
            | Les
            | Insb
            | Insw
            | Insd
            | Outsb
            | Outsw
            | Reservednop
            | Outsd
            | In
            | Out
            | Cli
            | Sti
            | Lfs
            | Lgs
            | Lss
            | Bound
            | Wait
            | Ud0
            | Ud1
            | Ud2
    );
    let segments = i.op_kinds().enumerate().any(|(n, kind)| {
        kind == OpKind::Register && {
            let r = i.op_register(n as u32);
            r.is_segment_register() || r.is_cr() || r.is_dr() || r.is_st()
        }
    });
    let flow = match i.flow_control() {
        FlowControl::Next => true,
        // Short ones, whose target is set later.
        FlowControl::ConditionalBranch => i.len() <= 4 && !i.is_jcc_near() && is_near(i),
        _ => false,
    };
    let far = matches!(i.memory_segment(), Register::FS | Register::GS)
        && i.op_kinds().any(|k| k == OpKind::Memory)
        || matches!(i.segment_prefix(), Register::FS | Register::GS);
    let narrow_double_shift = matches!(mnemonic, Shld | Shrd)
        && (i.op1_register().size() == 2)
        && (i.op2_kind() == OpKind::Register || i.immediate8() & 31 > 16);
    code.encoding() == EncodingKind::Legacy
        && (ours || other)
        && !never
        && !segments
        && flow
        && !far
        && !narrow_double_shift
        && !i.is_privileged()
        // The count decides what is written.
        && !matches!(code, Code::Bsf_r16_rm16 | Code::Bsr_r16_rm16 | Code::Bswap_r16)
}
