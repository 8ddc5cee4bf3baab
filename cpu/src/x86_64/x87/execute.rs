//! The meaning of every x87 instruction: stack, tags and pointers about the arithmetic. SDM 2A; SDM 1, 8.5.1.1 and 8.7.

use super::{Arithmetic, Bytes, Condition, FarPointer, Format, ImageFormat, Operands, X87, X87Op};
use crate::softfloat::extended::{self as f80, Comparison, F80, Operand, X87Env};

/// What an instruction depends on besides the x87 state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Input<'a> {
    /// The bytes at the memory operand, if it is read. What is missing counts as zeros.
    pub memory: &'a [u8],
    /// EFLAGS, for `fcmovcc`.
    pub eflags: u32,
    /// The layout of `fnstenv`, `fldenv`, `fnsave` and `frstor`.
    pub format: ImageFormat,
    /// The last opcode as it is kept: the low three bits of the first byte, and the second byte.
    pub opcode: u16,
    /// Where the instruction is.
    pub instruction: FarPointer,
    /// Where the memory operand is; `None` without one.
    pub data: Option<FarPointer>,
}

/// What an instruction does besides changing the x87 state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The bytes to be written to the memory operand (or AX, by `fnstsw ax`).
    pub store: Option<Bytes>,
    /// New values of ZF, PF and CF, at their bits; OF, SF and AF become 0 (SDM 2A, FCOMI).
    pub eflags: Option<u32>,
}

/// An unmasked exception is pending: #MF, before the instruction does anything (SDM 3A, 6.15, interrupt 16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MathFault;

/// The first `N` bytes of a memory operand.
fn bytes<const N: usize>(memory: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| memory.get(i).copied().unwrap_or(0))
}

/// A memory operand of arithmetic or a comparison, or an integer or decimal to be loaded.
fn operand(format: Format, memory: &[u8]) -> Operand {
    match format {
        Format::Single => Operand::single(u32::from_le_bytes(bytes(memory))),
        Format::Double => Operand::double(u64::from_le_bytes(bytes(memory))),
        Format::Extended => F80::from_bytes(bytes(memory)).into(),
        Format::Word => Operand::integer(i16::from_le_bytes(bytes(memory)).into()),
        Format::Doubleword => Operand::integer(i32::from_le_bytes(bytes(memory)).into()),
        Format::Quadword => Operand::integer(i64::from_le_bytes(bytes(memory))),
        Format::Bcd => f80::from_bcd(bytes(memory)).into(),
    }
}

type Unary = fn(&mut X87Env, Operand) -> Option<F80>;
type Binary = fn(&mut X87Env, Operand, Operand) -> Option<F80>;

