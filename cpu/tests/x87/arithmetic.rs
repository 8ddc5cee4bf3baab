//! Every operation of `softfloat::extended` that is exact, against the host.

use crate::host::{self, Insn, Pointers, State};
use crate::operands::{Random, count, specials};
use cpu::softfloat::extended::{self as x, Comparison, Constant, F80, IntegerWidth, Operand, X87Env};

/// Cases per instruction. Some forty instructions: above 10^5 in all.
const CASES: u64 = 4_000;

/// What an instruction should do.
enum Effect {
    /// An unmasked exception: nothing but the status word changes.
    Nothing,
    /// ST(0) is replaced.
    Replace(F80),
    /// ST(0) is replaced and a value pushed.
    ReplacePush(F80, F80),
    /// A value is pushed.
    Push(F80),
    /// Memory is written.
    Store(Vec<u8>),
    /// Memory is written and ST(0) popped.
    StorePop(Vec<u8>),
    /// EFLAGS are written.
    Eflags(u32),
}

use Effect::{Eflags, Nothing, Push, Replace, ReplacePush, Store, StorePop};

fn replace(result: Option<F80>) -> Effect {
    result.map_or(Nothing, Replace)
}

fn push(result: Option<F80>) -> Effect {
    result.map_or(Nothing, Push)
}

/// ST(0), ST(1) and memory before an instruction.
struct Case {
    a: F80,
    b: F80,
    memory: [u8; 16],
    control: u16,
    status: u16,
}

impl Case {
    fn random(random: &mut Random) -> Self {
        let (a, b) = random.pair();
        let mut memory = [0; 16];
        memory[..8].copy_from_slice(&random.next().to_le_bytes());
        memory[8..].copy_from_slice(&random.next().to_le_bytes());
        Self {
            a,
            b,
            memory,
            control: random.control(),
            status: random.condition_codes(),
        }
    }

    fn m<const N: usize>(&self) -> [u8; N] {
        self.memory[..N].try_into().unwrap()
    }

    fn check(&self, name: &str, insn: &Insn, ours: &dyn Fn(&mut X87Env, &Case) -> Effect) {
        let filler = F80::new(0x4001, 0xabcd_0000_0000_0000);
        let mut expected = State {
            control: self.control,
            status: self.status | 4 << 11,
            // ST(4) to ST(7), the registers 0 to 3, are empty.
            tags: 0x00ff,
            st: [filler; 8],
            memory: [0; 112],
            pointers: Pointers::default(),
            eflags: 0x8d5,
        };
        expected.memory[..16].copy_from_slice(&self.memory);
        expected.st[0] = self.a;
        expected.st[1] = self.b;
        let host = insn.run(expected);
        let mut env = X87Env {
            control: self.control,
            status: expected.status,
        };
        let mut pop = false;
        let mut pushed = None;
        match ours(&mut env, self) {
            Nothing => {}
            Replace(value) => expected.st[0] = value,
            ReplacePush(below, value) => {
                expected.st[0] = below;
                pushed = Some(value);
            }
            Push(value) => pushed = Some(value),
            Store(bytes) => expected.memory[..bytes.len()].copy_from_slice(&bytes),
            StorePop(bytes) => {
                expected.memory[..bytes.len()].copy_from_slice(&bytes);
                pop = true;
            }
            Eflags(flags) => expected.eflags = flags,
        }
        if let Some(value) = pushed {
            expected.st.rotate_right(1);
            expected.st[0] = value;
            env.status = env.status & !0x3800 | 3 << 11;
        }
        if pop {
            expected.st.rotate_left(1);
            env.status = env.status & !0x3800 | 5 << 11;
        }
        expected.status = env.status;
        expected.pointers = host.pointers;
        // The tags are the stack's business; here they tell of a push or a pop, which TOP does too.
        expected.tags = host.tags;
        assert!(
            host == expected,
            "{name}: ST0 {:x?} ST1 {:x?} memory {:x?} control {:#x} status {:#x}\nhost {host:x?}\nours {expected:x?}",
            self.a,
            self.b,
            self.memory,
            self.control,
            self.status
        );
    }
}

fn check(name: &str, code: &[u8], ours: &dyn Fn(&mut X87Env, &Case) -> Effect) {
    check_with(name, code, &|_, _| {}, ours);
}

/// Random cases that `bend` makes more telling.
fn check_with(
    name: &str,
    code: &[u8],
    bend: &dyn Fn(&mut Random, &mut Case),
    ours: &dyn Fn(&mut X87Env, &Case) -> Effect,
) {
    let insn = Insn::new(code);
    let mut random = Random::new(code.iter().fold(7, |s, b| s * 256 + u64::from(*b)));
    for _ in 0..count(CASES) {
        let mut case = Case::random(&mut random);
        bend(&mut random, &mut case);
        case.check(name, &insn, ours);
    }
}

