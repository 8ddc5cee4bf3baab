//! A short campaign of faults (`--bin campaign -- faults` is the long one): nothing lost, nothing replayed wrongly.

use std::path::Path;
use std::time::Duration;

use tests::faults::{Faults, Kind, Table, recordings};

#[test]
fn no_fault_loses_input_or_makes_a_wrong_replay() {
    let scratch = tempfile::tempdir().unwrap();
    let mut faults = Faults {
        program: Path::new(env!("CARGO_BIN_EXE_child")),
        scratch: scratch.path(),
        count: 8,
        seed: 3,
        life: Duration::from_millis(100),
    };
    let mut table = Table::default();
    faults.of_processes(&mut table).unwrap();
    faults.count = 60;
    faults
        .of_files(&recordings(scratch.path()).unwrap(), &mut table)
        .unwrap();
    let failures = table.failures();
    assert!(failures.is_empty(), "{table}\n{}", failures.join("\n"));
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::DiskFull) {
        assert!(table.0[&kind].tried >= 8, "{table}");
    }
    let opened = table.0.values().map(|row| row.whole + row.part).sum::<usize>();
    assert!(opened >= 60, "{table}");
}
