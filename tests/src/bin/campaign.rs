//! The long campaigns on Debian's kernel: what CI has no time for.
//!
//! ```text
//!   cargo run --release -p tests --bin campaign -- determinism     a boot, and one of 4 harts with a session typed:
//!                                                                  roots at 200 positions by every way to come there
//!   cargo run --release -p tests --bin campaign -- replays         such a session recorded, and replayed 100 times
//!   cargo run --release -p tests --bin campaign -- faults          recordings killed, without room, damaged, hundreds of times;
//!                                                                  --debian: those of a boot too
//! ```
//!
//! `--guest x86_64` takes amd64's kernel, and for `determinism` also SeaBIOS with GRUB.
//!
//! Prints a table in Markdown, for docs/testing.md, and exits 1 if anything differs.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser, ValueEnum};
use icount::Icount;
use machine::cpu::ir::Slot;
use machine::host::Stopwatch;
use machine::{Stops, Watch};
use snapshot::grid::{Goals, Grid};
use tests::faults::{Faults, Pristine, Table};
use tests::load::HostLoad;
use tests::recorded::{NO_SNAPSHOTS, begin, record, replay, root_elsewhere, seek};
use tests::subject::Subject;
use tests::ways::{How, Run, Seen, With, compare};
use tests::{Random, debian};

/// No boot is as long.
const LIMIT: u64 = 20_000_000_000;

/// Long determinism campaigns on Debian's kernel
#[derive(Parser)]
enum Campaign {
    /// The state at random positions, by every way to come there
    Determinism(Determinism),
    /// Replays of a recorded session, every event and root compared
    Replays(Replays),
    /// Recordings whose process, disk or files fail
    Faults(FaultOptions),
}

/// Whose kernel.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Guest {
    Riscv64,
    #[value(name = "x86_64")]
    X86_64,
}

#[derive(Args)]
struct Common {
    /// Guest
    #[arg(long, value_enum, default_value_t = Guest::Riscv64)]
    guest: Guest,
    /// Folder of the images [default: $TICKBACK_IMAGES or $TICKBACK_IMAGES_X86_64, or target/images/riscv64 or x86_64]
    #[arg(long)]
    images: Option<PathBuf>,
    /// Where recordings are made [default: a folder for temporary files]
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// Passes or replays at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Seed of positions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that keep the host busy beside a pass under load
    #[arg(long, default_value_t = 4)]
    load: usize,
}

#[derive(Args)]
struct Determinism {
    #[command(flatten)]
    common: Common,
    /// Random positions
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Of these, how many are sought
    #[arg(long, default_value_t = 20)]
    seeks: usize,
    /// Only the pass or subject whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Leave out the interpreter, which takes a minute per 10⁹ steps
    #[arg(long)]
    no_interp: bool,
}

#[derive(Args)]
struct Replays {
    #[command(flatten)]
    common: Common,
    /// Replays
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// Harts
    #[arg(long, default_value_t = 4)]
    harts: u8,
}

#[derive(Args)]
struct FaultOptions {
    #[command(flatten)]
    common: Common,
    /// Faults of each kind
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Damage a recording of a boot of Debian too
    #[arg(long)]
    debian: bool,
}

/// What one pass came to.
struct Row {
    name: String,
    positions: usize,
    result: Result<String>,
    seconds: f64,
}

