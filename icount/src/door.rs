//! The one door: how inputs enter a machine and its effects are witnessed.
//!
//! The run loop calls it and knows no more than this trait; whether the run is live, recorded or
//! replayed is decided by which door it was handed:
//!
//! | call         | live (in `machine`)        | [`Recording`](crate::Recording)    | `Replaying`|
//! |--------------|----------------------------|--------------------------------------|---------------------------------|
//! | `effect`     | shows console bytes        | passes on, then logs                 | compares with the log           |
//! | `send`       | to the network's other end | to the live door                   | nothing                         |
//! | `input`      | polls the host             | asks the live door, logs, hands on   | the logged input, exactly there |
//! | `idle`       | waits in host time or warps| asks the live door                   | the earlier of deadline and log |
//! | `disk_block` | reads the image            | reads once, logs; then from the log  | from the log                    |
//! | `inject`     | accepts                    | logs                                 | refuses                         |
//!
//! Order at a boundary (DESIGN rule B): deadlines, then `input` until `None`; when every hart
//! waits, `idle`, then deadlines and `input` again at the same icount. Positions handed to a door
//! never go back, unless [`Door::seek`] moved it.
//!
//! **A call that fails has had no effect**: the caller may pause and make the same call again;
//! nothing is lost and nothing is delivered twice.

use std::any::Any;
use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use crate::{Display, Effect, Event, Icount, Input, LogError, MAX_NETWORKS, VIRTIO_CONSOLE, VirtualTime};

/// What the devices can take in at this boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// The UART of port 0 has room for a byte. A live door offers one only then; a replaying door
    /// need not look, since the log holds what was offered.
    pub console: bool,
    /// The keyboard has room for a key.
    pub key: bool,
    /// The virtio console, port [`VIRTIO_CONSOLE`], has a buffer for a byte.
    pub virtio_console: bool,
    /// Bit N: the network device of port N has a buffer for a frame.
    pub frames: u8,
}

impl Ready {
    /// Whether there is room for this input; some need none.
    pub fn takes(&self, input: &Input) -> bool {
        match input {
            Input::Console { port: 0, .. } => self.console,
            Input::Console { port, .. } => *port != VIRTIO_CONSOLE || self.virtio_console,
            Input::Key { .. } => self.key,
            Input::Frame { port, .. } => *port >= MAX_NETWORKS || self.frames >> port & 1 != 0,
            Input::DiskBlock { .. } | Input::Debugger(_) | Input::Reset => true,
        }
    }
}

/// How a machine whose harts all wait goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Let virtual time pass until then, at most the deadline. It may be earlier than the
    /// deadline, or even now, because an input may be due: poll again.
    Until(VirtualTime),
    /// There is no deadline, and no input can come: the guest waits for ever.
    Forever,
    /// Replaying: the recording ends before anything else happens.
    Ended,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The guest switched the machine off, with this code.
    PowerOff(u32),
    /// Somebody outside stopped the run (a limit, a signal, a debugger).
    Stopped,
    /// Every hart waits, without a deadline or a possible input.
    WaitsForever,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PowerOff(code) => write!(f, "the guest powered off with code {code}"),
            Self::Stopped => f.write_str("the run was stopped"),
            Self::WaitsForever => f.write_str("the guest waits for ever"),
        }
    }
}

/// How far a run is through its events. Stored in snapshots; equal in a recording and its replays
/// at the same boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogPosition {
    /// Inputs delivered by [`Door::input`] and [`Door::inject`] so far. Disk blocks don't count:
    /// they are content, found by their number.
    pub inputs: u64,
    /// Effects so far.
    pub effects: u64,
}

