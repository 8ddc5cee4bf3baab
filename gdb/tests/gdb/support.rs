//! Recordings of the embedded guests, a server in a thread, and gdb in batch mode.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firmware::{Guest, X86Guest};
use gdb::{Ended, Listener, Options, serve};
use machine::board::Images;
use machine::boot::{Bios, Boot, prepare};
use machine::engine::{Engine, EngineKind};
use machine::history::{HostNow, RecordOptions};
use machine::icount::{End, Icount, ScriptedDoor};
use machine::snapshot::RecorderOptions;
use machine::snapshot::grid::Grid;
use machine::{Config, FirstStep, History, Stopped, Stops, Timeline, TimelineOptions};
use tempfile::TempDir;

use crate::relay::Relay;

/// Whatever a test waits for comes long before this, on a busy machine too. A test that waits longer fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

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

/// What users get: translated code where the host can.
pub fn engine() -> Engine {
    Engine::new(EngineKind::Jit).unwrap_or_else(|_| Engine::interp())
}

pub struct Folder {
    dir: TempDir,
    guest: Guest,
    elf: Vec<u8>,
    board: &'static str,
}

impl Folder {
    pub fn new(guest: Guest) -> Folder {
        let elf = guest.to_elf();
        Folder::with(guest, elf, "riscv-virt")
    }

    /// A guest of the PC.
    pub fn pc(guest: X86Guest) -> Folder {
        let elf = guest.to_elf();
        Folder::with(guest.guest, elf, "pc")
    }

    fn with(guest: Guest, elf: Vec<u8>, board: &'static str) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("guest.elf"), &elf).unwrap();
        Folder {
            dir,
            guest,
            elf,
            board,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn symbol(&self, name: &str) -> u64 {
        self.guest.symbol(name).unwrap()
    }

    fn machine(&self, harts: u8) -> (Config, Images) {
        let boot = Boot {
            board: self.board.into(),
            memory: 16 << 20,
            harts,
            bios: Bios::None,
            kernel: Some(self.elf.clone()),
            slice: 5_000,
            schedule_seed: Some(7),
            ..Boot::default()
        };
        prepare(&boot).unwrap()
    }

    /// A recording that has just begun.
    pub fn begin(&self, harts: u8) -> History {
        let options = RecordOptions {
            grid: Grid::fixed(20),
            recorder: RecorderOptions::default(),
            host_time: Box::new(HostNow::default),
            origin: BTreeMap::new(),
            fsync: false,
            retention: Default::default(),
        };
        let (config, images) = self.machine(harts);
        let door = Box::new(ScriptedDoor::new());
        History::record(&self.path("r.tick"), &config, images, door, engine(), options).unwrap()
    }

    /// A whole recording, at its beginning; and its end.
    pub fn record(&self, harts: u8) -> (History, Icount) {
        self.record_until(harts, Icount(100_000_000))
    }

    /// A recording that is stopped at `until`, if the guest gets there.
    pub fn record_until(&self, harts: u8, until: Icount) -> (History, Icount) {
        let mut history = self.begin(harts);
        let end = loop {
            match history
                .run_live(until, &Stops::default(), FirstStep::Counts)
                .unwrap()
            {
                Stopped::Reached if history.machine().icount() == until => break End::Stopped,
                Stopped::Reached => {}
                Stopped::End(end) => break end,
                other => panic!("{other:?}"),
            }
        };
        let finished = history.finish(end).unwrap();
        let history = History::open(&self.path("r.tick"), engine()).unwrap();
        (history, finished.at)
    }
}

/// A server that runs until it is dropped, or killed by gdb.
pub struct Server {
    pub address: String,
    stop: Arc<AtomicBool>,
    flag: Arc<AtomicBool>,
    ended: Receiver<(Ended, History)>,
    waited: bool,
}

impl Server {
    pub fn start(history: History, listen: &str) -> Server {
        let listener = Listener::bind(listen).unwrap();
        let address = listener.address().to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let flag = history.machine().interrupt_flag();
        let raised = Arc::clone(&flag);
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let mut timeline = Timeline::new(history, TimelineOptions::default());
            let mut ticks = 0;
            let options = Options {
                // A clock of ten seconds a look: every report of progress is shown.
                host_time: Box::new(move || {
                    ticks += 10_000_000_000;
                    ticks
                }),
                ending: Box::new(move || {
                    let stop = asked.load(Ordering::SeqCst);
                    if stop {
                        raised.store(false, Ordering::SeqCst);
                    }
                    stop
                }),
                say: Box::new(|line| println!("server: {line}")),
                script: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("tickback.gdb")),
            };
            let ended = serve(&mut timeline, &listener, options).unwrap();
            // A test that has failed doesn't take it.
            let _ = done.send((ended, timeline.into_machine()));
        });
        Server {
            address,
            stop,
            flag,
            ended,
            waited: false,
        }
    }

    /// A machine that runs without a debugger comes back when its flag says so, and for nothing else.
    fn ask_to_end(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.flag.store(true, Ordering::SeqCst);
    }

    /// Ends it, if nobody has.
    pub fn finish(self) -> (Ended, History) {
        self.ask_to_end();
        self.wait()
    }

    /// Waits for it to end by itself.
    pub fn wait(mut self) -> (Ended, History) {
        self.waited = true;
        match self.ended.recv_timeout(PATIENCE) {
            Ok(ended) => ended,
            Err(RecvTimeoutError::Timeout) => panic!("the server goes on after {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the server's thread has panicked"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.waited {
            self.ask_to_end();
            if let Err(error) = self.ended.recv_timeout(PATIENCE)
                && !std::thread::panicking()
            {
                panic!("the server: {error}");
            }
        }
    }
}

/// A gdb that is killed when it takes longer than [`PATIENCE`].
struct Gdb {
    child: Child,
    killed: Arc<Mutex<bool>>,
    /// Its end tells the watching thread that gdb has ended.
    _watched: Sender<()>,
}

impl Gdb {
    fn watch(child: Child) -> Gdb {
        let (watched, ended) = mpsc::channel::<()>();
        let killed = Arc::new(Mutex::new(false));
        let (kills, pid) = (Arc::clone(&killed), child.id().to_string());
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                *kills.lock().unwrap() = true;
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        Gdb {
            child,
            killed,
            _watched: watched,
        }
    }

    /// Adds the rest of what it prints to `text`, which is shown, until it has ended.
    fn finish(mut self, mut text: String) -> String {
        let mut rest = Vec::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_end(&mut rest).unwrap();
        }
        text += &String::from_utf8_lossy(&rest);
        println!("{text}");
        assert!(!*self.killed.lock().unwrap(), "gdb took longer than {PATIENCE:?}");
        self.child.wait().unwrap();
        text
    }
}

