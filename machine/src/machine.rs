//! The machine and its run loop: rule B of DESIGN section 4, in its order.
//!
//! ```text
//!   boundary N:  observe -> deadlines -> inputs -> end of slice -> interrupt check -> step N+1
//! ```
//!
//! `run` never does anything at a boundary before it has asked whether to observe there, and an engine gets a
//! budget that ends where the next thing must happen; so where a run is cut doesn't change what it computes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpu::Cpu;
use devices::{ALL_HARTS, Input as DeviceInput, InputKind, Power};
use icount::{Effect, End, Icount, Idle, Input, Ready, VIRTIO_CONSOLE, VirtualTime};

use crate::dispatch::{Came, execute};
use crate::engine::Engine;
use crate::error::MachineError;
use crate::figures::Figures;
use crate::schedule::Schedule;
use crate::state::Base;
use crate::stops::{Stop, Stops};
use crate::system::System;

/// The longest stretch of steps between looks at the door and at Ctrl-C.
const LONGEST: u64 = 1_000_000;

/// Notes for the user that are kept until they are taken.
const MOST_NOTES: usize = 16;

/// Why [`Machine::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// At the position asked for.
    Reached,
    /// A stop condition holds for the next step.
    Hit(Stop),
    /// There is no next step.
    End(End),
    /// The interrupt flag was set.
    Interrupted,
}

/// What [`Machine::scan`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Why it came back.
    pub stopped: Stopped,
    /// The last hit, and where.
    pub last: Option<(Icount, Stop)>,
    /// Number of hits.
    pub count: u64,
}

/// Whether a condition that holds right where the run starts stops it.
pub use snapshot::FirstStep;

/// What to do when a run ends in [`Stopped::End`] by a guest's reset: rebuilt by the board.
pub(crate) type Reset = Box<dyn FnMut(&mut System, &mut [Box<dyn Cpu>]) + Send>;

/// A whole machine.
pub struct Machine {
    pub(crate) harts: Vec<Box<dyn Cpu>>,
    pub(crate) sys: System,
    pub(crate) engine: Engine,
    pub(crate) schedule: Schedule,
    pub(crate) ended: Option<End>,
    pub(crate) reset: Reset,
    /// Page offsets that translated code asks about.
    asked: Vec<u16>,
    /// Whether boundary work was done at the present position: then it isn't the observe point.
    pub(crate) worked: bool,
    /// Pages as of the last snapshot taken or restored; what was written since is dirty.
    pub(crate) base: Base,
    /// Memory for copies of pages.
    pub(crate) spares: snapshot::Spares,
}

impl Machine {
    pub(crate) fn new(
        harts: Vec<Box<dyn Cpu>>,
        sys: System,
        engine: Engine,
        schedule: Schedule,
        reset: Reset,
    ) -> Machine {
        Machine {
            harts,
            sys,
            engine,
            schedule,
            ended: None,
            reset,
            asked: Vec::new(),
            worked: false,
            base: Base::default(),
            spares: snapshot::Spares::default(),
        }
    }

    /// Steps made since power-on.
    pub fn icount(&self) -> Icount {
        self.sys.at
    }

    /// Virtual time now.
    pub fn time(&self) -> VirtualTime {
        self.sys.time()
    }

    /// How the guest ended, if it did.
    pub fn ended(&self) -> Option<End> {
        self.ended
    }

    /// The hart whose turn it is.
    pub fn current_hart(&self) -> u8 {
        self.sys.current
    }

    /// The harts.
    pub fn hart(&self, index: u8) -> Option<&dyn Cpu> {
        self.harts.get(index as usize).map(|h| &**h)
    }

    /// Number of harts.
    pub fn hart_count(&self) -> u8 {
        self.harts.len() as u8
    }

    /// Puts another door in place of the present one, which is dropped.
    pub(crate) fn set_door(&mut self, door: Box<dyn icount::Door + Send>) {
        self.sys.door = door;
    }

    /// As [`Machine::set_door`]; yields the present one.
    pub(crate) fn replace_door(
        &mut self,
        door: Box<dyn icount::Door + Send>,
    ) -> Box<dyn icount::Door + Send> {
        std::mem::replace(&mut self.sys.door, door)
    }

    /// The door.
    pub(crate) fn door_mut(&mut self) -> &mut (dyn icount::Door + Send) {
        &mut *self.sys.door
    }

    pub(crate) fn door_position(&self) -> icount::LogPosition {
        self.sys.door.position()
    }

    pub(crate) fn seek_door(&mut self, position: icount::LogPosition) -> Result<(), MachineError> {
        Ok(self.sys.door.seek(position)?)
    }