impl X87 {
    /// Executes `op`. With [`MathFault`] nothing has changed.
    pub fn execute(&mut self, op: X87Op, input: &Input) -> Result<Outcome, MathFault> {
        if self.pending() && !op.is_non_waiting() {
            return Err(MathFault);
        }
        if !op.is_control() {
            self.opcode = input.opcode & 0x7ff;
            self.instruction = input.instruction;
            if let Some(data) = input.data {
                self.data = data;
            }
        }
        if op.reduces() {
            // Also if a stack fault keeps it from reducing.
            self.env.status &= !X87Env::C2;
        }
        let mut outcome = Outcome::default();
        match op {
            X87Op::Fld(format) => self.load(format, input.memory),
            X87Op::FldRegister(i) => self.load_register(i),
            X87Op::FldConstant(which) => self.push_checked(|env| Some(f80::constant(env, which))),
            X87Op::Fst { format, pop } => outcome.store = self.store(format, false, pop),
            X87Op::Fisttp(format) => outcome.store = self.store(format, true, true),
            X87Op::FstRegister { to, pop } => self.store_register(to, pop),
            X87Op::Arithmetic(arithmetic, operands) => self.arithmetic(arithmetic, operands, input.memory),
            X87Op::Fcom { format, pop } => {
                let with = operand(format, input.memory);
                self.compare_codes(Some(with), false, u8::from(pop));
            }
            X87Op::FcomRegister { with, quiet, pops } => {
                let with = self.full(with);
                self.compare_codes(with, quiet, pops);
            }
            X87Op::Fcomi { with, quiet, pop } => {
                let with = self.full(with);
                outcome.eflags = self.compare(with, quiet).map(Comparison::eflags);
                self.pop_unless_pending(u8::from(pop));
            }
            X87Op::Fcmov {
                condition,
                negated,
                from,
            } => {
                let taken = holds(condition, input.eflags) != negated;
                self.conditional_move(taken, from);
            }
            X87Op::Fxch(i) => self.exchange(i),
            X87Op::FstpNoCheck(to) => {
                clear_c1(&mut self.env);
                if !self.is_empty(0) {
                    self.set(to, self.st(0));
                }
                self.pop();
            }
            X87Op::Ffree { what, pop } => {
                // Undefined by the SDM; what processors do.
                clear_c1(&mut self.env);
                self.free(what);
                if pop {
                    self.pop();
                }
            }
            X87Op::Fchs => self.pattern(F80::negated),
            X87Op::Fabs => self.pattern(F80::absolute),
            X87Op::Ftst => self.compare_codes(Some(F80::ZERO.into()), false, 0),
            X87Op::Fxam => self.examine(),
            X87Op::F2xm1 => self.unary(f80::exp2_minus_one),
            X87Op::Fyl2x => self.binary(f80::y_log2),
            X87Op::Fyl2xp1 => self.binary(f80::y_log2_one_plus),
            X87Op::Fpatan => self.binary(f80::atan),
            X87Op::Fptan => self.unary_push(f80::tan),
            X87Op::Fsincos => self.unary_push(f80::sin_cos),
            X87Op::Fxtract => self.unary_push(f80::extract),
            X87Op::Fprem => self.binary_in_place(f80::remainder),
            X87Op::Fprem1 => self.binary_in_place(f80::remainder_nearest),
            X87Op::Fscale => self.binary_in_place(f80::scale),
            X87Op::Fsqrt => self.unary(f80::sqrt),
            X87Op::Frndint => self.unary(f80::round_to_integer),
            X87Op::Fsin => self.unary(f80::sin),
            X87Op::Fcos => self.unary(f80::cos),
            X87Op::Fdecstp => self.rotate(self.top().wrapping_sub(1)),
            X87Op::Fincstp => self.rotate(self.top().wrapping_add(1)),
            X87Op::Fnop | X87Op::Fwait | X87Op::Ignored => {}
            X87Op::Fninit => self.init(),
            X87Op::Fnclex => {
                self.env.status &= !(X87Env::EXCEPTIONS | X87Env::SF | X87Env::ES | X87Env::BUSY)
            }
            X87Op::Fnstsw => outcome.store = Some(Bytes::new(&self.env.status.to_le_bytes())),
            X87Op::Fnstcw => outcome.store = Some(Bytes::new(&self.env.control.to_le_bytes())),
            X87Op::Fldcw => self.set_control(u16::from_le_bytes(bytes(input.memory))),
            X87Op::Fnstenv => {
                outcome.store = Some(self.environment(input.format));
                self.set_control(self.env.control | X87Env::EXCEPTIONS);
            }
            X87Op::Fldenv => self.load_environment(input.format, input.memory),
            X87Op::Fnsave => {
                outcome.store = Some(self.save(input.format));
                self.init();
            }
            X87Op::Frstor => self.restore(input.format, input.memory),
        }
        Ok(outcome)
    }

    /// ST(i), if it isn't empty.
    fn full(&self, i: u8) -> Option<Operand> {
        (!self.is_empty(i)).then(|| self.st(i).into())
    }

    /// Pushes a value that is made only if there is room.
    fn push_checked(&mut self, value: impl FnOnce(&mut X87Env) -> Option<F80>) {
        if !self.is_empty(7) {
            if self.overflow() {
                self.push(F80::INDEFINITE);
            }
        } else if let Some(value) = value(&mut self.env) {
            self.push(value);
        }
    }

