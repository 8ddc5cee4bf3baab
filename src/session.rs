//! A live run from the user's side: keys, signals, the monitor, limits, and how it ended.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use icount::{DoorError, End, Icount, Input};
use machine::board;
use machine::check::{Checked, Lead};
use machine::host::{
    ClockMode, Console, ConsoleScript, Control, DisplayView, Drives, HostError, Keyboard, LiveDoor, Network,
};
use machine::host::{Request, Signals, Stopwatch, keys, read_text, unknown_key};
use machine::{FirstStep, History, Machine, MachineError, Stopped, Stops};

use crate::boot::Prepared;
use crate::disk::{DiskWatch, Room, mebibytes};
use crate::engine::EngineOptions;
use crate::outcome::Usage;
use crate::values::{self, StopAfter, Text};

/// How time passes while the guest idles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClockArgument {
    /// It is skipped
    Warp,
    /// It passes as on the host
    Real,
}

/// Where the guest's display is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DisplayArgument {
    /// Nowhere: the terminal is the guest's serial console
    None,
    /// At the terminal, whose keys are those of the guest's keyboard (pc)
    Text,
}

/// How a run goes; nothing here changes what a guest computes from the same inputs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Run")]
pub struct RunArguments {
    #[command(flatten)]
    pub engine: EngineOptions,
    /// Run two machines side by side, one translating and one interpreting, and stop where they differ
    #[arg(long)]
    pub check: bool,
    /// Idle time of the guest [default: real at a terminal or with a network, else warp]
    #[arg(long, value_enum)]
    clock: Option<ClockArgument>,
    /// Show the guest's display, if it is in a text mode
    #[arg(long, value_enum, default_value_t = DisplayArgument::None)]
    display: DisplayArgument,
    /// Type as this file says: lines `wait TEXT`, `send TEXT`, `screen TEXT` (wait until the display shows it), `key NAME`,
    /// `type TEXT`, `pause TIME`, with escapes \n \r \t \\ \xNN
    #[arg(long, value_name = "FILE")]
    console_script: Option<PathBuf>,
    /// End after so many steps (1e9), or at this virtual time (5s, 200ms)
    #[arg(long, value_name = "STEPS|TIME", value_parser = values::stop_after)]
    stop_after: Option<StopAfter>,
    /// End behind the step at which this text has come out of the console
    #[arg(long, value_name = "TEXT", value_parser = values::text)]
    exit_on: Option<Text>,
    /// Exit with the guest's own code
    #[arg(long)]
    pub guest_exit: bool,
}

/// A run that a session leads: a machine alone, one that is recorded, or two that are compared.
pub trait Live {
    /// Runs to `until`; may come back before, to be looked at.
    fn run(&mut self, until: Icount) -> Result<Stopped, MachineError>;
    /// The machine.
    fn machine(&mut self) -> &mut Machine;
}

impl Live for Machine {
    fn run(&mut self, until: Icount) -> Result<Stopped, MachineError> {
        Self::run(self, until, &Stops::default(), FirstStep::Counts)
    }

    fn machine(&mut self) -> &mut Machine {
        self
    }
}

impl Live for History {
    fn run(&mut self, until: Icount) -> Result<Stopped, MachineError> {
        self.run_live(until, &Stops::default(), FirstStep::Counts)
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine_mut()
    }
}

impl<L: Lead> Live for Checked<L> {
    fn run(&mut self, until: Icount) -> Result<Stopped, MachineError> {
        Self::run(self, until)
    }

    fn machine(&mut self) -> &mut Machine {
        self.lead_mut().machine()
    }
}

/// Steps between looks at what the guest has written to its drives.
const STRETCH: u64 = 1 << 24;

/// The user's side of a run.
pub struct Session {
    control: Control,
    keyboard: Option<Keyboard>,
    clock: Option<ClockMode>,
    terminal: bool,
    script: Option<ConsoleScript>,
    exit_on: Option<Text>,
    stop_after: Option<StopAfter>,
    stats: bool,
    view: Option<DisplayView>,
    drives: Arc<Drives>,
    disk: Option<DiskWatch>,
    // Last: while the terminal is put back, signals are still caught.
    _signals: Signals,
}

