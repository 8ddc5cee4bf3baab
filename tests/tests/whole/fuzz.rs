//! Hostile bytes: what fuzzers have found, and random ones beside.

use std::fs;
use std::path::Path;

use tests::Random;
use tests::fuzz::BODIES;

/// Random inputs for each body; campaigns try more (docs/reliability.md).
const TRIES: u64 = 60;

#[test]
fn stored_and_random_inputs() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions");
    let mut stored = 0;
    for (name, body) in BODIES {
        let folder = corpora.join(name);
        if folder.is_dir() {
            let mut paths: Vec<_> = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            paths.sort();
            for path in paths {
                eprintln!("{}", path.display());
                body(&fs::read(&path).unwrap());
                stored += 1;
            }
        }
        let mut random = Random(name.len() as u64);
        for length in 0..TRIES {
            let input: Vec<u8> = (0..length * length / 4).map(|_| random.number() as u8).collect();
            eprintln!("{name} {length}");
            body(&input);
        }
    }
    eprintln!("{stored} stored inputs");
}

#[test]
fn every_stored_input_is_of_a_body() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions");
    for entry in fs::read_dir(corpora).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(BODIES.iter().any(|(body, _)| *body == name), "{name}");
    }
}