/// The first difference between a replay and its recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Where the replay noticed.
    pub at: Icount,
    /// Virtual time there.
    pub time: VirtualTime,
    /// The hart that was running.
    pub hart: u8,
    /// What the recording has next; `None` if it has nothing more.
    pub expected: Option<Event>,
    /// What the replay did; `None` if it went past `expected` without doing it.
    pub got: Option<Event>,
    /// The last events that agreed, at most 16, oldest first.
    pub before: Vec<Event>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at icount {} ({}, hart {})", self.at, self.time, self.hart)?;
        match &self.expected {
            Some(event) => writeln!(f, "  recorded: {event}")?,
            None => writeln!(f, "  recorded: nothing more")?,
        }
        match &self.got {
            Some(event) => write!(f, "  replayed: {event}")?,
            None => write!(f, "  replayed: went past it")?,
        }
        for (index, event) in self.before.iter().enumerate() {
            let margin = if index == 0 { "  before:  " } else { "          " };
            write!(f, "\n{margin} {event}")?;
        }
        Ok(())
    }
}

/// Why a door did not do what it was asked. The call has had no effect.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The log can't grow (disk full, quota, file size limit). Pause, make room, call again.
    #[error("the event log can't grow; make room, then continue")]
    LogFull(#[source] LogError),
    /// Reading or writing the log failed.
    #[error("the event log failed")]
    Log(#[source] LogError),
    /// A host back end of the live door failed.
    #[error("{action} failed")]
    Host {
        /// What was being done, with the name of the file or device.
        action: String,
        /// What the host said.
        #[source]
        source: io::Error,
    },
    /// The replay does not do what the recording did: a defect of the emulator, another model
    /// version, or a recording that was tampered with.
    #[error("the replay departs from its recording {0}")]
    Divergence(Box<Divergence>),
    /// The replay went on where the recording ends (our bug: the run loop must stop there).
    #[error("the recording ends at icount {end}, the replay is at {at}")]
    PastEnd {
        /// Where the replay is.
        at: Icount,
        /// Where the recording ends.
        end: Icount,
    },
    /// A base disk block is neither in the recording nor reachable.
    #[error("block {block} of drive {drive} is not in the recording")]
    NoDiskBlock {
        /// The drive's number.
        drive: u8,
        /// The block's number.
        block: u64,
    },
    /// The call makes no sense for this door (our bug, or a write into history without a branch).
    #[error("a {door} door can't {what}")]
    Refused {
        /// Which kind of door.
        door: &'static str,
        /// What was asked of it.
        what: &'static str,
    },
}

impl From<LogError> for DoorError {
    fn from(error: LogError) -> Self {
        if error.is_full() {
            Self::LogFull(error)
        } else {
            Self::Log(error)
        }
    }
}

/// The one way in and out of a machine. See the module's table for what each implementation does.
///
/// It is asked at every boundary, so whoever lends one to a machine gets at it by [`Any`], not by a lock.
pub trait Door: Any {
    /// An effect happened at the CPU's edge. Recording logs it; replaying compares it with the
    /// log. `at` is the boundary before the step that caused it.
    ///
    /// A recording keeps effects in memory when they can't be written and says so at the next
    /// [`input`](Self::input), [`idle`](Self::idle) or [`progress`](Self::progress), where the
    /// machine can pause; it fails here only when that memory reaches its bound.
    ///
    /// # Errors
    /// [`DoorError::Divergence`] when replaying; a log error as said above.
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError>;

    /// The content of the frame whose [`Effect::FrameOut`] was just told. Only a live door does something with it: the
    /// frame goes out, or is lost where there is no peer; what comes back are inputs.
    fn send(&mut self, port: u8, frame: &[u8]);

    /// The next input that is due at this boundary, if any; never [`Input::DiskBlock`]. Called
    /// repeatedly until `None`.
    ///
    /// # Errors
    /// The input could not be logged (it is kept, and comes with the next call), or the replay
    /// went past a logged one.
    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError>;

    /// Whether the machine shall show its display here ([`display`](Self::display)), before it asks for inputs. The
    /// machine asks at each boundary at which it asks for inputs.
    fn wants_display(&self, at: Icount, time: VirtualTime) -> bool;

    /// What the machine's display shows at this boundary; `None` if it has none in a text mode. Showing only observes:
    /// what a door makes of it comes back as inputs.
    fn display(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>);

    /// Where the next input stands, if that is known: the machine must call
    /// [`input`](Self::input) exactly there. Replaying: the next logged one. Live: `None`, and the
    /// run loop polls at least every 10⁶ steps or so. When the position is this boundary and
    /// `input` gave `None` (its time comes while the harts wait), the machine goes on as usual: it
    /// waits, or makes its step, and a door that expected otherwise says so.
    fn next_input(&self) -> Option<(Icount, VirtualTime)>;

    /// Every hart waits at boundary `at`. Says until when virtual time passes. Warp returns the
    /// deadline at once; a live terminal waits for it in host time, or until a byte comes.
    ///
    /// # Errors
    /// Those of [`input`](Self::input), and host errors.
    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError>;

    /// The content of a base disk block that the machine reads and doesn't hold:
    /// [`BLOCK_SIZE`](crate::BLOCK_SIZE) bytes. Asking again is allowed and gives the same bytes.
    ///
    /// # Errors
    /// The image can't be read, the block can't be logged, or the recording does not have it.
    fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError>;

    /// A debugger's write or a reset on a live run: logged before it takes effect. When this
    /// returns, the machine applies it, as if [`input`](Self::input) had handed it out.
    ///
    /// # Errors
    /// It could not be logged, and must not take effect; or the door replays.
    fn inject(&mut self, at: Icount, time: VirtualTime, input: &Input) -> Result<(), DoorError>;

    /// The machine is at this boundary. Called at least after each budget, with `tick` about once
    /// a second of host time: a recording then writes a progress mark and what effects it holds.
    /// Replaying reports an expected effect that was passed.
    ///
    /// # Errors
    /// The log can't be written, or a divergence.
    fn progress(&mut self, at: Icount, time: VirtualTime, tick: bool) -> Result<(), DoorError>;

    /// How far the run is through its events.
    fn position(&self) -> LogPosition;

    /// Goes to another position of the recording: the machine was restored from a snapshot that
    /// holds it. Replaying only.
    ///
    /// # Errors
    /// The position is not in the log, or the door does not replay.
    fn seek(&mut self, position: LogPosition) -> Result<(), DoorError>;

    /// The run ends here: a recording writes the rest and closes the log; replaying reports what
    /// was passed. May be called again after an error.
    ///
    /// # Errors
    /// Those of [`progress`](Self::progress).
    fn finish(&mut self, at: Icount, time: VirtualTime, end: End) -> Result<(), DoorError>;
}

impl<D: Door + ?Sized> Door for Box<D> {
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError> {
        (**self).effect(at, time, hart, effect)
    }

    fn send(&mut self, port: u8, frame: &[u8]) {
        (**self).send(port, frame);
    }

    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError> {
        (**self).input(at, time, ready)
    }

    fn wants_display(&self, at: Icount, time: VirtualTime) -> bool {
        (**self).wants_display(at, time)
    }

    fn display(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>) {
        (**self).display(at, time, display);
    }

    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        (**self).next_input()
    }

    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        (**self).idle(at, now, deadline)
    }

    fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        (**self).disk_block(at, time, drive, block)
    }

    fn inject(&mut self, at: Icount, time: VirtualTime, input: &Input) -> Result<(), DoorError> {
        (**self).inject(at, time, input)
    }

    fn progress(&mut self, at: Icount, time: VirtualTime, tick: bool) -> Result<(), DoorError> {
        (**self).progress(at, time, tick)
    }

    fn position(&self) -> LogPosition {
        (**self).position()
    }

    fn seek(&mut self, position: LogPosition) -> Result<(), DoorError> {
        (**self).seek(position)
    }

    fn finish(&mut self, at: Icount, time: VirtualTime, end: End) -> Result<(), DoorError> {
        (**self).finish(at, time, end)
    }
}
