//! The golden cases on the interpreter; jit/tests/golden runs them translated too.

use crate::riscv64::flat::Interpreter;
use crate::riscv64::golden::check_all;

#[test]
fn golden_cases_hold() {
    let wrong = check_all(&mut [("interpreter", &mut Interpreter::default())]);
    assert!(wrong.is_empty(), "\n{wrong}");
}