fn main() -> Result<ExitCode> {
    let rows = match Campaign::parse() {
        Campaign::Determinism(options) => determinism(&options)?,
        Campaign::Replays(options) => replays(&options)?,
        Campaign::Faults(options) => faults(&options)?,
    };
    let equal = rows.iter().all(|row| row.result.is_ok());
    Ok(if equal {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Common {
    fn images(&self) -> Result<PathBuf> {
        let (kernel, folder, name) = match self.guest {
            Guest::Riscv64 => ("vmlinux", debian::folder(), "riscv64"),
            Guest::X86_64 => ("vmlinuz", debian::x86_folder(), "x86_64"),
        };
        let dir = self.images.clone().unwrap_or(folder);
        ensure!(
            dir.join(kernel).is_file(),
            "{} has no {kernel}; run tests/images.sh {name}",
            dir.display()
        );
        Ok(dir)
    }

    /// A boot on so many harts: `words` on the kernel's command line, `script` on the console.
    fn boot(&self, name: &str, harts: u8, words: &str, script: &str) -> Result<Subject> {
        let dir = self.images()?;
        match self.guest {
            Guest::Riscv64 => debian::boot(&dir, name, harts, words, script),
            Guest::X86_64 => debian::x86_boot(&dir, name, harts, words, script),
        }
    }

    /// The kernel, for headings.
    fn kernel(&self) -> &'static str {
        match self.guest {
            Guest::Riscv64 => "Debian's riscv64 kernel",
            Guest::X86_64 => "Debian's amd64 kernel",
        }
    }

    fn scratch(&self) -> Result<tempfile::TempDir> {
        Ok(match &self.scratch {
            Some(dir) => tempfile::tempdir_in(dir)?,
            None => tempfile::tempdir()?,
        })
    }
}

type Job<'a> = (String, usize, Box<dyn FnOnce() -> Result<String> + Send + 'a>);

/// Runs jobs, `at_once` at a time; rows come in the order in which jobs end.
fn run(jobs: Vec<Job<'_>>, at_once: usize) -> Vec<Row> {
    let queue = Mutex::new(VecDeque::from(jobs));
    let rows = Mutex::new(Vec::new());
    let take = || {
        queue
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .pop_front()
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                while let Some((name, positions, job)) = take() {
                    let watch = Stopwatch::start();
                    let row = Row {
                        result: job(),
                        name,
                        positions,
                        seconds: watch.elapsed().as_secs_f64(),
                    };
                    eprintln!("{}", line(&row));
                    rows.lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push(row);
                }
            });
        }
    });
    rows.into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn line(row: &Row) -> String {
    let result = match &row.result {
        Ok(what) => what.clone(),
        Err(error) => format!("**DIFFERS**: {error:#}").replace('\n', "; "),
    };
    format!(
        "| {} | {} | {result} | {:.1} |",
        row.name, row.positions, row.seconds
    )
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| "?".into(),
        |o| String::from_utf8_lossy(&o.stdout).trim().to_owned(),
    )
}

/// Date, commit and machine.
fn heading(what: &str) {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .unwrap_or(": ?");
    let dirty = if output("git", &["status", "--porcelain", "-uno"]).is_empty() {
        ""
    } else {
        " with changes"
    };
    println!(
        "### {what}, {}\n\nCommit {}{dirty}; {}, {} cores.\n",
        output("date", &["-u", "+%F"]),
        output("git", &["rev-parse", "--short", "HEAD"]),
        cpu.trim_start_matches([':', ' ', '\t']),
        std::thread::available_parallelism().map_or(0, |n| n.get())
    );
}

fn table(title: &str, rows: &[Row]) {
    println!("{title}\n\n| pass | positions | result | seconds |\n|------|-----------|--------|---------|");
    rows.iter().for_each(|row| println!("{}", line(row)));
    println!();
}

fn determinism(options: &Determinism) -> Result<Vec<Row>> {
    let common = &options.common;
    let session = "boot, 4 harts, session on the console";
    let mut subjects = vec![
        common.boot("boot, 1 hart, bench=short", 1, "bench=short", "")?,
        common.boot(session, 4, "", debian::SESSION)?,
    ];
    if common.guest == Guest::X86_64 {
        let name = "SeaBIOS, GRUB and its prompt";
        subjects.push(debian::bios_boot(&common.images()?, name, debian::GRUB_SESSION)?);
    }
    heading(&format!("Determinism of {}", common.kernel()));
    let mut all = Vec::new();
    let only = options.only.as_deref();
    let matching = subjects.iter().any(|s| only.is_some_and(|o| s.name.contains(o)));
    for subject in subjects {
        if matching && !only.is_some_and(|o| subject.name.contains(o)) {
            continue;
        }
        let pass = if matching { None } else { only };
        all.extend(one(options, subject, pass)?);
    }
    Ok(all)
}

