//! The live door: the world outside as the machine sees it.
//!
//! How a byte comes in: a script's first (it says exactly when), then what was typed; frames come last. The terminal is
//! the serial console and the virtio console: it shows both, and what is typed goes to the one that wrote last. How idle time passes:
//!
//! | clock | a deadline is left              | none is left, input can come | none can come |
//! |-------|---------------------------------|------------------------------|---------------|
//! | warp  | virtual time jumps there        | waits for it in host time    | for ever      |
//! | real  | waits as long, or for an input  | waits, virtual time goes on  | for ever      |
//!
//! A request to tickback ends any wait at once.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use icount::{
    Display, Door, DoorError, Effect, End, Icount, Idle, Input, LogPosition, Ready, VIRTIO_CONSOLE,
    VirtualTime,
};

use super::clock::Tick;
use super::console::Console;
use super::control::{Control, Request};
use super::display::{self, DisplayView};
use super::drive::Drives;
use super::matcher::Matcher;
use super::network::Network;
use super::script::{ConsoleScript, Typed};

/// How virtual time passes while every hart waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// It jumps to what is due next.
    #[default]
    Warp,
    /// As fast as the host's.
    Real,
}

/// The longest wait in one piece: between two, the run comes back and its recording is brought up to date.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The most by which a wait that took too long shortens the ones after it.
const LONGEST_DEBT: Duration = Duration::from_millis(20);

/// The most frames handed out at one boundary.
const MOST_FRAMES: u32 = 1024;

/// The live door. Made by [`new`](Self::new) and the methods that return `Self`; hand it to a machine, or to
/// [`icount::Recording`] first.
#[derive(Debug)]
pub struct LiveDoor {
    control: Control,
    console: Console,
    drives: Arc<Drives>,
    network: Option<Network>,
    /// Frames handed out at this boundary.
    frames: u32,
    /// The console port that the guest wrote to last, to which what is typed goes.
    port: u8,
    clock: ClockMode,
    ns_per_step: NonZeroU64,
    script: Option<ConsoleScript>,
    exit_on: Option<Matcher>,
    /// Virtual time at which the run is to end.
    stop_at: Option<VirtualTime>,
    /// That was asked for.
    time_up: bool,
    /// Where the door was last asked.
    asked: (Icount, VirtualTime),
    position: LogPosition,
    /// What the devices could take where the door was last asked.
    ready: Ready,
    /// How much longer than asked the last wait took.
    debt: Duration,
    /// When a machine that idles is to come back.
    look: Tick,
    view: Option<DisplayView>,
}

impl LiveDoor {
    /// A door whose keys and requests come through `control`.
    #[must_use]
    pub fn new(control: Control, console: Console) -> Self {
        Self {
            control,
            console,
            drives: Arc::default(),
            network: None,
            frames: 0,
            port: 0,
            clock: ClockMode::Warp,
            ns_per_step: NonZeroU64::MIN,
            script: None,
            exit_on: None,
            stop_at: None,
            time_up: false,
            asked: (Icount::ZERO, VirtualTime::ZERO),
            position: LogPosition::default(),
            ready: Ready::default(),
            debt: Duration::ZERO,
            look: Tick::new(LONGEST_WAIT),
            view: None,
        }
    }

    /// With a terminal that shows the machine's display.
    #[must_use]
    pub fn view(mut self, view: DisplayView) -> Self {
        self.view = Some(view);
        self
    }

    /// With the images of drives.
    #[must_use]
    pub fn drives(mut self, drives: Arc<Drives>) -> Self {
        self.drives = drives;
        self
    }

