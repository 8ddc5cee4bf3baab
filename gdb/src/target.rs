//! The machine as gdbstub asks for it: registers, memory, breakpoints, threads. What a resume does is in `travel`.

use std::collections::BTreeMap;

use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps, MultiThreadSingleStep,
    MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps};
use gdbstub::target::ext::base::single_register_access::{SingleRegisterAccess, SingleRegisterAccessOps};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint,
    SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target as GdbTarget, TargetError, TargetResult};
use machine::cpu::Cpu;
use machine::icount::Icount;
use machine::snapshot::Replay;
use machine::{AddressKind, History, MachineError, Timeline};

use crate::arch::{General, Guest, Number, general};
use crate::console::Console;
use crate::inbox::Inbox;
use crate::numbers::grouped;
use crate::watches::Watches;

/// `EFAULT`, for memory that isn't there.
const FAULT: u8 = 14;
/// `EINVAL`, for registers that can't be written so.
const INVALID: u8 = 22;

/// Nothing that happens to a machine ends the session by itself.
pub(crate) type Never = std::convert::Infallible;

/// What gdb asked the machine to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Forward to a stop: of any hart, or only of those in the mask.
    Continue(u8),
    /// Forward until this hart has made a step.
    Step(u8),
    /// Forward as long as this hart is within start..end.
    Range(u8, u64, u64),
    /// Backward to a stop.
    ReverseContinue,
    /// To before the last step of this hart.
    ReverseStep(u8),
}

/// A machine with what gdb set for it.
pub(crate) struct Target<'a> {
    pub timeline: &'a mut Timeline<History>,
    pub inbox: &'a Inbox,
    pub console: Console,
    /// Breakpoints by address: how often set as software and as hardware ones.
    pub breakpoints: BTreeMap<u64, [u32; 2]>,
    pub watches: Watches,
    /// What to do when the stub is done with the packet.
    pub action: Option<Action>,
    /// The harts that the packet lets run by name.
    named: u8,
    /// The packet lets no others run.
    locked: bool,
    /// The hart of the last stop: what gdb means by any thread.
    pub stopped: u8,
    /// The hart whose memory gdb looked at last.
    pub looked: u8,
    /// A watchpoint was reported here, and the step that makes the access is still to be made (or undone).
    pub owed: Option<Icount>,
    /// Addresses that gdb names are physical.
    pub physical: bool,
    /// Whether the hint about stale registers was given.
    pub hinted: bool,
    /// Where the branch began that the machine is on, and how far it has been run.
    pub explored: Option<(Icount, Icount)>,
    /// The packet being read asks for any thread.
    any_thread: bool,
    /// The last byte was the `$` that begins a packet.
    begins: bool,
    xml: String,
}

