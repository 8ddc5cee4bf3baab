//! What runs on any host: waiting and pending exceptions, images that a 64-bit host doesn't make, MMX. The
//! comparison with the host's x87 is `tests/x87`.

use super::*;

fn run(x87: &mut X87, op: X87Op) -> Outcome {
    x87.execute(op, &Input::default()).unwrap()
}

fn started() -> X87 {
    let mut x87 = X87::reset();
    x87.init();
    x87
}

/// Every instruction that there is an opcode for, and `wait`.
fn all_ops() -> Vec<X87Op> {
    let opcodes = (0xd8..=0xdf).flat_map(|escape| (0..=0xff).map(move |modrm| (escape, modrm)));
    let ops = opcodes.filter_map(|(escape, modrm)| X87Op::from_opcode(escape, modrm));
    ops.chain([X87Op::Fwait]).collect()
}

/// SDM 1, 8.6: the non-waiting instructions, each by an opcode of its.
#[test]
fn non_waiting_instructions() {
    let opcodes = (0xd8..=0xdf).flat_map(|escape| (0..=0xff).map(move |modrm| (escape, modrm)));
    let waits_not: Vec<(u8, u8)> = opcodes
        .filter(|&(_, modrm)| modrm >= 0xc0 || modrm & 0xc7 == 0)
        .filter(|&(escape, modrm)| X87Op::from_opcode(escape, modrm).is_some_and(X87Op::is_non_waiting))
        .collect();
    let expected = [
        (0xd9, 6 << 3),
        (0xd9, 7 << 3),
        (0xdb, 0xe0),
        (0xdb, 0xe1),
        (0xdb, 0xe2),
        (0xdb, 0xe3),
        (0xdb, 0xe4),
        (0xdd, 6 << 3),
        (0xdd, 7 << 3),
        (0xdf, 0xe0),
    ];
    assert_eq!(waits_not, expected);
}

/// SDM 1, 8.6 and 8.7: an unmasked exception is delivered at the next waiting instruction, and by no other.
#[test]
fn pending_exception_waits_for_a_waiting_instruction() {
    let mut x87 = started();
    let unmask = Input {
        memory: &[0x40, 0x03],
        ..Input::default()
    };
    x87.execute(X87Op::Fldcw, &unmask).unwrap();
    run(
        &mut x87,
        X87Op::FldConstant(crate::softfloat::extended::Constant::Zero),
    );
    run(&mut x87, X87Op::Fld(Format::Word));
    let operands = Operands::FromTop { to: 1, pop: true };
    run(&mut x87, X87Op::Arithmetic(Arithmetic::Fdiv, operands));
    // 0 / 0: invalid, no result, nothing popped.
    assert!(x87.pending());
    assert_eq!((x87.top(), x87.st(0), x87.st(1)), (6, F80::ZERO, F80::ZERO));
    for op in all_ops() {
        let mut copy = x87;
        match copy.execute(op, &Input::default()) {
            Err(MathFault) => assert!(!op.is_non_waiting() && copy == x87, "{op:?}"),
            Ok(_) => assert!(op.is_non_waiting(), "{op:?}"),
        }
    }
    run(&mut x87, X87Op::Fnclex);
    assert!(!x87.pending());
    run(&mut x87, X87Op::Fwait);
}

/// A sticky exception that was masked becomes pending when its mask is cleared (SDM 1, 8.1.3.3).
#[test]
fn unmasking_a_sticky_exception() {
    let mut x87 = started();
    run(&mut x87, X87Op::Fsqrt);
    assert!(!x87.pending());
    let unmask = Input {
        memory: &[0x7e, 0x03],
        ..Input::default()
    };
    x87.execute(X87Op::Fldcw, &unmask).unwrap();
    assert_eq!(x87.execute(X87Op::Fwait, &Input::default()), Err(MathFault));
    // fnstenv stores the state with it, and masks everything.
    let stored = run(&mut x87, X87Op::Fnstenv).store.unwrap();
    assert_eq!(stored.as_slice()[4] & 0x80, 0x80);
    assert!(!x87.pending());
}