/// Conditions that hold often: program counters and stack words seen at some positions.
fn conditions(run: &mut Run, stack: Slot, breakpoints: &mut Vec<u64>, watches: &mut Vec<Watch>) {
    let machine = run.machine();
    let hart = machine.current_hart();
    let Some(cpu) = machine.hart(hart) else { return };
    let (pc, sp) = (cpu.pc(), cpu.regs()[stack]);
    if breakpoints.len() < 24 {
        breakpoints.push(pc);
    }
    if watches.len() < 8
        && let Some(addr) = machine.debug_translate(hart, sp & !7)
    {
        watches.push(Watch {
            addr,
            len: 8,
            read: true,
            write: true,
        });
    }
}

fn one(options: &Determinism, mut subject: Subject, only: Option<&str>) -> Result<Vec<Row>> {
    let scratch = options.common.scratch()?;
    let watch = Stopwatch::start();
    // Its length, for positions.
    let (end, how) = Run::live(&subject, With::Jit)?.finish(Icount(LIMIT))?;
    let how = how.with_context(|| format!("{} did not end by {end}", subject.name))?;
    eprintln!(
        "{}: {how} at {end}, {:.1} s",
        subject.name,
        watch.elapsed().as_secs_f64()
    );
    let mut places = Random(options.common.seed).places(options.count.max(2) - 1, end.0 - 1);
    places.push(end.0);
    // The reference.
    let watch = Stopwatch::start();
    let dir = scratch.path().join("reference.tick");
    let mut reference = Run::Recording(Box::new(begin(
        &subject,
        &dir,
        With::Jit,
        Grid::fixed(NO_SNAPSHOTS),
    )?));
    let stack = match subject.config.board.as_str() {
        "pc" => machine::cpu::x86_64::slots::RSP,
        _ => machine::cpu::riscv64::slots::x(2),
    };
    let (mut breakpoints, mut watches, mut n) = (Vec::new(), Vec::new(), 0);
    let seen = reference.walk_and(&How::Straight, &places, |run, _| {
        n += 1;
        if n % 7 == 0 {
            conditions(run, stack, &mut breakpoints, &mut watches);
        }
        Ok(())
    })?;
    let Run::Recording(history) = reference else {
        bail!("not a recording")
    };
    history.finish(how)?;
    let reference_seconds = watch.elapsed().as_secs_f64();
    (subject.hot, subject.watches) = (breakpoints, watches);
    let whole: Vec<Row> = run(
        passes(options, &subject, &dir, &places, &seen, only),
        options.common.jobs,
    );
    // Seeks, in a recording with snapshots.
    let mut rows = vec![Row {
        name: "recorded by the JIT, no snapshots: the reference".into(),
        positions: places.len(),
        result: Ok("reference".into()),
        seconds: reference_seconds,
    }];
    rows.extend(whole);
    let wanted = |name: &str| only.is_none_or(|o| name.contains(o));
    if options.seeks > 0 && wanted("seek") {
        rows.extend(seeks(options, &subject, scratch.path(), &places, &seen)?);
    }
    table(&format!("{}: {} steps, {how}.", subject.name, end), &rows);
    Ok(rows)
}