/// Every special value for ST(0), and for ST(1) each of a few of its neighbours in the list.
fn check_specials(name: &str, code: &[u8], ours: &dyn Fn(&mut X87Env, &Case) -> Effect) {
    check(name, code, ours);
    let insn = Insn::new(code);
    let mut random = Random::new(code.iter().fold(8, |s, b| s * 256 + u64::from(*b)));
    let specials = specials();
    for &a in &specials {
        let mut case = Case::random(&mut random);
        case.a = a;
        case.b = random.pick(&specials);
        case.check(name, &insn, ours);
    }
}

fn st(c: &Case) -> (Operand, Operand) {
    (c.a.into(), c.b.into())
}

#[test]
fn add() {
    check_specials("fadd", &[0xd8, 0xc1], &|e, c| {
        replace(x::add(e, st(c).0, st(c).1))
    });
}

#[test]
fn sub() {
    check_specials("fsub", &[0xd8, 0xe1], &|e, c| {
        replace(x::sub(e, st(c).0, st(c).1))
    });
    check_specials("fsubr", &[0xd8, 0xe9], &|e, c| {
        replace(x::sub(e, st(c).1, st(c).0))
    });
}

#[test]
fn mul() {
    check_specials("fmul", &[0xd8, 0xc9], &|e, c| {
        replace(x::mul(e, st(c).0, st(c).1))
    });
}

#[test]
fn div() {
    check_specials("fdiv", &[0xd8, 0xf1], &|e, c| {
        replace(x::div(e, st(c).0, st(c).1))
    });
    check_specials("fdivr", &[0xd8, 0xf9], &|e, c| {
        replace(x::div(e, st(c).1, st(c).0))
    });
}

#[test]
fn sqrt() {
    check_specials("fsqrt", &[0xd9, 0xfa], &|e, c| replace(x::sqrt(e, c.a.into())));
}

/// Memory that holds a binary32 or binary64 near the number in ST(0), or anything.
fn bend_memory(random: &mut Random, case: &mut Case) {
    let raw = random.next();
    let (single, double) = match random.below(4) {
        0 => return,
        1 => (
            (raw & 0x807f_ffff) as u32 | random.pick(&[0, 0x7f80_0000]),
            raw & 0x800f_ffff_ffff_ffff | random.pick(&[0, 0x7ff0_0000_0000_0000]),
        ),
        2 => ((raw & 0x8000_0000) as u32, raw & 1 << 63),
        _ => (
            (raw & 0x807f_ffff) as u32 | (0x30 + random.below(0x30) as u32) << 24,
            raw & 0x800f_ffff_ffff_ffff | (0x3c0 + random.below(0x80)) << 52,
        ),
    };
    case.memory[..8].copy_from_slice(&double.to_le_bytes());
    if random.below(2) == 0 {
        case.memory[..4].copy_from_slice(&single.to_le_bytes());
    }
}

#[test]
fn memory_operands() {
    let single = |c: &Case| Operand::single(u32::from_le_bytes(c.m()));
    let double = |c: &Case| Operand::double(u64::from_le_bytes(c.m()));
    let word = |c: &Case| Operand::integer(i16::from_le_bytes(c.m()).into());
    let dword = |c: &Case| Operand::integer(i32::from_le_bytes(c.m()).into());
    type Pick<'a> = &'a dyn Fn(&Case) -> Operand;
    let forms: [(&str, u8, Pick); 4] = [
        ("m32fp", 0xd8, &single),
        ("m64fp", 0xdc, &double),
        ("m32int", 0xda, &dword),
        ("m16int", 0xde, &word),
    ];
    for (form, opcode, operand) in forms {
        let run = |name: &str, reg: u8, ours: &dyn Fn(&mut X87Env, Operand, Operand) -> Option<F80>| {
            check_with(
                &format!("{name} {form}"),
                &[opcode, reg << 3 | 2],
                &bend_memory,
                &|e, c| replace(ours(e, c.a.into(), operand(c))),
            );
        };
        run("fadd", 0, &x::add);
        run("fmul", 1, &x::mul);
        run("fsub", 4, &x::sub);
        run("fsubr", 5, &|e, a, b| x::sub(e, b, a));
        run("fdiv", 6, &x::div);
        run("fdivr", 7, &|e, a, b| x::div(e, b, a));
        check_with(
            &format!("fcom {form}"),
            &[opcode, 2 << 3 | 2],
            &bend_memory,
            &|e, c| {
                let outcome = x::compare(e, c.a.into(), operand(c));
                condition(e, outcome)
            },
        );
    }
}

/// By the SDM an unmasked invalid operation writes nothing; AMD processors report *unordered*.
fn outcome(ours: Option<Comparison>) -> Option<Comparison> {
    ours.or_else(|| host::is_amd().then_some(Comparison::Unordered))
}

