//! Doors of a history besides the live and the replaying one.

use std::sync::{Arc, Mutex, PoisonError};

use icount::{
    Display, Door, DoorError, Effect, End, Icount, Idle, Input, LogPosition, LogReader, Ready, VirtualTime,
};

/// A door behind a lock that is never contended.
pub(crate) struct Shared<D>(Arc<Mutex<D>>);

impl<D> Clone for Shared<D> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<D: Door> Shared<D> {
    pub fn new(door: D) -> Shared<D> {
        Shared(Arc::new(Mutex::new(door)))
    }

    pub fn with<T>(&self, f: impl FnOnce(&mut D) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<D: Door> Door for Shared<D> {
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError> {
        self.with(|d| d.effect(at, time, hart, effect))
    }
    fn send(&mut self, port: u8, frame: &[u8]) {
        self.with(|d| d.send(port, frame));
    }
    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError> {
        self.with(|d| d.input(at, time, ready))
    }
    fn wants_display(&self, at: Icount, time: VirtualTime) -> bool {
        self.with(|d| d.wants_display(at, time))
    }
    fn display(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>) {
        self.with(|d| d.display(at, time, display));
    }
    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        self.with(|d| d.next_input())
    }
    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        self.with(|d| d.idle(at, now, deadline))
    }
    fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        self.with(|d| d.disk_block(at, time, drive, block))
    }
    fn inject(&mut self, at: Icount, time: VirtualTime, input: &Input) -> Result<(), DoorError> {
        self.with(|d| d.inject(at, time, input))
    }
    fn progress(&mut self, at: Icount, time: VirtualTime, tick: bool) -> Result<(), DoorError> {
        self.with(|d| d.progress(at, time, tick))
    }
    fn position(&self) -> LogPosition {
        self.with(|d| d.position())
    }
    fn seek(&mut self, position: LogPosition) -> Result<(), DoorError> {
        self.with(|d| d.seek(position))
    }
    fn finish(&mut self, at: Icount, time: VirtualTime, end: End) -> Result<(), DoorError> {
        self.with(|d| d.finish(at, time, end))
    }
}

/// The door of a branch: nothing comes in; disk blocks come from the recording.
pub(crate) struct Severed(pub Option<Arc<LogReader>>);

impl Door for Severed {
    fn effect(&mut self, _: Icount, _: VirtualTime, _: u8, _: &Effect) -> Result<(), DoorError> {
        Ok(())
    }
    fn send(&mut self, _: u8, _: &[u8]) {}
    fn input(&mut self, _: Icount, _: VirtualTime, _: Ready) -> Result<Option<Input>, DoorError> {
        Ok(None)
    }
    fn wants_display(&self, _: Icount, _: VirtualTime) -> bool {
        false
    }
    fn display(&mut self, _: Icount, _: VirtualTime, _: Option<&Display>) {}
    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        None
    }
    fn idle(&mut self, _: Icount, _: VirtualTime, deadline: Option<VirtualTime>) -> Result<Idle, DoorError> {
        Ok(deadline.map_or(Idle::Forever, Idle::Until))
    }
    fn disk_block(&mut self, _: Icount, _: VirtualTime, drive: u8, block: u64) -> Result<Vec<u8>, DoorError> {
        let found = self
            .0
            .as_ref()
            .map(|log| log.disk_block(drive, block))
            .transpose()?
            .flatten();
        found.ok_or(DoorError::NoDiskBlock { drive, block })
    }
    fn inject(&mut self, _: Icount, _: VirtualTime, _: &Input) -> Result<(), DoorError> {
        Ok(())
    }
    fn progress(&mut self, _: Icount, _: VirtualTime, _: bool) -> Result<(), DoorError> {
        Ok(())
    }
    fn position(&self) -> LogPosition {
        LogPosition::default()
    }
    fn seek(&mut self, _: LogPosition) -> Result<(), DoorError> {
        Ok(())
    }
    fn finish(&mut self, _: Icount, _: VirtualTime, _: End) -> Result<(), DoorError> {
        Ok(())
    }
}