fn with_pointers() -> X87 {
    let mut x87 = started();
    let input = Input {
        opcode: 0x7123,
        instruction: FarPointer {
            selector: 0xf123,
            offset: 0x4567,
        },
        data: Some(FarPointer {
            selector: 0x8000,
            offset: 0x1234_5678,
        }),
        ..Input::default()
    };
    x87.execute(X87Op::Fld(Format::Extended), &input).unwrap();
    x87
}

fn environment(x87: &X87, format: ImageFormat) -> Vec<u8> {
    let input = Input {
        format,
        ..Input::default()
    };
    let stored = { *x87 }.execute(X87Op::Fnstenv, &input).unwrap().store.unwrap();
    stored.as_slice().to_vec()
}

/// SDM 1, figures 8-9 to 8-12.
#[test]
fn environments() {
    let x87 = with_pointers();
    assert_eq!(x87.opcode, 0x123);
    let words = |format| -> Vec<u32> {
        let bytes = environment(&x87, format);
        match bytes.len() {
            28 => bytes
                .chunks(4)
                .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
                .collect(),
            _ => bytes
                .chunks(2)
                .map(|b| u16::from_le_bytes(b.try_into().unwrap()).into())
                .collect(),
        }
    };
    // R7 is a zero.
    let first = [0x037f, 7 << 11, 0x7fff];
    let wide = first.map(|word| word | 0xffff_0000);
    let joined = |a: [u32; 3], b: [u32; 4]| a.into_iter().chain(b).collect::<Vec<_>>();
    assert_eq!(
        words(ImageFormat::Protected32),
        joined(wide, [0x4567, 0x0123_f123, 0x1234_5678, 0xffff_8000])
    );
    assert_eq!(
        words(ImageFormat::Protected16),
        joined(first, [0x4567, 0xf123, 0x5678, 0x8000])
    );
    // f1230 + 4567 = f5797; 80000 + 12345678 = 123c5678.
    assert_eq!(
        words(ImageFormat::Real32),
        joined(wide, [0xffff_5797, 0xf123, 0xffff_5678, 0x0123_c000])
    );
    assert_eq!(
        words(ImageFormat::Real16),
        joined(first, [0x5797, 0xf123, 0x5678, 0xc000])
    );
}

#[test]
fn environments_come_back() {
    let x87 = with_pointers();
    for format in [
        ImageFormat::Protected32,
        ImageFormat::Protected16,
        ImageFormat::Real32,
        ImageFormat::Real16,
    ] {
        let image = environment(&x87, format);
        let mut other = started();
        let input = Input {
            memory: &image,
            format,
            ..Input::default()
        };
        other.execute(X87Op::Fldenv, &input).unwrap();
        assert_eq!(environment(&other, format), image, "{format:?}");
        let state = |x87: &X87| {
            let input = Input {
                format,
                ..Input::default()
            };
            { *x87 }.execute(X87Op::Fnsave, &input).unwrap().store.unwrap()
        };
        let image = state(&x87);
        assert_eq!(image.as_slice().len(), format.state_size());
        let mut other = X87::reset();
        let input = Input {
            memory: image.as_slice(),
            format,
            ..Input::default()
        };
        other.execute(X87Op::Frstor, &input).unwrap();
        assert_eq!(state(&other), image, "{format:?}");
    }
    let mut image = [0x55; FXSAVE_X87];
    for wide in [false, true] {
        x87.fxsave(&mut image, wide);
        assert_eq!(image[24..32], [0x55; 8]);
        let mut other = X87::reset();
        other.fxrstor(&image, wide);
        let mut expected = x87;
        if wide {
            expected.instruction.selector = 0;
            expected.data.selector = 0;
        }
        assert_eq!(other, expected);
    }
}

/// Images and operands that are cut short, and states of any bits, do no harm.
#[test]
fn any_state_is_executed() {
    let mut seed = 1u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for op in all_ops() {
        for length in [0, 1, 9, 30, 108] {
            let memory: Vec<u8> = (0..length).map(|_| next() as u8).collect();
            let mut x87 = X87 {
                registers: std::array::from_fn(|_| F80::new(next() as u16, next())),
                env: X87Env {
                    control: next() as u16,
                    status: next() as u16 & !X87Env::ES,
                },
                tags: next() as u8,
                opcode: next() as u16,
                ..X87::reset()
            };
            let input = Input {
                memory: &memory,
                eflags: next() as u32,
                ..Input::default()
            };
            x87.execute(op, &input).unwrap();
        }
    }
}
