//! A folder for a test, tickback run in it, and what came of it. Whatever is waited for is waited for with a bound.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Whatever a test waits for comes long before this, on a busy machine too. A test that waits longer fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Echoes what comes from the UART, for ever, without waiting.
pub const ECHO: [u32; 7] = [
    0x1000_02b7, // lui t0,0x10000
    0x0052_c303, // lbu t1,5(t0)
    0x0013_7313, // andi t1,t1,1
    0xfe03_0ce3, // beqz t1,-8
    0x0002_c383, // lbu t2,0(t0)
    0x0072_8023, // sb t2,0(t0)
    0xfedf_f06f, // j -20
];

/// Waits for an interrupt that is never enabled.
pub const WAIT: [u32; 2] = [0x1050_0073, 0xffdf_f06f]; // wfi; j -4

pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    pub fn code(&self, name: &str, words: &[u32]) -> PathBuf {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.file(name, bytes)
    }

    pub fn tickback(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickback"));
        command
            .current_dir(self.0.path())
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(arguments.join(" "), &mut self.tickback(arguments))
    }

    /// Records the demo guest as `name`.
    pub fn demo(&self, name: &str) {
        self.file("demo.elf", firmware::demo().to_elf());
        let arguments = [
            "record", "-o", name, "-m", "2M", "--bios", "none", "--kernel", "demo.elf",
        ];
        self.run(&[&arguments[..], &["--snapshot-every", "1048576"]].concat())
            .exits(0);
    }
}

pub struct Ran {
    pub command: String,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Runs a command to its end.
    pub fn of(name: String, command: &mut Command) -> Self {
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let limit = Limit::of(&child);
        let output = child.wait_with_output().unwrap();
        assert!(!limit.passed(), "{name} took longer than {PATIENCE:?}");
        Self {
            command: name,
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        let Self {
            command, out, err, ..
        } = &self;
        assert_eq!(self.code, Some(code), "{command}\nstdout: {out}\nstderr: {err}");
        assert!(!err.contains("panicked"), "{command}\n{err}");
        self
    }

    /// Fails with one line of tickback's own that has all these words.
    #[track_caller]
    pub fn refuses(self, code: i32, words: &[&str]) -> Self {
        let ran = self.exits(code);
        for word in words {
            assert!(
                ran.err.contains(word),
                "{}: no {word:?} in: {}",
                ran.command,
                ran.err
            );
        }
        if code == 1 || code == 2 {
            let lines = ran
                .err
                .lines()
                .filter(|line| line.starts_with("tickback: "))
                .count();
            assert_eq!(
                (lines, ran.err.lines().count()),
                (1, 1),
                "{}\n{}",
                ran.command,
                ran.err
            );
        }
        ran
    }

    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        let text = format!("{}{}", self.out, self.err);
        for word in words {
            assert!(text.contains(word), "{}: no {word:?} in: {text}", self.command);
        }
        self
    }
}

/// Kills a process that takes longer than [`PATIENCE`], so that whoever waits for it or for its output comes back.
pub struct Limit {
    passed: Arc<AtomicBool>,
    /// Its end tells the watching thread that nobody waits any more.
    _waiting: Sender<()>,
}

impl Limit {
    pub fn of(child: &Child) -> Self {
        let (waiting, ended) = mpsc::channel::<()>();
        let passed = Arc::new(AtomicBool::new(false));
        let (passes, pid) = (Arc::clone(&passed), pid(child));
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                passes.store(true, Ordering::SeqCst);
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        });
        Self {
            passed,
            _waiting: waiting,
        }
    }

    /// Whether it was killed.
    pub fn passed(&self) -> bool {
        self.passed.load(Ordering::SeqCst)
    }
}

/// Waits for a child, which must end soon.
pub fn wait(child: &mut Child) -> i32 {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("it did not end");
}

pub fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(pid(child), signal).unwrap();
}

fn pid(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

/// Waits until a file is there, and until it has content where `filled`.
pub fn wait_for(path: &Path, filled: bool) {
    let start = Instant::now();
    while std::fs::metadata(path).map_or(true, |file| filled && file.len() == 0) {
        assert!(start.elapsed() < PATIENCE, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}