impl Session {
    /// Takes over the terminal, if there is one, and the signals.
    pub fn start(arguments: &RunArguments) -> Result<Self> {
        let script = arguments.console_script.as_deref().map(read_script).transpose()?;
        let control = Control::new();
        let terminal = std::io::stdin().is_terminal();
        let display = arguments.display == DisplayArgument::Text;
        if display && !(std::io::stdout().is_terminal() && (terminal || script.is_some())) {
            let what =
                "--display text needs a terminal; `tickback screen` prints what a recorded display showed";
            return Err(Usage(what.into()).into());
        }
        if display {
            control.type_keys();
        }
        // A script types alone, unless a user is there to go on.
        let keyboard = (terminal || script.is_none())
            .then(|| Keyboard::stdin(&control))
            .transpose()?;
        let on_terminal = keyboard
            .as_ref()
            .and_then(|keyboard| keyboard.terminal().cloned());
        let clock = match arguments.clock {
            Some(ClockArgument::Warp) => Some(ClockMode::Warp),
            Some(ClockArgument::Real) => Some(ClockMode::Real),
            None => None,
        };
        Ok(Self {
            _signals: Signals::catch(&control, on_terminal)?,
            control,
            keyboard,
            clock,
            terminal,
            script,
            exit_on: arguments.exit_on.clone(),
            stop_after: arguments.stop_after,
            stats: arguments.engine.stats,
            view: display.then(|| DisplayView::new(Box::new(std::io::stdout()))),
            drives: Arc::default(),
            disk: None,
        })
    }

    /// The door through which the user reaches the guest.
    pub fn door(&mut self, prepared: &Prepared) -> Result<LiveDoor> {
        let board = &prepared.config.board;
        if self.view.is_some() && !board::has_display(board)? {
            let what = format!("--display text: {board} has no display; --machine pc has one");
            return Err(Usage(what).into());
        }
        let console = if self.view.is_some() {
            Console::none()
        } else {
            Console::stdout(Some(self.control.clone()))
        };
        self.drives = Arc::clone(&prepared.drives);
        // Whoever answers a guest over a network does so in the host's time.
        let clock = match self.clock {
            Some(clock) => clock,
            None if self.terminal || !prepared.ends.is_empty() => ClockMode::Real,
            None => ClockMode::Warp,
        };
        let mut door = LiveDoor::new(self.control.clone(), console)
            .drives(Arc::clone(&prepared.drives))
            .clock(clock, prepared.config.ns_per_step);
        if !prepared.ends.is_empty() {
            door = door.network(Network::open(&prepared.ends, &self.control)?);
        }
        if let Some(view) = &self.view {
            door = door.view(view.clone());
        }
        if let Some(script) = self.script.take() {
            door = door.script(script);
        }
        if let Some(Text(text)) = &self.exit_on {
            door = door.exit_on(text);
        }
        if let Some(StopAfter::Time(time)) = self.stop_after {
            door = door.stop_at(time);
        }
        Ok(door)
    }

    /// Looks after the disk on which a recording grows.
    pub fn watch_disk(&mut self, folder: &Path) {
        self.disk = Some(DiskWatch::new(folder));
    }

    /// Runs until the guest or the user ends it. The caller closes what it recorded.
    pub fn lead(&self, live: &mut dyn Live) -> Result<End> {
        self.control.attach_looking(live.machine().interrupt_flag());
        let watch = Stopwatch::start();
        let start = live.machine().icount();
        self.greet();
        let end = self.run(live)?;
        if self.stats {
            tell_figures(live.machine(), start, watch.elapsed());
        }
        Ok(end)
    }