impl<'a> Target<'a> {
    pub fn new(timeline: &'a mut Timeline<History>, inbox: &'a Inbox, console: Console) -> Target<'a> {
        let machine = timeline.machine().machine();
        let stopped = machine.current_hart();
        let xml = machine.cpu(0).map(Cpu::target_xml).unwrap_or_default();
        // Without a word about the system gdb takes it for Linux programs, and steps them by breakpoints.
        let xml = xml.replace("</architecture>", "</architecture>\n<osabi>none</osabi>");
        Target {
            timeline,
            inbox,
            console,
            breakpoints: BTreeMap::new(),
            watches: Watches::default(),
            action: None,
            named: 0,
            locked: false,
            stopped,
            looked: stopped,
            owed: None,
            physical: false,
            hinted: false,
            explored: None,
            any_thread: false,
            begins: false,
            xml,
        }
    }

    /// Looks at a byte before the stub gets it. gdb resumes "any thread" when it means the one that stopped, and
    /// the stub answers with the first of [`MultiThreadBase::list_active_threads`]; so while such a packet is
    /// handled, that list begins with the hart that stopped.
    pub fn sees(&mut self, byte: u8) {
        if std::mem::replace(&mut self.begins, byte == b'$') {
            self.any_thread = matches!(byte, b'H' | b'?');
        }
    }

    pub fn hart_count(&self) -> u8 {
        self.timeline.machine().machine().hart_count()
    }

    /// The hart whose turn it is, as far as it is known at a boundary.
    pub fn current(&self) -> u8 {
        self.timeline.machine().machine().current_hart()
    }

    pub fn cpu(&self, hart: u8) -> Option<&dyn Cpu> {
        self.timeline.machine().machine().cpu(hart)
    }

    /// How an address of gdb's is meant.
    pub fn kind(&self, hart: u8) -> AddressKind {
        if self.physical {
            AddressKind::Physical
        } else {
            AddressKind::Virtual(hart)
        }
    }

    /// Reads what is there from `addr` on: less than asked for where memory ends.
    pub fn read(&mut self, hart: u8, addr: u64, out: &mut [u8]) -> usize {
        let kind = self.kind(hart);
        let machine = self.timeline.machine_mut().machine_mut();
        let mut done = 0;
        while done < out.len() {
            let Some(at) = addr.checked_add(done as u64) else {
                break;
            };
            let n = ((4096 - at % 4096) as usize).min(out.len() - done);
            if !machine.debug_read(kind, at, &mut out[done..done + n]) {
                break;
            }
            done += n;
        }
        done
    }

    /// The physical address of what gdb calls `addr`, if memory is there.
    pub fn physical_address(&mut self, hart: u8, addr: u64) -> Option<u64> {
        let kind = self.kind(hart);
        let machine = self.timeline.machine_mut().machine_mut();
        let pa = match kind {
            AddressKind::Physical => addr,
            AddressKind::Virtual(hart) => machine.debug_translate(hart, addr)?,
        };
        machine
            .debug_read(AddressKind::Physical, pa, &mut [0])
            .then_some(pa)
    }

    /// A write of the debugger's: an input at a live end, a branch in history.
    fn write(
        &mut self,
        write: impl FnOnce(&mut machine::Machine) -> Result<(), MachineError>,
    ) -> TargetResult<(), Self> {
        let at = self.timeline.position();
        let history = self.timeline.machine_mut();
        if history.is_live() && history.branched_at().is_none() && at == history.end() {
            history.go_live().map_err(|e| self.refuse(&e))?;
        }
        let written = self.timeline.machine_mut().write(write);
        // What was saved here was saved without it.
        self.timeline.forget_from(at);
        match written {
            Ok(None) => Ok(()),
            Ok(Some(at)) => {
                let at = grouped(at.0);
                self.console.print(&format!(
                    "tickback: branched at {at}: from here on the machine goes its own way, without inputs. \
                     Going back before {at} returns to the recording.\n"
                ));
                Ok(())
            }
            Err(error) => Err(self.refuse(&error)),
        }
    }

    fn refuse(&self, error: &MachineError) -> TargetError<Never> {
        self.console.print(&format!("tickback: {}\n", chain(error)));
        TargetError::Errno(FAULT)
    }

    fn hart_of(&self, tid: Tid) -> TargetResult<u8, Self> {
        let hart = u8::try_from(tid.get() - 1).map_err(|_| TargetError::NonFatal)?;
        if hart < self.hart_count() {
            Ok(hart)
        } else {
            Err(TargetError::NonFatal)
        }
    }

    /// As [`Target::hart_of`], for requests that can't be refused: the hart that stopped.
    fn hart_or_stopped(&self, tid: Tid) -> u8 {
        self.hart_of(tid).unwrap_or(self.stopped)
    }

    fn write_one(&mut self, hart: u8, number: u32, value: &[u8]) -> TargetResult<(), Self> {
        let old = self.cpu(hart).and_then(|cpu| cpu.read_register(number));
        let old = old
            .filter(|old| old.len() == value.len())
            .ok_or(TargetError::Errno(INVALID))?;
        if old == value {
            return Ok(());
        }
        self.write(|machine| machine.debug_write_register(hart, number, value))?;
        // A register may hold less than it was given; one that holds what it held refused.
        let new = self.cpu(hart).and_then(|cpu| cpu.read_register(number));
        if new.as_ref() == Some(&old) {
            Err(TargetError::Errno(INVALID))
        } else {
            Ok(())
        }
    }

    /// The general registers of the hart that a stop names, to be sent along with the stop.
    pub fn stop_registers(&self, reason: &MultiThreadStopReason<u64>) -> Vec<(Number, Vec<u8>)> {
        let tid = match reason {
            MultiThreadStopReason::SignalWithThread { tid, .. }
            | MultiThreadStopReason::SwBreak(tid)
            | MultiThreadStopReason::HwBreak(tid)
            | MultiThreadStopReason::Watch { tid, .. }
            | MultiThreadStopReason::ReplayLog { tid: Some(tid), .. } => *tid,
            _ => return Vec::new(),
        };
        let Some(cpu) = self.cpu(self.hart_or_stopped(tid)) else {
            return Vec::new();
        };
        general(cpu)
            .filter_map(|n| Some((Number(n), cpu.read_register(n)?)))
            .collect()
    }
}