fn passes<'a>(
    options: &'a Determinism,
    subject: &'a Subject,
    dir: &'a Path,
    places: &'a [u64],
    seen: &'a [Seen],
    only: Option<&str>,
) -> Vec<Job<'a>> {
    let mut jobs: Vec<Job<'a>> = Vec::new();
    let equal = move |mut run: Run, how: How| {
        compare(seen, &run.walk(&how, places)?)?;
        Ok(String::from("all equal"))
    };
    let stops = |breakpoints: bool, watches: bool| Stops {
        breakpoints: if breakpoints {
            subject.hot.clone()
        } else {
            Vec::new()
        },
        watches: if watches {
            subject.watches.clone()
        } else {
            Vec::new()
        },
        ..Stops::default()
    };
    let mut add = |name: &str, job: Box<dyn FnOnce() -> Result<String> + Send + 'a>| {
        if only.is_none_or(|o| name.contains(o)) {
            jobs.push((name.to_owned(), places.len(), job));
        }
    };
    let mut live = |name: &str, with: With, how: How| {
        add(name, Box::new(move || equal(Run::live(subject, with)?, how)));
    };
    live("JIT, not recorded", With::Jit, How::Straight);
    live("JIT without passes", With::PlainJit, How::Straight);
    if !options.no_interp {
        live("interpreter", With::Interp, How::Straight);
    }
    live("JIT, cut at random", With::Jit, How::Cut(options.common.seed));
    live("JIT, code thrown away at each position", With::Jit, How::Flush);
    live(
        "JIT, breakpoints scanned for",
        With::Jit,
        How::Scan(stops(true, false)),
    );
    live(
        "JIT, stopped by breakpoints",
        With::Jit,
        How::Stop(stops(true, false)),
    );
    live(
        "JIT, watchpoints scanned for",
        With::Jit,
        How::Scan(stops(false, true)),
    );
    add(
        "replayed by the JIT",
        Box::new(move || equal(replay(dir, With::Jit)?, How::Straight)),
    );
    add(
        "recorded with a snapshot every 2^22 steps",
        Box::new(move || {
            let dir = dir.with_file_name("dense.tick");
            let (finished, _, dense) = record(subject, &dir, With::Jit, 22, places, LIMIT)?;
            std::fs::remove_dir_all(&dir)?;
            compare(seen, &dense)?;
            Ok(format!("all equal, {} snapshots", finished.roots))
        }),
    );
    add(
        "JIT, busy host",
        Box::new(move || {
            let _load = HostLoad::of(options.common.load);
            equal(Run::live(subject, With::Jit)?, How::Straight)
        }),
    );
    jobs
}

fn seeks(
    options: &Determinism,
    subject: &Subject,
    scratch: &Path,
    places: &[u64],
    seen: &[Seen],
) -> Result<Vec<Row>> {
    let dir = scratch.join("seeks.tick");
    record(subject, &dir, With::Jit, 26, &[], LIMIT)?;
    let dir = &dir;
    let step = (places.len() / options.seeks.max(1)).max(1);
    let some: Vec<u64> = places.iter().skip(step / 2).step_by(step).copied().collect();
    let expected: Vec<Seen> = seen.iter().skip(step / 2).step_by(step).cloned().collect();
    let (some, expected) = (&some, &expected);
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for (name, from_end) in [("seek from the beginning", false), ("seek from the end", true)] {
        let job = move || {
            compare(expected, &seek(dir, With::Jit, some, from_end)?)?;
            Ok("all equal".to_owned())
        };
        jobs.push((name.to_owned(), some.len(), Box::new(job)));
    }
    let job = move || {
        let program = std::env::current_exe()?.with_file_name("child");
        ensure!(
            program.is_file(),
            "{} is missing: cargo build --release -p tests",
            program.display()
        );
        for (place, expected) in some.iter().zip(expected) {
            let root = root_elsewhere(&program, dir, *place)?;
            ensure!(root == expected.root.to_string(), "at {place}");
        }
        Ok("all equal".to_owned())
    };
    jobs.push((
        "seek from disk in a new process".to_owned(),
        some.len(),
        Box::new(job),
    ));
    Ok(run(jobs, options.common.jobs))
}