    /// With the other ends of network cables.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = Some(network);
        self
    }

    /// With a clock for idle time, and how long a step takes.
    #[must_use]
    pub fn clock(mut self, mode: ClockMode, ns_per_step: NonZeroU64) -> Self {
        self.clock = mode;
        self.ns_per_step = ns_per_step;
        self.script = self.script.map(|script| script.with_ns_per_step(ns_per_step));
        self
    }

    /// With a script that types.
    #[must_use]
    pub fn script(mut self, script: ConsoleScript) -> Self {
        let script = script.with_ns_per_step(self.ns_per_step);
        self.control.set_script_pending(script.pending());
        self.script = Some(script);
        self
    }

    /// Asks for the run's end ([`Request::TextSeen`]) when `text` comes out of the console.
    #[must_use]
    pub fn exit_on(mut self, text: &[u8]) -> Self {
        self.exit_on = Some(Matcher::new(text));
        self
    }

    /// Asks for the run's end ([`Request::TimeUp`]) when it is so late.
    #[must_use]
    pub const fn stop_at(mut self, time: VirtualTime) -> Self {
        self.stop_at = Some(time);
        self
    }

    /// Whether it has become time to stop, which is then asked for.
    fn is_time_up(&mut self, now: VirtualTime) -> bool {
        let up = self.stop_at.is_some_and(|time| time <= now);
        if up && !self.time_up {
            self.control.request(Request::TimeUp);
        }
        self.time_up = up;
        up
    }

    /// Lets the user know how far the script is, at the end.
    fn tell_script(&self) {
        let pending = self.script.as_ref().and_then(ConsoleScript::pending);
        self.control.set_script_pending(pending);
    }

    fn hand_out(&mut self, typed: Typed) -> Input {
        self.position.inputs += 1;
        match typed {
            Typed::Byte(byte) => Input::Console {
                port: self.port,
                byte,
            },
            Typed::Key((code, down)) => Input::Key { code, down },
        }
    }

    /// The next frame from outside. A driver that hands out more buffers than its ring has can't keep the machine here.
    fn frame(&mut self, ready: Ready) -> Option<Input> {
        let network = self.network.as_mut()?;
        if ready.frames == 0 || self.frames >= MOST_FRAMES {
            return None;
        }
        let (port, data) = network.frame(ready.frames)?;
        self.frames += 1;
        self.position.inputs += 1;
        Some(Input::Frame { port, data })
    }
}

impl Door for LiveDoor {
    fn effect(
        &mut self,
        _at: Icount,
        time: VirtualTime,
        _hart: u8,
        effect: &Effect,
    ) -> Result<(), DoorError> {
        self.position.effects += 1;
        let Effect::ConsoleOut {
            port: port @ (0 | VIRTIO_CONSOLE),
            byte,
        } = *effect
        else {
            return Ok(());
        };
        self.port = port;
        self.console.put(byte);
        if self.exit_on.as_mut().is_some_and(|matcher| matcher.feed(byte)) {
            self.control.request(Request::TextSeen);
        }
        if self.script.as_mut().is_some_and(|script| script.feed(byte, time)) {
            self.tell_script();
        }
        Ok(())
    }

    fn send(&mut self, port: u8, frame: &[u8]) {
        if let Some(network) = &mut self.network {
            network.send(port, frame);
        }
    }

    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError> {
        self.console.poll()?;
        // Whoever types doesn't care which console it is.
        let ready = Ready {
            console: if self.port == VIRTIO_CONSOLE {
                ready.virtio_console
            } else {
                ready.console
            },
            ..ready
        };
        self.ready = ready;
        if self.asked != (at, time) {
            self.frames = 0;
        }
        self.asked = (at, time);
        self.is_time_up(time);
        let scripted = self
            .script
            .as_mut()
            .and_then(|script| script.next(at, time, ready));
        let typed = match scripted {
            Some(typed) => {
                self.tell_script();
                Some(typed)
            }
            None => {
                let byte = ready
                    .console
                    .then(|| self.control.byte())
                    .flatten()
                    .map(Typed::Byte);
                byte.or_else(|| ready.key.then(|| self.control.key()).flatten().map(Typed::Key))
            }
        };
        Ok(match typed {
            Some(typed) => Some(self.hand_out(typed)),
            None => self.frame(ready),
        })
    }

    fn wants_display(&self, _: Icount, time: VirtualTime) -> bool {
        self.script.as_ref().is_some_and(|script| script.looks(time))
            || self.view.as_ref().is_some_and(DisplayView::due)
    }

