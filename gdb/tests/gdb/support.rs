//! Recordings of the embedded guests, a server in a thread, and gdb in batch mode.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use firmware::Guest;
use gdb::{Ended, Listener, Options, serve};
use machine::engine::Engine;
use machine::history::RecordOptions;
use machine::icount::Icount;
use machine::icount::ScriptedDoor;
use machine::snapshot::RecorderOptions;
use machine::snapshot::grid::Grid;
use machine::{Config, FirstStep, HartStart, History, Stopped, Stops, Timeline, TimelineOptions};
use tempfile::TempDir;

/// Debian's name of a gdb that knows RISC-V.
const GDB: &str = "gdb-multiarch";

/// Whether gdb is there; if not, says so where skipped tests are listed.
pub fn gdb_is_there(test: &str) -> bool {
    let there = Command::new(GDB)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    if !there && let Some(list) = std::env::var_os("TICKBACK_SKIPS") {
        let mut list = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(list)
            .unwrap();
        writeln!(list, "gdb: {test}: {GDB} is not installed").unwrap();
    }
    there
}

pub struct Folder {
    dir: TempDir,
    guest: Guest,
}

impl Folder {
    pub fn new(guest: Guest) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("guest.elf"), guest.to_elf()).unwrap();
        Folder { dir, guest }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn symbol(&self, name: &str) -> u64 {
        self.guest.symbol(name).unwrap()
    }

    fn config(&self, harts: u8) -> Config {
        Config {
            board: "riscv-virt".into(),
            memory: 16 << 20,
            harts: (0..harts)
                .map(|h| HartStart {
                    pc: self.guest.entry,
                    args: [h.into(), 0, 0],
                })
                .collect(),
            ns_per_step: NonZeroU64::MIN,
            slice: 5_000,
            schedule_seed: Some(7),
            seed: 0,
            date_ns: 0,
            drives: Vec::new(),
            tohost: None,
        }
    }

    /// A recording that has just begun.
    pub fn begin(&self, harts: u8) -> History {
        let options = RecordOptions {
            grid: Grid::fixed(20),
            recorder: RecorderOptions::default(),
            host_time: Box::new(|| 0),
            origin: BTreeMap::new(),
            fsync: false,
        };
        let images = vec![(self.guest.load, self.guest.image.clone())];
        let door = Box::new(ScriptedDoor::new());
        History::record(
            &self.path("r.tick"),
            &self.config(harts),
            images,
            door,
            Engine::interp(),
            options,
        )
        .unwrap()
    }

    /// A whole recording, at its beginning; and its end.
    pub fn record(&self, harts: u8) -> (History, Icount) {
        let mut history = self.begin(harts);
        let end = loop {
            match history
                .run_live(Icount(100_000_000), &Stops::default(), FirstStep::Counts)
                .unwrap()
            {
                Stopped::Reached => {}
                Stopped::End(end) => break end,
                other => panic!("{other:?}"),
            }
        };
        let finished = history.finish(end).unwrap();
        (
            History::open(&self.path("r.tick"), Engine::interp()).unwrap(),
            finished.at,
        )
    }
}

/// A server that runs until it is dropped, or killed by gdb.
pub struct Server {
    pub address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(Ended, History)>>,
}

impl Server {
    pub fn start(history: History, listen: &str) -> Server {
        let listener = Listener::bind(listen).unwrap();
        let address = listener.address().to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let flag = history.machine().interrupt_flag();
        let thread = std::thread::spawn(move || {
            let mut timeline = Timeline::new(history, TimelineOptions::default());
            let mut ticks = 0;
            let options = Options {
                // A clock of ten seconds a look: every report of progress is shown.
                host_time: Box::new(move || {
                    ticks += 10_000_000_000;
                    ticks
                }),
                ending: Box::new(move || {
                    let stop = asked.load(Ordering::Relaxed);
                    if stop {
                        flag.store(false, Ordering::Relaxed);
                    }
                    stop
                }),
                say: Box::new(|line| println!("server: {line}")),
            };
            let ended = serve(&mut timeline, &listener, options).unwrap();
            (ended, timeline.into_machine())
        });
        Server {
            address,
            stop,
            thread: Some(thread),
        }
    }

    /// Ends it, if nobody has.
    pub fn finish(mut self) -> (Ended, History) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits for it to end by itself.
    pub fn wait(mut self) -> (Ended, History) {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts gdb on a script that begins attached.
pub fn start_gdb(folder: &Folder, server: &Server, script: &str) -> Child {
    let path = folder.path("script.gdb");
    let tickback = Path::new(env!("CARGO_MANIFEST_DIR")).join("tickback.gdb");
    let text = format!(
        "set pagination off\nset confirm off\nset remotetimeout 20\nsource {}\nfile {}\ntarget remote {}\n{script}\n",
        tickback.display(),
        folder.path("guest.elf").display(),
        server.address
    );
    std::fs::write(&path, text).unwrap();
    Command::new(GDB)
        .args(["-nx", "-batch", "-x"])
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs gdb on a script and yields what it printed.
pub fn gdb(folder: &Folder, server: &Server, script: &str) -> String {
    let output = start_gdb(folder, server, script).wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    text
}

/// The lines of `text` that begin with `mark`, without it.
pub fn marked<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(mark)).collect()
}
