//! The rules of DESIGN sections 2 and 3 that a compiler doesn't hold: which crate may use which, where
//! unsafe code stands, and where host clocks and unordered maps may be named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate's folder, and the crates of this project that it may use (dev-dependencies may be any).
const ARROWS: [(&str, &[&str]); 11] = [
    ("icount", &[]),
    ("firmware", &[]),
    ("cpu", &["icount"]),
    ("devices", &["icount"]),
    ("snapshot", &["icount"]),
    ("jit", &["cpu", "icount"]),
    (
        "machine",
        &["icount", "firmware", "cpu", "devices", "snapshot", "jit"],
    ),
    ("gdb", &["machine", "icount", "snapshot", "cpu"]),
    (".", &["gdb", "machine", "icount", "snapshot", "firmware", "cpu"]),
    (
        "tests",
        &[
            "gdb", "machine", "icount", "snapshot", "firmware", "cpu", "devices", "jit",
        ],
    ),
    (
        "benches",
        &[
            "gdb", "machine", "icount", "snapshot", "firmware", "cpu", "devices", "jit",
        ],
    ),
];

/// Crates without unsafe code.
const SAFE: [&str; 7] = ["icount", "firmware", "snapshot", "cpu", "devices", "gdb", "tests"];
/// Crates that open it module by module.
const GUARDED: [&str; 2] = ["jit", "machine"];

/// Folders whose code may name host clocks and sleep: the live door, the command line, and what only tests or measures.
const HOST: [&str; 5] = [
    "machine/src/host",
    "src",
    "tests",
    "benches",
    "gdb/src/listener.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Names in the tables of a manifest that what is shipped depends on.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            // [target.'cfg(...)'.dependencies]
            let table = table
                .rsplit_once("'.")
                .or(table.rsplit_once("\"."))
                .map_or(table, |(_, last)| last);
            // [dependencies.NAME] too.
            let (kind, name) = table.split_once('.').unwrap_or((table, ""));
            inside = matches!(kind, "dependencies" | "build-dependencies") && name.is_empty();
            if matches!(kind, "dependencies" | "build-dependencies") && !name.is_empty() {
                names.insert(name.to_owned());
            }
        } else if inside && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or("");
            names.extend((!name.is_empty()).then(|| name.to_owned()));
            // A crate under another name.
            names.extend(
                line.split("path = \"")
                    .nth(1)
                    .and_then(|p| p.split('"').next())
                    .map(|p| {
                        let name = p.rsplit('/').next().unwrap_or(p);
                        name.to_owned()
                    }),
            );
        }
    }
    names
}

#[test]
fn arrows_point_down() {
    let members = read("Cargo.toml");
    let members = members
        .split("members = [")
        .nth(1)
        .and_then(|m| m.split(']').next())
        .unwrap();
    let mut listed: BTreeSet<&str> = members.split('"').skip(1).step_by(2).collect();
    listed.insert(".");
    assert_eq!(
        listed,
        ARROWS.iter().map(|(name, _)| *name).collect(),
        "crates without a row here"
    );
    let own: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).chain(["tickback"]).collect();
    for (name, allowed) in ARROWS {
        let used = dependencies(&read(&format!("{name}/Cargo.toml")));
        for used in used.iter().filter(|used| own.contains(used.as_str())) {
            assert!(allowed.contains(&used.as_str()), "{name} uses {used}");
        }
    }
}

#[test]
fn a_manifest_s_dependencies_are_found() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\ncpu.workspace = true\n# gdb = 1\nother = { path = \"../devices\" }\n\
                    [dependencies.jit]\nworkspace = true\n[target.'cfg(unix)'.dependencies]\nsnapshot = \"1\"\n\
                    [dev-dependencies]\nmachine.workspace = true\n";
    let found = dependencies(manifest);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, ["cpu", "devices", "jit", "other", "snapshot"]);
}

/// The Rust files below a folder, as paths from the root.
fn sources(below: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(below)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

fn all_sources() -> Vec<String> {
    let parts = ARROWS.iter().flat_map(|(name, _)| match *name {
        "." => vec!["src".to_owned()],
        name => vec![
            format!("{name}/src"),
            format!("{name}/tests"),
            format!("{name}/examples"),
            format!("{name}/benches"),
        ],
    });
    parts.flat_map(|part| sources(&part)).collect()
}

#[test]
fn unsafe_code_stands_where_it_may() {
    for name in SAFE {
        let lib = read(&format!("{name}/src/lib.rs"));
        assert!(
            lib.contains("#![forbid(unsafe_code)]"),
            "{name}/src/lib.rs must forbid unsafe code"
        );
    }
    assert!(read("src/main.rs").contains("#![forbid(unsafe_code)]"));
    for name in GUARDED {
        let lib = read(&format!("{name}/src/lib.rs"));
        assert!(
            lib.contains("#![deny(unsafe_code)]"),
            "{name}/src/lib.rs must deny unsafe code"
        );
    }
    for file in all_sources() {
        let opens = read(&file)
            .lines()
            .any(|line| line.trim_start().starts_with("#") && line.contains("allow(unsafe_code)"));
        let may = GUARDED
            .iter()
            .any(|name| file.starts_with(&format!("{name}/src/")))
            || file.contains("/tests/");
        assert!(!opens || may, "{file} opens unsafe code");
    }
}

#[test]
fn host_time_and_unordered_maps_stand_where_they_may() {
    // Written so that this file doesn't find itself.
    let lint = ["allow(clippy::", "disallowed_"].concat();
    let names = [
        ["Instant::", "now"].concat(),
        ["SystemTime::", "now"].concat(),
        ["Random", "State"].concat(),
    ];
    let workspace = read("clippy.toml");
    for needed in [
        "Instant::now",
        "SystemTime::now",
        "thread::sleep",
        "HashMap",
        "HashSet",
    ] {
        assert!(workspace.contains(needed), "clippy.toml doesn't forbid {needed}");
    }
    for file in all_sources() {
        let may = HOST.iter().any(|part| file.starts_with(part))
            || ["/tests/", "/examples/", "/benches/"]
                .iter()
                .any(|part| file.contains(part));
        if may {
            continue;
        }
        let text = read(&file);
        for (number, line) in text.lines().enumerate() {
            // The one module of host back ends is opened where it is declared.
            let door = file == "machine/src/lib.rs"
                && text.lines().nth(number + 1).is_some_and(|l| l == "pub mod host;");
            // In a crate's own tests, below what ships.
            let tested = text.lines().take(number).any(|l| l.starts_with("#[cfg(test)]"));
            if !door && !tested {
                assert!(!line.contains(&lint), "{file}:{}: {line}", number + 1);
                assert!(
                    !names.iter().any(|name| line.contains(name)),
                    "{file}:{}: {line}",
                    number + 1
                );
            }
        }
    }
}