    /// Tells a replaying door that this is the end.
    pub(crate) fn finish_replay(
        &mut self,
        at: Icount,
        time: VirtualTime,
        end: Option<End>,
    ) -> Result<(), MachineError> {
        Ok(self.sys.door.finish(at, time, end.unwrap_or(End::Stopped))?)
    }

    /// Tells the door how far the run is; `tick` about once a second of host time.
    ///
    /// # Errors
    /// The door's.
    pub fn progress(&mut self, tick: bool) -> Result<(), MachineError> {
        Ok(self.sys.door.progress(self.sys.at, self.sys.time(), tick)?)
    }

    /// What the engine did, if it translates.
    pub fn figures(&self) -> Option<Figures> {
        Some(Figures {
            jit: self.engine.stats()?,
            walks: self.sys.walks,
            translating: self.engine.translating(),
        })
    }

    /// A flag that makes [`Machine::run`] come back soon, at some boundary, when it is set.
    pub fn interrupt_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.sys.interrupt)
    }

    /// Whether the machine stands past the observe point of its boundary (it came to a stop after
    /// deadlines or inputs of the boundary were served).
    pub fn past_observe_point(&self) -> bool {
        self.worked
    }

    /// Runs to `until`, or to the first hit of `stops`.
    pub fn run(&mut self, until: Icount, stops: &Stops, first: FirstStep) -> Result<Stopped, MachineError> {
        let skip = (first == FirstStep::Skipped).then_some(self.sys.at);
        self.begin(stops, false, skip);
        self.go(until)
    }

    /// Runs to `until` without stopping for hits; yields the last hit below `until` and the number of hits.
    pub fn scan(&mut self, until: Icount, stops: &Stops) -> Result<Scanned, MachineError> {
        self.begin(stops, true, None);
        let stopped = self.go(until)?;
        Ok(Scanned {
            stopped,
            last: self.sys.watching.last,
            count: self.sys.watching.count,
        })
    }

    fn begin(&mut self, stops: &Stops, scan: bool, skip: Option<Icount>) {
        self.sys.watching.begin(stops, scan, skip);
        self.sys.memory.set_watches(stops.watches.clone());
        let mut offsets: Vec<u16> = stops.breakpoints.iter().map(|a| (a & 0xfff) as u16).collect();
        offsets.retain(|o| !self.asked.contains(o));
        if offsets.is_empty() {
            return;
        }
        // Offsets once asked about stay so: gdb takes its breakpoints out at every stop.
        if self.asked.len() + offsets.len() > 64 {
            self.asked.clear();
            offsets = stops.breakpoints.iter().map(|a| (a & 0xfff) as u16).collect();
        }
        self.asked.extend(offsets);
        self.asked.sort_unstable();
        self.asked.dedup();
        self.engine.set_breakpoints(&self.asked);
        self.engine.flush();
        self.sys.memory.forget_all_code();
        self.sys.straddlers.clear();
    }

    fn go(&mut self, until: Icount) -> Result<Stopped, MachineError> {
        self.sys.tell_again()?;
        loop {
            if let Some(end) = self.ended {
                return Ok(Stopped::End(end));
            }
            if self.sys.at >= until {
                return Ok(Stopped::Reached);
            }
            self.sys.called_off = false;
            if self.sys.interrupt.swap(false, Ordering::Relaxed) {
                return Ok(Stopped::Interrupted);
            }
            self.boundary()?;
            if self.ended.is_some() {
                continue;
            }
            if let Some(stop) = self.sys.watching.hit.take() {
                return Ok(Stopped::Hit(stop));
            }
            let Some(hart) = self.turn()? else { continue };
            if let Some(cause) = self.harts[hart].interrupt() {
                if let Some(stop) = self.hart_steps(hart) {
                    return Ok(Stopped::Hit(stop));
                }
                self.sys.tell(Effect::Interrupt { cause });
                let cpu = &mut self.harts[hart];
                cpu.take_interrupt(&mut self.sys, cause);
                cpu.retire(0, 1);
                // The controller that was told shows something else now; what is saved here must know.
                self.apply_pins();
                self.sys.at.0 += 1;
                self.worked = false;
                self.used(1);
                self.fail()?;
                continue;
            }
            if let Some(stop) = self.hart_steps(hart) {
                return Ok(Stopped::Hit(stop));
            }
            let budget = self.budget(until);
            self.sys.seen_deadline = self.sys.device_deadline;
            let before = self.sys.at;
            let came = execute(&mut self.engine, &mut *self.harts[hart], &mut self.sys, budget)?;
            let made = self.sys.at.0 - before.0;
            self.worked = (self.worked && made == 0) || (came == Came::Hit && self.sys.torn);
            self.used(made);
            if self.sys.watching.scan && self.sys.watching.hart == Some(hart as u8) && made > 0 {
                let last = Icount(self.sys.at.0 - 1);
                self.sys.watching.found(last, Stop::Hart(hart as u8));
            }
            self.apply_pins();
            self.fail()?;
            if came == Came::Hit
                && let Some(stop) = self.sys.watching.hit.take()
            {
                return Ok(Stopped::Hit(stop));
            }
        }
    }

    /// Steps were made of the slice. A lone hart's never ends, and so isn't counted.
    fn used(&mut self, steps: u64) {
        if self.harts.len() > 1 {
            self.schedule.used(steps);
        }
    }

    /// A stop for the step that `hart` is about to make, in a run that stops.
    fn hart_steps(&mut self, hart: usize) -> Option<Stop> {
        let watching = &mut self.sys.watching;
        let asked = watching.hart == Some(hart as u8) && !watching.scan;
        (asked && watching.skip != Some(self.sys.at)).then_some(Stop::Hart(hart as u8))
    }

    pub(crate) fn fail(&mut self) -> Result<(), MachineError> {
        match self.sys.failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Deadlines and inputs that are due, and what the step before asked of the board.
    fn boundary(&mut self) -> Result<(), MachineError> {
        self.sys.leave = false;
        self.apply_pins();
        if std::mem::take(&mut self.sys.shut_down) {
            self.note_shutdown();
        }
        loop {
            match self.sys.power {
                // It stays asked for: the state at this boundary is the same before and after.
                Some(Power::Off { code }) => {
                    self.sys.tell(Effect::PowerOff { code });
                    self.ended = Some(End::PowerOff(code));
                    return self.fail();
                }
                Some(Power::Reset) => {
                    self.sys.power = None;
                    self.sys.tell(Effect::Reset);
                    (self.reset)(&mut self.sys, &mut self.harts);
                    self.worked = true;
                }
                None => {}
            }
            self.deadlines();
            self.inputs()?;
            self.apply_pins();
            self.fail()?;
            // The reset button is an input, and takes effect at its boundary.
            if self.sys.power.is_none() {
                return Ok(());
            }
        }
    }

    /// What the user should hear of since the last call, oldest first.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.sys.notes.drain(..).collect()
    }

    /// Tells of a hart that shut itself down, with the state in which it did.
    fn note_shutdown(&mut self) {
        let hart = self.sys.current;
        let cpu = &self.harts[usize::from(hart)];
        let mut text = format!("hart {hart} shut down (triple fault) at icount {}:", self.sys.at);
        for info in cpu.registers().iter().filter(|info| info.bits <= 64) {
            let mut word = [0; 8];
            let bytes = cpu.read_register(info.number).unwrap_or_default();
            let len = bytes.len().min(8);
            word[..len].copy_from_slice(&bytes[..len]);
            text += &format!(" {}={:#x}", info.name, u64::from_le_bytes(word));
        }
        self.note(text);
    }

    /// Something that the user should know.
    pub(crate) fn note(&mut self, text: String) {
        if self.sys.notes.len() < MOST_NOTES {
            self.sys.notes.push_back(text);
        }
    }

    /// What is due by time at this boundary.
    pub(crate) fn deadlines(&mut self) {
        self.worked |= self.sys.fire_due();
        let now = self.sys.time();
        for cpu in &mut self.harts {
            if cpu.deadline().is_some_and(|d| d <= now.0) {
                cpu.tick(now.0);
                self.worked = true;
            }
        }
    }

    fn inputs(&mut self) -> Result<(), MachineError> {
        let (at, time) = (self.sys.at, self.sys.time());
        if self.sys.door.wants_display(at, time) {
            let display = self.display();
            self.sys.door.display(at, time, display.as_ref());
        }
        loop {
            let wiring = &self.sys.wiring;
            let ready = Ready {
                console: self.accepts(wiring.consoles.first(), InputKind::Console),
                key: self.accepts(wiring.keyboard.as_ref(), InputKind::Key),
                virtio_console: self.accepts(wiring.virtio_console.as_ref(), InputKind::Console),
                frames: (0u8..).zip(&wiring.networks).fold(0, |ready, (port, device)| {
                    ready | u8::from(self.accepts(Some(device), InputKind::Frame(port))) << port
                }),
            };
            let (at, time) = (self.sys.at, self.sys.time());
            // Hardly ever is there one, and the answer is too large to be moved for nothing.
            let input = match self.sys.door.input(at, time, ready) {
                Ok(None) => return Ok(()),
                Ok(Some(input)) => input,
                Err(error) => return Err(error.into()),
            };
            self.worked = true;
            self.deliver(input);
        }
    }

    /// Delivers an input that has been logged.
    pub(crate) fn deliver(&mut self, input: Input) {
        match input {
            Input::Console { port, byte } => {
                let wiring = &self.sys.wiring;
                let device = match port {
                    VIRTIO_CONSOLE => wiring.virtio_console,
                    _ => wiring.consoles.get(usize::from(port)).copied(),
                };
                self.hand_over(device, &DeviceInput::Console(byte));
            }
            Input::Key { code, down } => {
                self.hand_over(self.sys.wiring.keyboard, &DeviceInput::Key { code, down });
            }
            Input::Frame { port, data } => {
                let device = self.sys.wiring.networks.get(usize::from(port)).copied();
                self.hand_over(device, &DeviceInput::Frame { port, data });
            }
            Input::DiskBlock { drive, block, data } => {
                if let Ok(bytes) = data.as_slice().try_into() {
                    self.sys.disks.keep(drive, block, bytes);
                }
            }
            Input::Debugger(write) => self.debugger_write(&write),
            Input::Reset => self.sys.power = Some(Power::Reset),
        }
    }

    fn hand_over(&mut self, device: Option<usize>, input: &DeviceInput) {
        if let Some(index) = device {
            self.sys.with_device(index, |d, cx| d.input(cx, input));
            self.sys.after_device();
        }
    }

    fn accepts(&self, device: Option<&usize>, kind: InputKind) -> bool {
        device
            .and_then(|index| self.sys.devices[*index].device.as_ref())
            .is_some_and(|d| d.accepts(kind))
    }

    pub(crate) fn apply_pins(&mut self) {
        for change in std::mem::take(&mut self.sys.pins) {
            let pin = (self.sys.wiring.pin)(change.pin);
            if change.hart == ALL_HARTS {
                self.harts
                    .iter_mut()
                    .for_each(|cpu| cpu.set_pin(pin, change.level));
            } else if let Some(cpu) = self.harts.get_mut(change.hart as usize) {
                cpu.set_pin(pin, change.level);
            }
        }
        for (addr, len) in std::mem::take(&mut self.sys.dma_writes) {
            self.harts.iter_mut().for_each(|cpu| cpu.dma_wrote(addr, len));
        }
    }

    /// The hart that makes the next step; `None` if time passed instead, and the boundary begins again.
    fn turn(&mut self) -> Result<Option<usize>, MachineError> {
        let current = self.sys.current as usize;
        let gives_up = std::mem::take(&mut self.sys.end_slice);
        if self.harts.len() == 1 && !self.harts[current].waiting() {
            // One hart has no turns: its slice would end wherever a run happens to be cut.
            return Ok(Some(current));
        }
        if !(self.harts[current].waiting() || gives_up || self.schedule.is_over()) {
            return Ok(Some(current));
        }
        let count = self.harts.len();
        let next = (1..=count)
            .map(|i| (current + i) % count)
            .find(|i| !self.harts[*i].waiting());
        let Some(next) = next else { return self.idle() };
        self.schedule.begin_slice();
        self.worked = true;
        if next != current {
            self.harts[current].switched_away();
            self.sys.tell(Effect::HartSwitch { to: next as u8 });
            self.sys.current = next as u8;
            self.fail()?;
        }
        Ok(Some(next))
    }

    /// Every hart waits.
    fn idle(&mut self) -> Result<Option<usize>, MachineError> {
        let deadline = self.next_deadline();
        let (at, now) = (self.sys.at, self.sys.time());
        match self.sys.door.idle(at, now, deadline)? {
            Idle::Until(time) => {
                self.sys.clock.skip_to(at, time);
                self.worked = true;
            }
            Idle::Forever => self.ended = Some(End::WaitsForever),
            Idle::Ended => self.ended = Some(End::Stopped),
        }
        Ok(None)
    }

    fn next_deadline(&self) -> Option<VirtualTime> {
        let harts = self
            .harts
            .iter()
            .filter_map(|cpu| cpu.deadline().map(VirtualTime));
        harts.chain(self.sys.device_deadline).min()
    }

    /// Steps until the next thing must happen.
    fn budget(&self, until: Icount) -> u64 {
        let at = self.sys.at.0;
        let mut end = until.0.min(at + LONGEST);
        if let Some(deadline) = self.next_deadline() {
            end = end.min(self.sys.clock.due(deadline).0);
        }
        if let Some((input, _)) = self.sys.door.next_input() {
            end = end.min(input.0);
        }
        if self.harts.len() > 1 {
            end = end.min(at.saturating_add(self.schedule.left()));
        }
        end.saturating_sub(at).max(1)
    }
}