    fn display(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>) {
        if let Some(script) = self.script.as_mut().filter(|script| script.looks(time))
            && script.look(at, time, display)
        {
            self.tell_script();
        }
        if let Some(view) = self.view.as_ref().filter(|view| view.due()) {
            view.show(display);
        }
    }

    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        let scripted = self.script.as_ref().and_then(ConsoleScript::next_input);
        let stop = self.stop_at.map(|stop| {
            let (at, time) = self.asked;
            let steps = stop.since(time).div_ceil(self.ns_per_step.get());
            (at.saturating_add(steps), stop)
        });
        scripted.into_iter().chain(stop).min()
    }

    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        self.console.flush()?;
        let mut scripted = self.script.as_ref().and_then(ConsoleScript::due);
        let stuck = self.script.as_ref().is_some_and(|script| script.has_seen(at));
        if (!self.ready.console || stuck) && deadline.is_none() {
            // No hart will ever make room for the byte, or change what the script looks at.
            scripted = None;
        }
        if self.is_time_up(now) {
            return Ok(Idle::Until(now));
        }
        let until = deadline.into_iter().chain(scripted).chain(self.stop_at).min();
        let limit = match until {
            Some(until) if until <= now || self.clock == ClockMode::Warp => {
                return Ok(Idle::Until(until.max(now)));
            }
            Some(until) => Some(Duration::from_nanos(until.since(now))),
            None if !self.control.can_come(self.ready.console, self.ready.frames) => {
                return Ok(Idle::Forever);
            }
            None => None,
        };
        let start = Instant::now();
        let owed = self.debt.min(limit.unwrap_or_default());
        let asked = limit.map_or(Duration::MAX, |limit| limit - owed);
        let longest = if self.view.is_some() {
            display::PERIOD
        } else {
            LONGEST_WAIT
        };
        let (console, frames) = (self.ready.console, self.ready.frames);
        let whole = self.control.wait(Some(asked.min(longest)), console, frames) && asked <= longest;
        let elapsed = start.elapsed();
        self.debt = Duration::ZERO;
        if self.look.due() {
            self.control.nudge();
        }
        if let (true, Some(until), Some(limit)) = (whole, until, limit) {
            self.debt = (elapsed + owed).saturating_sub(limit).min(LONGEST_DEBT);
            return Ok(Idle::Until(until));
        }
        let passed = match self.clock {
            ClockMode::Warp => 0,
            ClockMode::Real => u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        };
        let reached = now.saturating_add(passed);
        Ok(Idle::Until(until.map_or(reached, |until| reached.min(until))))
    }

    fn disk_block(
        &mut self,
        _at: Icount,
        _time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        self.drives.read_block(drive, block)
    }

    fn inject(&mut self, _: Icount, _: VirtualTime, _: &Input) -> Result<(), DoorError> {
        self.position.inputs += 1;
        Ok(())
    }

    fn progress(&mut self, _: Icount, _: VirtualTime, _: bool) -> Result<(), DoorError> {
        self.console.poll()
    }

    fn position(&self) -> LogPosition {
        self.position
    }

    fn seek(&mut self, _position: LogPosition) -> Result<(), DoorError> {
        Err(DoorError::Refused {
            door: "live",
            what: "go to another position",
        })
    }

    fn finish(&mut self, _: Icount, _: VirtualTime, _: End) -> Result<(), DoorError> {
        if let Some(view) = &self.view {
            view.leave();
        }
        self.console.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::console::tests::Sink;
    use super::*;

    const HERE: Icount = Icount(100);
    const NOW: VirtualTime = VirtualTime(100);
    const READY: Ready = Ready {
        console: true,
        key: true,
        virtio_console: true,
        frames: 1,
    };

    fn door(control: &Control) -> (LiveDoor, Sink) {
        let sink = Sink::default();
        let console = Console::new(Box::new(sink.clone()), Some(control.clone()));
        (LiveDoor::new(control.clone(), console), sink)
    }

    fn say(door: &mut LiveDoor, text: &str) {
        for byte in text.bytes() {
            door.effect(HERE, NOW, 0, &Effect::ConsoleOut { port: 0, byte })
                .unwrap();
        }
    }

    #[test]
    fn warp_jumps_and_ends_when_nothing_can_come() {
        let control = Control::new();
        let (mut door, sink) = door(&control);
        door.input(HERE, NOW, READY).unwrap();
        say(&mut door, "login: ");
        let far = VirtualTime(u64::MAX);
        assert_eq!(door.idle(HERE, NOW, Some(far)).unwrap(), Idle::Until(far));
        assert_eq!(door.idle(HERE, NOW, None).unwrap(), Idle::Forever);
        assert_eq!(*sink.taken.lock().unwrap(), b"login: ", "flushed before waiting");
        assert_eq!(
            door.position(),
            LogPosition {
                inputs: 0,
                effects: 7
            }
        );
    }

    #[test]
    fn without_a_deadline_it_waits_for_a_key() {
        let control = Control::new();
        control.open_input(false);
        let (mut door, _) = door(&control);
        assert_eq!(door.input(HERE, NOW, READY).unwrap(), None);
        let typist = control.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            typist.type_byte(b'k');
        });
        assert_eq!(door.idle(HERE, NOW, None).unwrap(), Idle::Until(NOW));
        thread.join().unwrap();
        assert_eq!(door.input(HERE, NOW, Ready::default()).unwrap(), None);
        let key = Input::Console { port: 0, byte: b'k' };
        assert_eq!(door.input(HERE, NOW, READY).unwrap(), Some(key));
        control.close_input();
        assert_eq!(door.idle(HERE, NOW, None).unwrap(), Idle::Forever);
    }

    #[test]
    fn real_time_passes_as_the_host_s() {
        let control = Control::new();
        let (door, _) = door(&control);
        let mut door = door.clock(ClockMode::Real, NonZeroU64::MIN);
        let start = Instant::now();
        let deadline = VirtualTime(NOW.0 + 30_000_000);
        assert_eq!(
            door.idle(HERE, NOW, Some(deadline)).unwrap(),
            Idle::Until(deadline)
        );
        assert!(start.elapsed() >= Duration::from_millis(30));
        // A key ends the wait, at the virtual time reached. On a busy host it may come before the wait begins.
        control.open_input(true);
        door.input(HERE, NOW, READY).unwrap();
        let waited = (0..20).any(|_| {
            let typist = control.clone();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                typist.type_byte(b'k');
            });
            let deadline = VirtualTime(NOW.0 + 600_000_000_000);
            let start = Instant::now();
            let Idle::Until(reached) = door.idle(HERE, NOW, Some(deadline)).unwrap() else {
                panic!("time must pass");
            };
            let taken = start.elapsed().as_nanos() as u64;
            thread.join().unwrap();
            assert!(reached.0 - NOW.0 <= taken && reached < deadline, "{reached}");
            assert!(door.input(HERE, NOW, READY).unwrap().is_some());
            reached.0 - NOW.0 >= 10_000_000
        });
        assert!(waited);
    }

    #[test]
    fn a_byte_without_room_does_not_spin() {
        let control = Control::new();
        control.open_input(false);
        control.type_byte(b'k');
        let (door, _) = door(&control);
        let mut door = door.clock(ClockMode::Real, NonZeroU64::MIN);
        assert_eq!(door.input(HERE, NOW, Ready::default()).unwrap(), None);
        let start = Instant::now();
        let deadline = VirtualTime(NOW.0 + 30_000_000);
        assert_eq!(
            door.idle(HERE, NOW, Some(deadline)).unwrap(),
            Idle::Until(deadline)
        );
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert_eq!(door.idle(HERE, NOW, None).unwrap(), Idle::Forever);
    }

    #[test]
    fn a_long_wait_lets_the_owner_look_around() {
        let control = Control::new();
        let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
        control.attach_looking(Arc::clone(&flag));
        control.open_input(true);
        let (door, _) = door(&control);
        let mut door = door.clock(ClockMode::Real, NonZeroU64::MIN);
        door.input(HERE, NOW, READY).unwrap();
        let start = Instant::now();
        let Idle::Until(reached) = door.idle(HERE, NOW, None).unwrap() else {
            panic!("a key can come");
        };
        assert!(start.elapsed() < Duration::from_secs(10));
        assert!(reached.0 >= NOW.0 + 400_000_000, "{reached}");
        assert!(flag.load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(control.take(), None);
    }

    #[test]
    fn a_request_ends_a_wait() {
        let control = Control::new();
        let (door, _) = door(&control);
        let mut door = door.clock(ClockMode::Real, NonZeroU64::MIN).exit_on(b"panic");
        say(&mut door, "kernel panic");
        let deadline = VirtualTime(NOW.0 + 60_000_000_000);
        let start = Instant::now();
        door.idle(HERE, NOW, Some(deadline)).unwrap();
        assert!(start.elapsed() < Duration::from_secs(10));
        assert_eq!(control.take(), Some(Request::TextSeen));
    }

    #[test]
    fn the_time_limit_is_met_exactly() {
        let control = Control::new();
        let (door, _) = door(&control);
        let limit = VirtualTime(5_000);
        let mut door = door
            .clock(ClockMode::Warp, NonZeroU64::new(10).unwrap())
            .stop_at(limit);
        assert_eq!(door.input(HERE, NOW, READY).unwrap(), None);
        assert_eq!(door.next_input(), Some((Icount(100 + 490), limit)));
        let far = VirtualTime(u64::MAX);
        assert_eq!(door.idle(HERE, NOW, Some(far)).unwrap(), Idle::Until(limit));
        assert_eq!(control.take(), None);
        assert_eq!(door.input(HERE, limit, READY).unwrap(), None);
        assert_eq!(control.take(), Some(Request::TimeUp));
        assert_eq!(door.next_input(), Some((HERE, limit)), "no further");
        assert_eq!(control.take(), None);
    }

    #[test]
    fn a_script_wakes_a_machine_that_waits() {
        let control = Control::new();
        let script = ConsoleScript::parse("wait #\nsend x\nwait never").unwrap();
        let (door, _) = door(&control);
        let mut door = door.script(script);
        door.input(HERE, NOW, READY).unwrap();
        say(&mut door, "#");
        let Idle::Until(due) = door.idle(HERE, NOW, None).unwrap() else {
            panic!("the script has a byte to send");
        };
        assert_eq!(door.next_input(), Some((Icount(due.0), due)));
        let key = Input::Console { port: 0, byte: b'x' };
        assert_eq!(door.input(HERE, due, READY).unwrap(), Some(key));
        assert_eq!(door.idle(HERE, due, None).unwrap(), Idle::Forever);
        door.finish(HERE, due, End::WaitsForever).unwrap();
        assert_eq!(
            control.script_pending().unwrap(),
            "waiting for \"never\" (line 3)"
        );
    }

    #[test]
    fn a_recorded_run_replays() {
        use icount::{LogReader, LogWriter, Recording, Replaying};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, [5; 5000]).unwrap();
        let image = super::super::DriveImage::open(&path, true, false).unwrap();
        let control = Control::new();
        let (door, _) = door(&control);
        let door = door.drives(Arc::new(Drives::new(vec![image])));
        control.type_byte(b'k');
        let log = folder.path().join("events");
        let mut recording = Recording::new(door, LogWriter::create(&log, NonZeroU64::MIN).unwrap());
        let key = recording.input(HERE, NOW, READY).unwrap();
        let block = recording.disk_block(HERE, NOW, 0, 1).unwrap();
        let shown = Effect::ConsoleOut { port: 0, byte: b'k' };
        recording.effect(HERE, NOW, 0, &shown).unwrap();
        recording
            .finish(Icount(200), VirtualTime(200), End::Stopped)
            .unwrap();
        std::fs::remove_file(&path).unwrap();

        let sink = Sink::default();
        let replaying = Replaying::new(Arc::new(LogReader::open(&log).unwrap()));
        let console = Console::new(Box::new(sink.clone()), None);
        let mut replaying = super::super::Shown::new(replaying, console);
        assert_eq!(replaying.input(HERE, NOW, READY).unwrap(), key);
        assert_eq!(replaying.disk_block(HERE, NOW, 0, 1).unwrap(), block);
        replaying.effect(HERE, NOW, 0, &shown).unwrap();
        replaying
            .finish(Icount(200), VirtualTime(200), End::Stopped)
            .unwrap();
        assert_eq!(*sink.taken.lock().unwrap(), b"k");
    }
}
