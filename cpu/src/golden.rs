//! Golden cases of translation as files: `tests/golden/<guest>/<family>.tr` in the repository.
//!
//! ```text
//!   02c58533 mul a0,a1,a2               bits and text of an instruction
//!     ir                                what the lifter says
//!       v0 = get s11                    ...
//!     optimised                         after the passes, where they change it
//!       ...                             ...
//!     host                              host code, with names in place of addresses
//!       sub r15,1                       ...
//!     run x11=0x3 x12=0x5 => x10=0xf    what is set before it, and all that is different after it
//! ```
//!
//! A `run` line says what is true of the guest: a person writes it from the manual, or another program makes it. The
//! sections say how it is done here. [`with_sections`] makes them anew and leaves every other line alone.

/// The sections.
pub const SECTIONS: [&str; 3] = ["ir", "optimised", "host"];

/// An instruction of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case<'a> {
    /// Its line, from 1 on.
    pub line: usize,
    /// What is in memory, in hexadecimal.
    pub bits: &'a str,
    /// What the disassembler makes of it.
    pub text: &'a str,
    /// Numbers of `run` lines, and what they say.
    pub runs: Vec<(usize, &'a str)>,
}

/// The instructions of a file.
///
/// # Errors
/// A line that is none of all these; says which.
pub fn parse(text: &str) -> Result<Vec<Case<'_>>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut lines = Lines::default();
    for (i, full) in text.lines().enumerate() {
        if lines.is_section(full) {
            continue;
        }
        let line = full.split('#').next().unwrap_or_default().trim_end();
        if let Some(run) = line.strip_prefix("  run ") {
            let Some(case) = cases.last_mut() else {
                return Err(format!("line {}: no instruction to run", i + 1));
            };
            case.runs.push((i + 1, run.trim()));
        } else if line.starts_with(|c: char| c.is_ascii_hexdigit()) {
            let (bits, text) = line.split_once(' ').unwrap_or((line, ""));
            cases.push(Case {
                line: i + 1,
                bits,
                text: text.trim(),
                runs: Vec::new(),
            });
        } else if !line.is_empty() {
            return Err(format!("line {}: what is {line:?}?", i + 1));
        }
    }
    Ok(cases)
}

/// Tells the lines of sections from others.
#[derive(Default)]
struct Lines {
    inside: bool,
}

impl Lines {
    fn is_section(&mut self, line: &str) -> bool {
        let head = line
            .strip_prefix("  ")
            .is_some_and(|name| SECTIONS.contains(&name));
        self.inside = head || self.inside && line.starts_with("    ");
        self.inside
    }
}

/// A file without its sections.
pub fn without_sections(text: &str) -> String {
    let mut lines = Lines::default();
    let kept = text.lines().filter(|line| !lines.is_section(line));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// A file with the sections that `make` makes of its cases (a name and lines each) and no others.
///
/// # Errors
/// Those of [`parse`].
pub fn with_sections(
    text: &str,
    mut make: impl FnMut(&Case) -> Vec<(&'static str, String)>,
) -> Result<String, String> {
    let bare = without_sections(text);
    let mut cases = parse(&bare)?.into_iter().peekable();
    let mut full = String::new();
    for (i, line) in bare.lines().enumerate() {
        full += line;
        full.push('\n');
        let Some(case) = cases.next_if(|case| case.line == i + 1) else {
            continue;
        };
        for (name, body) in make(&case) {
            full += &format!("  {name}\n");
            body.lines().for_each(|line| full += &format!("    {line}\n"));
        }
    }
    Ok(full)
}

/// How far the next line in common is looked for.
const REACH: usize = 400;

/// What lines are in `old` only (`-`) and in `new` only (`+`), with numbers in `old`.
pub fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        if old.get(i) == new.get(j) {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        // The nearest place from which both go on alike, or the ends.
        let alike = |a: usize, b: usize| match (old.get(i + a), new.get(j + b)) {
            (Some(x), Some(y)) => x == y && !x.trim().is_empty(),
            (None, None) => true,
            _ => false,
        };
        let found = (1..REACH).find_map(|n| (0..=n).find(|a| alike(*a, n - a)).map(|a| (a, n - a)));
        let (a, b) = found.unwrap_or((old.len() - i, new.len() - j));
        for (n, line) in old.iter().enumerate().skip(i).take(a) {
            text += &format!("{:5} -{line}\n", n + 1);
        }
        for line in new.iter().skip(j).take(b) {
            text += &format!("      +{line}\n");
        }
        (i, j) = (i + a, j + b);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# By hand.\n02c58533 mul a0,a1,a2 # a comment\n  ir\n    v0 = get s11\n  run x11=1 => x10=1\n  run => # nothing\n\
                        9002 c.ebreak\n  run => trap=3,4\n";

    #[test]
    fn sections_come_and_go_and_nothing_else() {
        let cases = parse(FILE).unwrap();
        assert_eq!((cases[0].bits, cases[0].text), ("02c58533", "mul a0,a1,a2"));
        assert_eq!(cases[0].runs, [(5, "x11=1 => x10=1"), (6, "=>")]);
        assert_eq!((cases[1].line, cases.len()), (7, 2));
        let bare = without_sections(FILE);
        assert_eq!(bare.lines().count(), 6);
        assert!(!bare.contains("get") && bare.contains("# a comment"));
        let sections = |case: &Case| match case.bits {
            "9002" => vec![("ir", "a\nb".to_owned()), ("host", "L1:\n  c".to_owned())],
            _ => vec![("ir", "v0 = get s11".to_owned())],
        };
        let full = with_sections(&bare, sections).unwrap();
        let more = "9002 c.ebreak\n  ir\n    a\n    b\n  host\n    L1:\n      c\n  run => trap=3,4\n";
        assert_eq!(full, FILE.replace("9002 c.ebreak\n  run => trap=3,4\n", more));
        assert_eq!(with_sections(&full, sections).unwrap(), full);
        assert_eq!(without_sections(&full), bare);
        for wrong in ["  run =>\n", "13 nop\n  bytes\n", "xyz\n"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn differences_are_shown_as_lines() {
        assert_eq!(difference("a\nb\nc\n", "a\nb\nc\n"), "");
        assert_eq!(
            difference("a\nb\nc\n", "a\nx\ny\nc\n"),
            "    2 -b\n      +x\n      +y\n"
        );
        assert_eq!(difference("a\nb", "a\nb\nc"), "      +c\n");
        assert_eq!(difference("a\nb\nc\nd", "a\nd"), "    2 -b\n    3 -c\n");
    }
}