/// Starts gdb on commands, one a line, once it is attached. A command that fails doesn't keep the next from being run.
fn start_gdb(folder: &Folder, address: &str, script: &str) -> Gdb {
    let tickback = Path::new(env!("CARGO_MANIFEST_DIR")).join("tickback.gdb");
    let mut lines: Vec<String> = ["pagination off", "confirm off", "remotetimeout 20"]
        .map(|s| format!("set {s}"))
        .into();
    lines.push(format!("source {}", tickback.display()));
    lines.push(format!("file {}", folder.path("guest.elf").display()));
    lines.push(format!("target remote {address}"));
    lines.extend(script.lines().map(str::to_owned));
    // One stream, so that what monitor commands say stands where it was said.
    let child = Command::new("sh")
        .args(["-c", "exec \"$@\" 2>&1", "sh", GDB, "-nx", "-batch"])
        .args(lines.iter().flat_map(|line| ["-ex", line]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    Gdb::watch(child)
}

/// Runs gdb on a script and yields what it printed.
pub fn gdb(folder: &Folder, server: &Server, script: &str) -> String {
    start_gdb(folder, &server.address, script).finish(String::new())
}

/// The same, and presses Ctrl-C a while after gdb has printed each of `marks` and the machine runs: they come right
/// before what is to be interrupted.
pub fn interrupted_after(folder: &Folder, server: &Server, script: &str, marks: &[&str]) -> String {
    let relay = Relay::to(&server.address);
    let mut gdb = start_gdb(folder, &relay.address, script);
    let pid = gdb.child.id().to_string();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    for mark in marks {
        while !text.contains(mark) {
            let n = gdb.child.stdout.as_mut().unwrap().read(&mut buffer).unwrap();
            assert!(n > 0, "{text}");
            text += &String::from_utf8_lossy(&buffer[..n]);
        }
        relay.wait_for_run();
        std::thread::sleep(Duration::from_millis(200));
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
    }
    gdb.finish(text)
}

/// The lines of `text` that begin with `mark`, without it.
pub fn marked<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(mark)).collect()
}

/// Where `monitor when` said that the machine stands, each time.
pub fn icounts(text: &str) -> Vec<u64> {
    let lines = marked(text, "icount ").into_iter();
    let numbers = lines.map(|line| line.split([' ', ',']).next().unwrap().replace('_', ""));
    numbers.map(|n| n.parse().unwrap()).collect()
}

/// A guest that counts for ever, and stores the count in its second page, at whose eighth byte is `unused`: with a watchpoint
/// there each of its stores is looked at, so that a search takes its time.
pub fn counting() -> Guest {
    // auipc t0, 1; addi a0, a0, 1; sd a0, 0(t0); j .-8
    let code = [0x0000_1297u32, 0x0015_0513, 0x00a2_b023, 0xff9f_f06f];
    let mut image: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    image.resize(0x1010, 0);
    let symbols = [("start", 0x8000_0000), ("count", 0x8000_1000), ("unused", UNUSED)];
    Guest {
        image,
        load: 0x8000_0000,
        entry: 0x8000_0000,
        data: 0x8000_0010,
        symbols: symbols.map(|(name, addr)| (name.to_owned(), addr)).into(),
    }
}

/// See [`counting`].
pub const UNUSED: u64 = 0x8000_1008;