    fn run(&self, live: &mut dyn Live) -> Result<End> {
        let limit = match self.stop_after {
            Some(StopAfter::Steps(steps)) => Icount(steps),
            Some(StopAfter::Time(_)) | None => Icount::MAX,
        };
        loop {
            let at = live.machine().icount();
            let stopped = live.run(limit.min(at.saturating_add(STRETCH)));
            let notes = live.machine().take_notes();
            if !notes.is_empty() {
                self.leave_display();
            }
            notes.iter().for_each(|note| say(note));
            self.drives.write_through(live.machine())?;
            match stopped {
                Ok(Stopped::End(end)) => return Ok(end),
                Ok(Stopped::Reached) if live.machine().icount() < limit => {}
                Ok(Stopped::Reached | Stopped::Hit(_)) => return Ok(End::Stopped),
                Ok(Stopped::Interrupted) => {}
                Err(MachineError::Door(error @ DoorError::LogFull(_))) if self.wait_for_room(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if self.is_disk_out() {
                return Ok(End::Stopped);
            }
            while let Some(request) = self.control.take() {
                if self.serve(&request, live)? {
                    return Ok(End::Stopped);
                }
            }
        }
    }

    /// Gives the terminal back for a message.
    fn leave_display(&self) {
        if let Some(view) = &self.view {
            view.leave();
        }
    }

    /// Does what was asked; whether that ends the run.
    fn serve(&self, request: &Request, live: &mut dyn Live) -> Result<bool> {
        self.leave_display();
        match request {
            Request::Help => {
                eprint!("{KEYS}");
                Ok(false)
            }
            Request::Monitor => self.monitor(live),
            Request::Note(note) => {
                say(note);
                Ok(false)
            }
            Request::Signal(signal) => {
                say(&format!("signal {signal}: ending the run"));
                Ok(true)
            }
            // Asked for beforehand, or by a key just pressed: nothing to explain.
            _ => Ok(true),
        }
    }

    /// Warns of a disk that fills; whether the run is to end while there is room for its end.
    fn is_disk_out(&self) -> bool {
        let Some(disk) = &self.disk else { return false };
        let folder = disk.folder().display();
        match disk.look() {
            Room::Enough => false,
            Room::Low(free) => {
                say(&format!(
                    "the disk of {folder} has {} left; the run is stopped when it is nearly full",
                    mebibytes(free)
                ));
                false
            }
            Room::Out(free) => {
                let text = format!("the disk of {folder} has {} left", mebibytes(free));
                let goes_on = self.wait_for_user(&text);
                if !goes_on {
                    say(&format!(
                        "{text}: ending the run, while the recording can be closed"
                    ));
                }
                !goes_on
            }
        }
    }

    /// Waits a moment for the user to make room for the recording; whether to try again.
    fn wait_for_room(&self, error: &DoorError) -> bool {
        let cause = std::error::Error::source(error)
            .map(ToString::to_string)
            .unwrap_or_default();
        self.leave_display();
        self.wait_for_user(&format!("{error} ({cause})"))
    }

    /// Pauses the guest at a terminal until the user has made room; whether to go on.
    fn wait_for_user(&self, why: &str) -> bool {
        let Some(keyboard) = self.keyboard.as_ref().filter(|k| k.terminal().is_some()) else {
            return false;
        };
        say(&format!(
            "{why}; the guest is paused; Ctrl-A c goes on, Ctrl-A x ends the run"
        ));
        loop {
            match self.control.next(Duration::from_secs(1)) {
                None | Some(Request::Help) => {}
                Some(Request::Note(note)) => say(&note),
                Some(Request::Monitor) => return keyboard.leave_monitor().is_ok(),
                Some(_) => return false,
            }
        }
    }

    /// The monitor: the guest is paused, and lines are commands.
    fn monitor(&self, live: &mut dyn Live) -> Result<bool> {
        let place =
            |machine: &Machine| format!("icount {}, virtual time {}", machine.icount(), machine.time());
        say(&format!(
            "monitor; the guest is paused at {}; help lists the commands",
            place(live.machine())
        ));
        let quit = loop {
            eprint!("(tickback) ");
            let _ = std::io::stderr().flush();
            let Some(line) = self.control.line() else {
                break self.control.is_ending();
            };
            match line.trim().trim_start_matches('\u{1}') {
                "" => {}
                "c" | "cont" | "continue" => break false,
                "q" | "quit" => break true,
                "when" | "info" => eprintln!("{}", place(live.machine())),
                "reset" => {
                    live.machine().inject(Input::Reset)?;
                    break false;
                }
                "screen" => match live.machine().screen() {
                    Some(screen) => screen.rows().iter().for_each(|row| eprintln!("{row}")),
                    None => eprintln!("there is no display in a text mode"),
                },
                line if line.starts_with("sendkey ") => {
                    let name = line["sendkey ".len()..].trim();
                    match keys::combination(name) {
                        Some(strokes) => self.control.press(&strokes),
                        None => eprintln!("{}", unknown_key(name)),
                    }
                }
                "help" | "h" | "?" => eprint!("{COMMANDS}"),
                other => eprintln!("'{other}' is no command; help lists them"),
            }
        };
        if let Some(keyboard) = &self.keyboard {
            keyboard.leave_monitor().map_err(|source| HostError::System {
                action: "set the terminal's mode",
                source,
            })?;
        }
        if !quit {
            say("the guest goes on");
        }
        Ok(quit)
    }

    /// Tells a user at a terminal about the keys.
    fn greet(&self) {
        if self
            .keyboard
            .as_ref()
            .is_some_and(|keyboard| keyboard.terminal().is_some())
        {
            say("the terminal is the guest's console; Ctrl-A x ends the run, Ctrl-A h explains the keys");
        }
    }

    /// For a run that a debugger leads: requests set `flag` from now on.
    pub fn watch(&self, flag: Arc<AtomicBool>) {
        self.control.attach(flag);
        self.greet();
    }

    /// For a run that a debugger leads: serves what was asked; whether that ends the run.
    pub fn is_ending(&self) -> bool {
        self.leave_display();
        while let Some(request) = self.control.take() {
            match request {
                Request::Help => eprint!("{KEYS}"),
                Request::Note(note) => say(&note),
                Request::Monitor => {
                    say("the debugger leads this run: use gdb's monitor commands");
                    if self
                        .keyboard
                        .as_ref()
                        .is_some_and(|keyboard| keyboard.leave_monitor().is_err())
                    {
                        return true;
                    }
                }
                _ => return true,
            }
        }
        false
    }

    /// What the console script has left undone, which the user should know.
    pub fn script_pending(&self) -> Option<String> {
        self.control.script_pending()
    }
}

fn read_script(path: &Path) -> Result<ConsoleScript, HostError> {
    let text = read_text(path, 1 << 20).map_err(|source| HostError::File {
        action: "read the console script",
        path: path.into(),
        source,
    })?;
    ConsoleScript::parse(&text).map_err(|source| HostError::Script {
        path: path.into(),
        source,
    })
}

/// A line of tickback's own.
pub fn say(text: &str) {
    eprintln!("tickback: {text}");
}

/// Says how many steps a run made from `start` on, and how fast, and what the translator did.
pub fn tell_figures(machine: &Machine, start: Icount, elapsed: Duration) {
    let steps = machine.icount().since(start);
    let seconds = elapsed.as_secs_f64();
    let speed = if seconds > 0.0 {
        steps as f64 / seconds / 1e6
    } else {
        0.0
    };
    say(&format!(
        "{steps} steps, {} of virtual time, in {seconds:.3} s: {speed:.1} million steps a second",
        machine.time()
    ));
    if let Some(figures) = machine.figures() {
        figures.to_string().lines().for_each(say);
    }
}

const KEYS: &str = "\
tickback: keys after Ctrl-A:
  x       end the run (a recording is closed and can be replayed)
  c       the monitor: pause the guest and type commands
  h       this help
  Ctrl-A  one Ctrl-A for the guest
";

const COMMANDS: &str = "\
  continue   go on with the guest (also Ctrl-D)
  when       where the guest is: steps made and virtual time
  reset      press the guest's reset button and go on
  screen     what the guest's display shows
  sendkey K  press a key of the guest's keyboard, or several: ret, f1, ctrl-alt-delete
  quit       end the run (a recording is closed and can be replayed)
";