fn replays(options: &Replays) -> Result<Vec<Row>> {
    let name = format!("boot, {} harts, session with console and disk", options.harts);
    let scratch = options.common.scratch()?;
    let subject = options
        .common
        .boot(&name, options.harts, "", debian::DISK_SESSION)?;
    let subject = debian::with_disk(subject, scratch.path(), 8 << 20)?;
    let dir = &scratch.path().join("session.tick");
    let _load = (options.common.load > 0).then(|| HostLoad::of(options.common.load));
    let mut recording = Run::Recording(Box::new(begin(
        &subject,
        dir,
        With::Jit,
        Grid::adaptive(Goals::default()),
    )?));
    let (at, end) = recording.finish(Icount(LIMIT))?;
    let end = end.with_context(|| format!("{name} did not end by {at}"))?;
    let Run::Recording(history) = recording else {
        bail!("not a recording")
    };
    let finished = history.finish(end)?;
    let (inputs, events) = (
        finished.position.inputs,
        finished.position.inputs + finished.position.effects,
    );
    eprintln!(
        "{name}: {end} at {at}, {inputs} inputs, {events} events, {} roots",
        finished.roots
    );
    let jobs = (0..options.count).map(|number| -> Job<'_> {
        let job = move || {
            let Run::Replaying(mut history) = replay(dir, With::Jit)? else {
                bail!("not a replay")
            };
            let verified = history.verify(|_| {})?;
            ensure!(verified.steps == at && verified.end == Some(end), "{verified:?}");
            ensure!(
                verified.events == events && verified.roots == finished.roots,
                "{verified:?}"
            );
            Ok("all equal".to_owned())
        };
        (
            format!("replay {}", number + 1),
            finished.roots as usize,
            Box::new(job),
        )
    });
    let rows = run(jobs.collect(), options.common.jobs);
    heading(&format!(
        "Replays of {} with console and disk input",
        options.common.kernel()
    ));
    let equal = rows.iter().filter(|row| row.result.is_ok()).count();
    let mut seconds: Vec<f64> = rows.iter().map(|row| row.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    println!(
        "{name}: {at} steps, {end}, {inputs} inputs. **{equal} of {} replays equal** in all {events} events and {} \
         roots, beside {} busy threads, {} at a time; median {:.1} s.\n",
        rows.len(),
        finished.roots,
        options.common.load,
        options.common.jobs,
        seconds.get(seconds.len() / 2).copied().unwrap_or(0.0)
    );
    let differing: Vec<Row> = rows.into_iter().filter(|row| row.result.is_err()).collect();
    if !differing.is_empty() {
        table("Those that differ:", &differing);
    }
    Ok(differing)
}

fn faults(options: &FaultOptions) -> Result<Vec<Row>> {
    let scratch = options.common.scratch()?;
    let program = std::env::current_exe()?.with_file_name("child");
    ensure!(
        program.is_file(),
        "{} is missing: cargo build --release -p tests",
        program.display()
    );
    let faults = Faults {
        program: &program,
        scratch: scratch.path(),
        count: options.count,
        seed: options.common.seed,
        life: Duration::from_millis(150),
    };
    let mut subjects = tests::faults::recordings(scratch.path())?;
    if options.debian {
        let boot = options.common.boot("boot", 1, "bench=poweroff", "")?;
        let dir = scratch.path().join("debian.tick");
        record(&boot, &dir, With::Jit, 26, &[], LIMIT)?;
        subjects.push(Pristine::of(&dir)?);
    }
    let mut table = Table::default();
    faults.of_processes(&mut table)?;
    faults.of_files(&subjects, &mut table)?;
    heading("Faults");
    println!("{table}");
    let failures = table.failures().into_iter().map(|text| Row {
        name: text.clone(),
        positions: 0,
        result: Err(anyhow::anyhow!(text)),
        seconds: 0.0,
    });
    let failures: Vec<Row> = failures.collect();
    for failure in &failures {
        println!("- {}", failure.name);
    }
    Ok(failures)
}