    fn load(&mut self, format: Format, memory: &[u8]) {
        self.push_checked(|env| match format {
            Format::Single => f80::from_f32(env, u32::from_le_bytes(bytes(memory))),
            Format::Double => f80::from_f64(env, u64::from_le_bytes(bytes(memory))),
            _ => {
                clear_c1(env);
                Some(match format {
                    // As it is, supported or not.
                    Format::Extended => F80::from_bytes(bytes(memory)),
                    _ => operand(format, memory).to_f80(),
                })
            }
        });
    }

    fn load_register(&mut self, i: u8) {
        if self.is_empty(i) {
            if self.underflow() {
                self.push(F80::INDEFINITE);
            }
            return;
        }
        let value = self.st(i);
        self.push_checked(|env| {
            clear_c1(env);
            Some(value)
        });
    }

    fn store(&mut self, format: Format, truncate: bool, pop: bool) -> Option<Bytes> {
        let value = if !self.is_empty(0) {
            self.st(0)
        } else if self.underflow() {
            F80::INDEFINITE
        } else {
            return None;
        };
        // What an empty register raises was raised: the conversion of the indefinite adds nothing but IE.
        let c1 = self.env.status & X87Env::C1;
        let env = &mut self.env;
        let stored = match (format, format.integer()) {
            (_, Some(width)) => {
                let convert = if truncate {
                    f80::to_integer_truncated
                } else {
                    f80::to_integer
                };
                Bytes::new(&convert(env, value, width)?.to_le_bytes()[..format.size()])
            }
            (Format::Single, _) => Bytes::new(&f80::to_f32(env, value)?.to_le_bytes()),
            (Format::Double, _) => Bytes::new(&f80::to_f64(env, value)?.to_le_bytes()),
            (Format::Bcd, _) => Bytes::new(&f80::to_bcd(env, value)?),
            _ => {
                env.status &= !c1;
                Bytes::new(&value.to_bytes())
            }
        };
        if pop {
            self.pop();
        }
        Some(stored)
    }

    fn store_register(&mut self, to: u8, pop: bool) {
        if self.is_empty(0) {
            if !self.underflow() {
                return;
            }
            self.set(to, F80::INDEFINITE);
        } else {
            clear_c1(&mut self.env);
            self.set(to, self.st(0));
        }
        if pop {
            self.pop();
        }
    }

    fn arithmetic(&mut self, op: Arithmetic, operands: Operands, memory: &[u8]) {
        let (to, source, pop) = match operands {
            Operands::Memory(format) => (0, Some(operand(format, memory)), false),
            Operands::ToTop(i) => (0, self.full(i), false),
            Operands::FromTop { to, pop } => (to, self.full(0), pop),
        };
        let destination = self.full(to);
        let env = &mut self.env;
        let result = match (destination, source) {
            (Some(a), Some(b)) => match op {
                Arithmetic::Fadd => f80::add(env, a, b),
                Arithmetic::Fmul => f80::mul(env, a, b),
                Arithmetic::Fsub => f80::sub(env, a, b),
                Arithmetic::Fsubr => f80::sub(env, b, a),
                Arithmetic::Fdiv => f80::div(env, a, b),
                Arithmetic::Fdivr => f80::div(env, b, a),
            },
            _ => self.underflow().then_some(F80::INDEFINITE),
        };
        if let Some(value) = result {
            self.set(to, value);
            if pop {
                self.pop();
            }
        }
    }

    /// Compares ST(0) with `with` (`None`: an empty register).
    fn compare(&mut self, with: Option<Operand>, quiet: bool) -> Option<Comparison> {
        let (Some(a), Some(b)) = (self.full(0), with) else {
            return self.underflow().then_some(Comparison::Unordered);
        };
        if quiet {
            f80::compare_quiet(&mut self.env, a, b)
        } else {
            f80::compare(&mut self.env, a, b)
        }
    }

    fn compare_codes(&mut self, with: Option<Operand>, quiet: bool, pops: u8) {
        if let Some(outcome) = self.compare(with, quiet) {
            let codes = X87Env::C0 | X87Env::C2 | X87Env::C3;
            self.env.status = self.env.status & !codes | outcome.condition_codes();
        }
        self.pop_unless_pending(pops);
    }

    /// A comparison pops unless it raised an unmasked exception: none was pending before.
    fn pop_unless_pending(&mut self, pops: u8) {
        if !self.pending() {
            for _ in 0..pops {
                self.pop();
            }
        }
    }