/// An error with what it comes from.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// gdb's name of a hart.
pub(crate) fn tid(hart: u8) -> Tid {
    Tid::MIN.saturating_add(hart.into())
}

impl GdbTarget for Target<'_> {
    type Arch = Guest;
    type Error = Never;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Target<'_> {
    fn read_registers(&mut self, registers: &mut General, tid: Tid) -> TargetResult<(), Self> {
        let cpu = self.cpu(self.hart_of(tid)?).ok_or(TargetError::NonFatal)?;
        for number in general(cpu) {
            registers
                .bytes
                .extend(cpu.read_register(number).unwrap_or_default());
        }
        Ok(())
    }

    fn write_registers(&mut self, registers: &General, tid: Tid) -> TargetResult<(), Self> {
        let hart = self.hart_of(tid)?;
        let cpu = self.cpu(hart).ok_or(TargetError::NonFatal)?;
        let mut rest = registers.bytes.as_slice();
        let mut values = Vec::new();
        for number in general(cpu) {
            let len = cpu.read_register(number).map_or(0, |old| old.len());
            let Some((value, after)) = rest.split_at_checked(len) else {
                break;
            };
            values.push((number, value.to_vec()));
            rest = after;
        }
        for (number, value) in values {
            self.write_one(hart, number, &value)?;
        }
        Ok(())
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, addr: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        let hart = self.hart_of(tid)?;
        self.looked = hart;
        // The stub adds up addresses; one that doesn't fit must not get there.
        if addr.checked_add(data.len() as u64).is_none() {
            return Err(TargetError::Errno(FAULT));
        }
        match self.read(hart, addr, data) {
            0 if !data.is_empty() => Err(TargetError::Errno(FAULT)),
            n => Ok(n),
        }
    }

    fn write_addrs(&mut self, addr: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        let hart = self.hart_of(tid)?;
        let kind = self.kind(hart);
        // All or nothing.
        let mut there = vec![0; data.len()];
        if self.read(hart, addr, &mut there) < data.len() {
            return Err(TargetError::Errno(FAULT));
        }
        self.write(|machine| machine.debug_write(kind, addr, data))
    }

    fn list_active_threads(&mut self, active: &mut dyn FnMut(Tid)) -> Result<(), Never> {
        let first = self.any_thread.then_some(self.stopped);
        first.map(tid).into_iter().for_each(&mut *active);
        let others = (0..self.hart_count()).filter(|hart| Some(*hart) != first);
        others.map(tid).for_each(active);
        Ok(())
    }

    fn is_thread_alive(&mut self, tid: Tid) -> Result<bool, Never> {
        Ok(self.hart_of(tid).is_ok())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Target<'_> {
    fn thread_extra_info(&self, tid: Tid, buf: &mut [u8]) -> Result<usize, Never> {
        let Ok(hart) = self.hart_of(tid) else { return Ok(0) };
        let waits = self.cpu(hart).is_some_and(Cpu::waiting);
        let text = format!("hart {hart}{}", if waits { ", waits" } else { "" });
        let n = text.len().min(buf.len());
        buf[..n].copy_from_slice(&text.as_bytes()[..n]);
        Ok(n)
    }
}

impl SingleRegisterAccess<Tid> for Target<'_> {
    fn read_register(&mut self, tid: Tid, register: Number, buf: &mut [u8]) -> TargetResult<usize, Self> {
        let cpu = self.cpu(self.hart_of(tid)?).ok_or(TargetError::NonFatal)?;
        let value = cpu.read_register(register.0).filter(|value| !value.is_empty());
        // Without a value the stub would end the session.
        let value = value.ok_or(TargetError::NonFatal)?;
        buf.get_mut(..value.len())
            .ok_or(TargetError::NonFatal)?
            .copy_from_slice(&value);
        Ok(value.len())
    }

    fn write_register(&mut self, tid: Tid, register: Number, value: &[u8]) -> TargetResult<(), Self> {
        let hart = self.hart_of(tid)?;
        self.write_one(hart, register.0, value)
    }
}

