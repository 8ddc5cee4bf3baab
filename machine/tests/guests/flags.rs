//! x86-64's flags are kept as what made them: what lies there may depend on how code was cut into blocks, a state may not.
use icount::Icount;
use machine::check::Checked;
use machine::{EngineKind, Stopped};

use super::Quiet;
use super::strings::{CODE, config};

/// A loop that runs often enough to be made anew as one path, with flags at their places (`bt`) before a logical operation's;
/// now and then it is left there, for code that leaves flags alone.
fn code() -> Vec<u8> {
    let mut code = vec![
        0xb8, 1, 0, 0, 0, // mov $1, %eax
        0xb9, 0x20, 0x4e, 0, 0, // mov $20000, %ecx
        0x0f, 0xba, 0xe0, 0, // bt $0, %eax
        0x73, 8, // jnc to the end
        0xf6, 0xc1, 15, // test $15, %cl
        0x74, 5,    // jz to the nops
        0x49, // dec %ecx
        0x75, 0xf2, // jnz to bt
        0xeb, 0xfe, // the end: jmp to itself
    ];
    code.extend([0x90; 30]);
    code.extend([0xeb, 0xdb]); // jmp to dec
    code
}

#[test]
fn lazy_flags_are_compared_by_what_they_amount_to() {
    let images = vec![(CODE, code())];
    let kinds = [EngineKind::default(), EngineKind::Interp];
    let mut checked = Checked::new(&config(), images, Quiet::default(), kinds).unwrap();
    let steps = Icount(100_000);
    assert_eq!(checked.run(steps).unwrap(), Stopped::Reached);
    let paths = checked.lead().figures().map_or(0, |f| f.jit.paths);
    assert!(paths > 0, "the loop is no path");
}