    fn conditional_move(&mut self, taken: bool, from: u8) {
        if self.is_empty(0) || self.is_empty(from) {
            if self.underflow() {
                self.set(0, F80::INDEFINITE);
            }
            return;
        }
        if taken {
            self.set(0, self.st(from));
        }
    }

    fn exchange(&mut self, i: u8) {
        if self.is_empty(0) || self.is_empty(i) {
            if !self.underflow() {
                return;
            }
            for at in [0, i] {
                if self.is_empty(at) {
                    self.set(at, F80::INDEFINITE);
                }
            }
        } else {
            clear_c1(&mut self.env);
        }
        let (a, b) = (self.st(0), self.st(i));
        self.set(0, b);
        self.set(i, a);
    }

    fn examine(&mut self) {
        let a = self.st(0);
        let codes = X87Env::C0 | X87Env::C1 | X87Env::C2 | X87Env::C3;
        let class = if self.is_empty(0) {
            X87Env::C3 | X87Env::C0 | if a.sign() { X87Env::C1 } else { 0 }
        } else {
            f80::classify(a)
        };
        self.env.status = self.env.status & !codes | class;
    }

    /// ST(0) becomes `op(ST(0))`.
    fn unary(&mut self, op: Unary) {
        let result = match self.full(0) {
            Some(a) => op(&mut self.env, a),
            None => self.underflow().then_some(F80::INDEFINITE),
        };
        if let Some(value) = result {
            self.set(0, value);
        }
    }

    /// ST(0) becomes `op(ST(0))`, of any pattern and without an exception.
    fn pattern(&mut self, op: fn(F80) -> F80) {
        if !self.is_empty(0) {
            clear_c1(&mut self.env);
            self.set(0, op(self.st(0)));
        } else if self.underflow() {
            self.set(0, F80::INDEFINITE);
        }
    }

    /// ST(0) is replaced by the first result and the second pushed.
    fn unary_push(&mut self, op: fn(&mut X87Env, Operand) -> Option<(F80, F80)>) {
        let masked = if self.is_empty(0) {
            self.underflow()
        } else if !self.is_empty(7) {
            self.overflow()
        } else {
            let a = self.st(0).into();
            if let Some((below, top)) = op(&mut self.env, a) {
                self.set(0, below);
                self.push(top);
            }
            return;
        };
        if masked {
            self.set(0, F80::INDEFINITE);
            self.push(F80::INDEFINITE);
        }
    }

    /// ST(1) becomes `op(ST(1), ST(0))`, and ST(0) is popped.
    fn binary(&mut self, op: Binary) {
        let result = match (self.full(1), self.full(0)) {
            (Some(y), Some(x)) => op(&mut self.env, y, x),
            _ => self.underflow().then_some(F80::INDEFINITE),
        };
        if let Some(value) = result {
            self.set(1, value);
            self.pop();
        }
    }

    /// ST(0) becomes `op(ST(0), ST(1))`.
    fn binary_in_place(&mut self, op: Binary) {
        let result = match (self.full(0), self.full(1)) {
            (Some(a), Some(b)) => op(&mut self.env, a, b),
            _ => self.underflow().then_some(F80::INDEFINITE),
        };
        if let Some(value) = result {
            self.set(0, value);
        }
    }

    fn rotate(&mut self, top: u8) {
        clear_c1(&mut self.env);
        self.set_top(top);
    }

    /// Loads the control word. Reserved bits read as what they are on a processor: bit 6 is 1.
    pub(super) fn set_control(&mut self, control: u16) {
        self.env.control = control & 0x1f3f | 0x40;
        self.env.update_summary();
    }
}

fn clear_c1(env: &mut X87Env) {
    env.status &= !X87Env::C1;
}

fn holds(condition: Condition, eflags: u32) -> bool {
    const CF: u32 = 1;
    const PF: u32 = 1 << 2;
    const ZF: u32 = 1 << 6;
    let flags = match condition {
        Condition::Below => CF,
        Condition::Equal => ZF,
        Condition::BelowOrEqual => CF | ZF,
        Condition::Unordered => PF,
    };
    eflags & flags != 0
}