impl MultiThreadResume for Target<'_> {
    /// The machine runs when the stub is done with the packet.
    fn resume(&mut self) -> Result<(), Never> {
        let harts = if self.locked { self.named } else { u8::MAX };
        self.action.get_or_insert(Action::Continue(harts));
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Never> {
        self.action = None;
        self.named = 0;
        self.locked = false;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Never> {
        self.named |= 1u8.checked_shl(self.hart_or_stopped(tid).into()).unwrap_or(0);
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Target<'_> {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Never> {
        let hart = self.hart_or_stopped(tid);
        self.action.get_or_insert(Action::Step(hart));
        Ok(())
    }
}

impl MultiThreadRangeStepping for Target<'_> {
    fn set_resume_action_range_step(&mut self, tid: Tid, start: u64, end: u64) -> Result<(), Never> {
        let hart = self.hart_or_stopped(tid);
        self.action.get_or_insert(Action::Range(hart, start, end));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Target<'_> {
    /// Says whose stops count. No hart is held, since the schedule is recorded.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Never> {
        self.locked = true;
        Ok(())
    }
}

impl ReverseCont<Tid> for Target<'_> {
    fn reverse_cont(&mut self) -> Result<(), Never> {
        self.action = Some(Action::ReverseContinue);
        Ok(())
    }
}

impl ReverseStep<Tid> for Target<'_> {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), Never> {
        self.action = Some(Action::ReverseStep(self.hart_or_stopped(tid)));
        Ok(())
    }
}

impl Breakpoints for Target<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

/// The most breakpoints: gdb has what the user set, a stranger may send anything.
const MOST_BREAKPOINTS: usize = 1000;

impl Target<'_> {
    fn add_breakpoint(&mut self, addr: u64, hardware: usize) -> bool {
        if self.breakpoints.len() >= MOST_BREAKPOINTS && !self.breakpoints.contains_key(&addr) {
            return false;
        }
        let count = &mut self.breakpoints.entry(addr).or_default()[hardware];
        *count = count.saturating_add(1);
        true
    }

    fn remove_breakpoint(&mut self, addr: u64, hardware: usize) -> bool {
        let Some(counts) = self.breakpoints.get_mut(&addr) else {
            return false;
        };
        let found = counts[hardware] > 0;
        counts[hardware] = counts[hardware].saturating_sub(1);
        if *counts == [0, 0] {
            self.breakpoints.remove(&addr);
        }
        found
    }
}

impl SwBreakpoint for Target<'_> {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.add_breakpoint(addr, 0))
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.remove_breakpoint(addr, 0))
    }
}

impl HwBreakpoint for Target<'_> {
    fn add_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.add_breakpoint(addr, 1))
    }

    fn remove_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.remove_breakpoint(addr, 1))
    }
}

impl HwWatchpoint for Target<'_> {
    fn add_hw_watchpoint(&mut self, addr: u64, len: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let hart = self.looked;
        let mut watches = std::mem::take(&mut self.watches);
        let added = watches.add(addr, len, kind, |addr| self.physical_address(hart, addr));
        self.watches = watches;
        if !added {
            self.console.print(&format!(
                "tickback: {len} bytes at {addr:#x} can't be watched: no memory is mapped there for hart {hart} now\n"
            ));
        }
        Ok(added)
    }

    fn remove_hw_watchpoint(&mut self, addr: u64, len: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        Ok(self.watches.remove(addr, len, kind))
    }
}

impl TargetDescriptionXmlOverride for Target<'_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.xml.as_bytes().get(start..).unwrap_or_default();
        let n = rest.len().min(length).min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

impl MonitorCmd for Target<'_> {
    fn handle_monitor_cmd(&mut self, command: &[u8], _: ConsoleOutput<'_>) -> Result<(), Never> {
        let command = String::from_utf8_lossy(command).into_owned();
        self.console.open();
        self.inbox.begin_run();
        let text = self.monitor(&command);
        self.inbox.end_run();
        self.console.print(&text);
        self.console.close();
        Ok(())
    }
}