fn condition(env: &mut X87Env, ours: Option<Comparison>) -> Effect {
    if let Some(outcome) = outcome(ours) {
        env.status = env.status & !0x4500 | outcome.condition_codes();
    }
    Nothing
}

/// By the SDM C1 is cleared; AMD processors leave it alone.
fn eflags(env: &mut X87Env, case: &Case, ours: Option<Comparison>) -> Effect {
    if host::is_amd() {
        env.status |= case.status & X87Env::C1;
    }
    outcome(ours).map_or(Nothing, |c| Eflags(c.eflags()))
}

#[test]
fn compare() {
    let equal = |random: &mut Random, case: &mut Case| match random.below(8) {
        0 => case.b = case.a,
        1 => case.b = case.a.negated(),
        2 => case.b = F80::new(case.a.sign_exponent, case.a.significand ^ 1),
        _ => {}
    };
    check_with("fcom", &[0xd8, 0xd1], &equal, &|e, c| {
        let outcome = x::compare(e, st(c).0, st(c).1);
        condition(e, outcome)
    });
    check_with("fucom", &[0xdd, 0xe1], &equal, &|e, c| {
        let outcome = x::compare_quiet(e, st(c).0, st(c).1);
        condition(e, outcome)
    });
    check_with("fcomi", &[0xdb, 0xf1], &equal, &|e, c| {
        let outcome = x::compare(e, st(c).0, st(c).1);
        eflags(e, c, outcome)
    });
    check_with("fucomi", &[0xdb, 0xe9], &equal, &|e, c| {
        let outcome = x::compare_quiet(e, st(c).0, st(c).1);
        eflags(e, c, outcome)
    });
    check_specials("ftst", &[0xd9, 0xe4], &|e, c| {
        let outcome = x::compare(e, c.a.into(), F80::ZERO.into());
        condition(e, outcome)
    });
    check_specials("fxam", &[0xd9, 0xe5], &|e, c| {
        e.status = e.status & !0x4700 | x::classify(c.a);
        Nothing
    });
}

#[test]
fn signs() {
    check_specials("fchs", &[0xd9, 0xe0], &|e, c| {
        e.status &= !X87Env::C1;
        Replace(c.a.negated())
    });
    check_specials("fabs", &[0xd9, 0xe1], &|e, c| {
        e.status &= !X87Env::C1;
        Replace(c.a.absolute())
    });
}

/// Dividends up to 130 bits above the divisor, and ones far above it.
fn bend_remainder(random: &mut Random, case: &mut Case) {
    if random.below(4) == 0 {
        std::mem::swap(&mut case.a, &mut case.b);
    }
    if random.below(4) == 0 {
        let field = i32::from(case.b.exp_field()) + random.below(70) as i32 - 3;
        case.a = F80::new(field.clamp(0, 0x7ffe) as u16, random.significand());
    }
}

#[test]
fn remainder() {
    check_with("fprem", &[0xd9, 0xf8], &bend_remainder, &|e, c| {
        replace(x::remainder(e, st(c).0, st(c).1))
    });
    check_with("fprem1", &[0xd9, 0xf5], &bend_remainder, &|e, c| {
        replace(x::remainder_nearest(e, st(c).0, st(c).1))
    });
}

#[test]
fn round_to_integer() {
    check_specials("frndint", &[0xd9, 0xfc], &|e, c| {
        replace(x::round_to_integer(e, c.a.into()))
    });
}

/// Powers that keep the result in range, reach its ends, or go past them.
fn bend_scale(random: &mut Random, case: &mut Case) {
    let power = match random.below(4) {
        0 => return,
        1 => random.below(140) as i64 - 70,
        2 => random.pick(&[-0x7ffe, -0x3fff, 0x3fff, 0x7ffe]) + random.below(140) as i64 - 70,
        _ => random.below(0x2_0000) as i64 - 0x1_0000,
    };
    case.b = Operand::integer(power).to_f80();
    if random.below(4) == 0 {
        case.b.significand |= random.next() >> 40;
    }
}

#[test]
fn scale() {
    check_with("fscale", &[0xd9, 0xfd], &bend_scale, &|e, c| {
        replace(x::scale(e, st(c).0, st(c).1))
    });
}

#[test]
fn extract() {
    check_specials("fxtract", &[0xd9, 0xf4], &|e, c| {
        x::extract(e, c.a.into()).map_or(Nothing, |(exponent, significand)| {
            ReplacePush(exponent, significand)
        })
    });
}

#[test]
fn constants() {
    for (i, which) in Constant::ALL.into_iter().enumerate() {
        check(&format!("{which:?}"), &[0xd9, 0xe8 + i as u8], &|e, _| {
            Push(x::constant(e, which))
        });
    }
}

