//! Doors of a history besides the live and the replaying one.

use std::sync::Arc;

use icount::{
    Display, Door, DoorError, Effect, End, Icount, Idle, Input, LogPosition, LogReader, Ready, VirtualTime,
};
use snapshot::Written;

/// A live door of which nothing passes, to the guest or from it, before what was there at power-on is on disk. The guest runs
/// meanwhile.
pub(crate) struct Gated<D> {
    door: D,
    /// Until it is open.
    written: Option<Written>,
    /// An input that came before.
    held: Option<Input>,
}

impl<D: Door> Gated<D> {
    pub fn new(door: D, written: Written) -> Gated<D> {
        Gated {
            door,
            written: Some(written),
            held: None,
        }
    }

    fn open(&mut self) -> Result<(), DoorError> {
        if let Some(written) = &self.written {
            written.first().map_err(|error| DoorError::Host {
                action: "recording what is in memory at power-on".into(),
                source: std::io::Error::other(error),
            })?;
            self.written = None;
        }
        Ok(())
    }
}

impl<D: Door> Door for Gated<D> {
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError> {
        if let Effect::ConsoleOut { .. } = effect {
            self.open()?;
        }
        self.door.effect(at, time, hart, effect)
    }
    fn send(&mut self, port: u8, frame: &[u8]) {
        // If this fails, the recorder says so; frames get lost.
        if self.open().is_ok() {
            self.door.send(port, frame);
        }
    }
    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError> {
        if self.held.is_none() {
            match self.door.input(at, time, ready) {
                Ok(None) => return Ok(None),
                Ok(input) => self.held = input,
                Err(error) => return Err(error),
            }
        }
        self.open()?;
        Ok(self.held.take())
    }
    fn wants_display(&self, at: Icount, time: VirtualTime) -> bool {
        self.door.wants_display(at, time)
    }
    fn display(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>) {
        self.door.display(at, time, display);
    }
    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        if self.held.is_some() {
            None
        } else {
            self.door.next_input()
        }
    }
    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        if self.held.is_some() {
            return Ok(Idle::Until(now));
        }
        self.door.idle(at, now, deadline)
    }
    fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        self.door.disk_block(at, time, drive, block)
    }
    fn inject(&mut self, at: Icount, time: VirtualTime, input: &Input) -> Result<(), DoorError> {
        self.open()?;
        self.door.inject(at, time, input)
    }
    fn progress(&mut self, at: Icount, time: VirtualTime, tick: bool) -> Result<(), DoorError> {
        self.door.progress(at, time, tick)
    }
    fn position(&self) -> LogPosition {
        self.door.position()
    }
    fn seek(&mut self, position: LogPosition) -> Result<(), DoorError> {
        self.door.seek(position)
    }
    fn finish(&mut self, at: Icount, time: VirtualTime, end: End) -> Result<(), DoorError> {
        self.door.finish(at, time, end)
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

#[cfg(test)]
mod tests {
    use icount::{Due, ScriptedDoor};
    use snapshot::{Recorder, RecorderOptions, Taken};

    use super::*;

    #[test]
    fn nothing_comes_in_before_power_on_is_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::create(folder.path(), RecorderOptions::default()).unwrap();
        let script = ScriptedDoor::new().typing(Due::At(Icount(1)), b"a");
        let mut door = Gated::new(script, recorder.written().clone());
        let checkpoints = recorder.checkpoints().clone();
        let ready = Ready {
            console: true,
            ..Ready::default()
        };
        let (at, time) = (Icount(1), VirtualTime(1));
        // What doesn't pass doesn't wait.
        assert_eq!(door.input(Icount(0), VirtualTime(0), ready).unwrap(), None);
        let waiting = std::thread::spawn(move || {
            let input = door.input(at, time, ready).unwrap();
            (input, checkpoints.len())
        });
        recorder
            .take(Taken {
                at: Icount(0),
                time: VirtualTime(0),
                dirty: Vec::new(),
                state: vec![1],
                log_position: vec![2],
                keep: true,
            })
            .unwrap();
        let (input, listed) = waiting.join().unwrap();
        assert_eq!(input, Some(Input::Console { port: 0, byte: b'a' }));
        assert_eq!(listed, 1);
    }

    #[test]
    fn nothing_comes_in_if_power_on_can_t_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(folder.path(), RecorderOptions::default()).unwrap();
        let script = ScriptedDoor::new().typing(Due::At(Icount(1)), b"a");
        let mut door = Gated::new(script, recorder.written().clone());
        drop(recorder);
        let ready = Ready {
            console: true,
            ..Ready::default()
        };
        let input = door.input(Icount(1), VirtualTime(1), ready);
        assert!(matches!(input, Err(DoorError::Host { .. })), "{input:?}");
        // It isn't lost, and comes again.
        assert_eq!(
            door.idle(Icount(1), VirtualTime(1), None).unwrap(),
            Idle::Until(VirtualTime(1))
        );
    }
}