#[test]
fn loads() {
    check_with("fld m32fp", &[0xd9, 0x02], &bend_memory, &|e, c| {
        push(x::from_f32(e, u32::from_le_bytes(c.m())))
    });
    check_with("fld m64fp", &[0xdd, 0x02], &bend_memory, &|e, c| {
        push(x::from_f64(e, u64::from_le_bytes(c.m())))
    });
    let integer = |e: &mut X87Env, value: i64| {
        e.status &= !X87Env::C1;
        Push(Operand::integer(value).to_f80())
    };
    check("fild m16int", &[0xdf, 0x02], &|e, c| {
        integer(e, i16::from_le_bytes(c.m()).into())
    });
    check("fild m32int", &[0xdb, 0x02], &|e, c| {
        integer(e, i32::from_le_bytes(c.m()).into())
    });
    check("fild m64int", &[0xdf, 0x2a], &|e, c| {
        integer(e, i64::from_le_bytes(c.m()))
    });
}

/// Numbers about the ends of the narrower formats, and where they round.
fn bend_store(random: &mut Random, case: &mut Case) {
    let field = match random.below(6) {
        0 => return,
        1 => 0x3fff - 140 + random.below(60) as u16,
        2 => 0x3fff - 1080 + random.below(80) as u16,
        3 => 0x3fff + 120 + random.below(16) as u16,
        4 => 0x3fff + 1016 + random.below(16) as u16,
        _ => 0x3fff - 4 + random.below(70) as u16,
    };
    case.a.sign_exponent = case.a.sign_exponent & 0x8000 | field;
    case.a.significand |= 1 << 63;
}

#[test]
fn stores() {
    check_with("fst m32fp", &[0xd9, 0x12], &bend_store, &|e, c| {
        x::to_f32(e, c.a).map_or(Nothing, |v| Store(v.to_le_bytes().into()))
    });
    check_with("fst m64fp", &[0xdd, 0x12], &bend_store, &|e, c| {
        x::to_f64(e, c.a).map_or(Nothing, |v| Store(v.to_le_bytes().into()))
    });
}

/// Numbers about the ends of the integer types, and halves.
fn bend_integer(random: &mut Random, case: &mut Case) {
    if random.below(4) == 0 {
        return;
    }
    let field = 0x3fff + random.pick(&[0, 13, 29, 57, 61]) - 2 + random.below(6) as u16;
    case.a.sign_exponent = case.a.sign_exponent & 0x8000 | field;
    case.a.significand = match random.below(3) {
        0 => random.significand(),
        1 => (1 << 63) + random.below(4),
        _ => u64::MAX << random.below(64),
    } | 1 << 63;
}

#[test]
fn integer_stores() {
    use IntegerWidth::{W16, W32, W64};
    let bytes = |value: i64, width: IntegerWidth| value.to_le_bytes()[..width.bits() as usize / 8].to_vec();
    for (width, opcode, reg) in [(W16, 0xdf, 2), (W32, 0xdb, 2)] {
        check_with("fist", &[opcode, reg << 3 | 2], &bend_integer, &|e, c| {
            x::to_integer(e, c.a, width).map_or(Nothing, |v| Store(bytes(v, width)))
        });
    }
    check_with("fistp m64int", &[0xdf, 0x3a], &bend_integer, &|e, c| {
        x::to_integer(e, c.a, W64).map_or(Nothing, |v| StorePop(bytes(v, W64)))
    });
    for (width, opcode) in [(W16, 0xdf), (W32, 0xdb), (W64, 0xdd)] {
        check_with("fisttp", &[opcode, 0x0a], &bend_integer, &|e, c| {
            x::to_integer_truncated(e, c.a, width).map_or(Nothing, |v| StorePop(bytes(v, width)))
        });
    }
}

#[test]
fn decimals() {
    let digits = |random: &mut Random, case: &mut Case| {
        for byte in &mut case.memory[..9] {
            *byte = (random.below(10) << 4 | random.below(10)) as u8;
        }
        if random.below(8) == 0 {
            case.memory[..9].fill(random.pick(&[0, 0x99]));
        }
    };
    check_with("fbld", &[0xdf, 0x22], &digits, &|e, c| {
        e.status &= !X87Env::C1;
        Push(x::from_bcd(c.m()))
    });
    let decimal = |random: &mut Random, case: &mut Case| {
        bend_integer(random, case);
        if random.below(4) == 0 {
            let near = 1_000_000_000_000_000_000 - 3 + random.below(6) as i64;
            let sign = case.a.sign_exponent & 0x8000;
            case.a = Operand::integer(near).to_f80();
            case.a.sign_exponent |= sign;
            case.a.significand |= random.below(16);
        }
    };
    check_with("fbstp", &[0xdf, 0x32], &decimal, &|e, c| {
        x::to_bcd(e, c.a).map_or(Nothing, |v| StorePop(v.into()))
    });
}
