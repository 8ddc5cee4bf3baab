//! The recording door: a live door whose inputs are logged before anybody sees them, and whose
//! machine's effects are logged behind.

use crate::{
    Display, Door, DoorError, Effect, End, Icount, Idle, Input, LogPosition, LogWriter, Ready, VirtualTime,
};

/// Wraps any live door.
///
/// When the log can't be written, calls fail with the state as it was: an input that the live door
/// gave out is held and comes again, effects stay in memory. The caller pauses the guest and makes
/// the same call again.
#[derive(Debug)]
pub struct Recording<L> {
    live: L,
    log: LogWriter,
    /// An input that the live door gave out and that is not in the log yet.
    held: Option<Input>,
    /// The same for a base disk block.
    held_block: Option<(u8, u64, Vec<u8>)>,
    finished: bool,
}

impl<L: Door> Recording<L> {
    /// Records what passes `live` into `log`.
    #[must_use]
    pub const fn new(live: L, log: LogWriter) -> Self {
        Self {
            live,
            log,
            held: None,
            held_block: None,
            finished: false,
        }
    }

    /// The live door.
    pub const fn live(&mut self) -> &mut L {
        &mut self.live
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &LogWriter {
        &self.log
    }

    /// The log, to be gone on with in a new file, or shortened.
    pub const fn log_mut(&mut self) -> &mut LogWriter {
        &mut self.log
    }

    /// Writes everything that was taken in, so that a reader of the log sees it (before going back
    /// into what was just recorded).
    ///
    /// # Errors
    /// The log can't be written; nothing is lost.
    pub fn flush(&mut self) -> Result<(), DoorError> {
        Ok(self.log.flush()?)
    }
}

impl<L: Door> Door for Recording<L> {
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError> {
        self.log.has_room()?;
        self.live.effect(at, time, hart, effect)?;
        Ok(self.log.effect(at, time, hart, effect)?)
    }

    fn send(&mut self, port: u8, frame: &[u8]) {
        self.live.send(port, frame);
    }

    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError> {
        self.log.drain()?;
        if self.held.is_none() {
            // This is asked at every boundary, and hardly ever is there one.
            match self.live.input(at, time, ready) {
                Ok(None) => return Ok(None),
                Ok(input) => self.held = input,
                Err(error) => return Err(error),
            }
        }
        let Some(input) = &self.held else {
            return Ok(None);
        };
        if !ready.takes(input) {
            return Ok(None);
        }
        self.log.input(at, time, input)?;
        Ok(self.held.take())
    }

    fn wants_display(&self, at: Icount, time: VirtualTime) -> bool {
        self.live.wants_display(at, time)
    }

    fn display(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>) {
        self.live.display(at, time, display);
    }

    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        if self.held.is_some() {
            None
        } else {
            self.live.next_input()
        }
    }

    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        self.log.drain()?;
        if self.held.is_some() {
            return Ok(Idle::Until(now));
        }
        self.live.idle(at, now, deadline)
    }

    fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        if let Some(data) = self.log.logged_disk_block(drive, block)? {
            return Ok(data);
        }
        let data = match self.held_block.take() {
            Some((held_drive, held, data)) if (held_drive, held) == (drive, block) => data,
            _ => self.live.disk_block(at, time, drive, block)?,
        };
        if let Err(error) = self.log.disk_block(at, time, drive, block, &data) {
            self.held_block = Some((drive, block, data));
            return Err(error.into());
        }
        Ok(data)
    }

    fn inject(&mut self, at: Icount, time: VirtualTime, input: &Input) -> Result<(), DoorError> {
        self.log.drain()?;
        self.live.inject(at, time, input)?;
        Ok(self.log.input(at, time, input)?)
    }

    fn progress(&mut self, at: Icount, time: VirtualTime, tick: bool) -> Result<(), DoorError> {
        if tick {
            self.log.progress(at, time)?;
        } else {
            self.log.drain()?;
        }
        self.live.progress(at, time, tick)
    }

    fn position(&self) -> LogPosition {
        self.log.position()
    }

    fn seek(&mut self, _position: LogPosition) -> Result<(), DoorError> {
        Err(DoorError::Refused {
            door: "recording",
            what: "go to another position",
        })
    }

    fn finish(&mut self, at: Icount, time: VirtualTime, end: End) -> Result<(), DoorError> {
        if !self.finished {
            self.log.end(at, time, end)?;
            self.finished = true;
        }
        self.live.finish(at, time, end)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::{Body, Due, Event, LogReader, ScriptedDoor};

    const READY: Ready = Ready {
        console: true,
        key: true,
        virtio_console: true,
        frames: 1,
    };

    fn noise(n: u64) -> Effect {
        Effect::Dma {
            write: true,
            addr: n,
            len: 1,
            digest: crate::digest(&n.to_le_bytes()),
        }
    }

    fn full<T: std::fmt::Debug>(result: Result<T, DoorError>) {
        assert!(matches!(result, Err(DoorError::LogFull(_))), "{result:?}");
    }

    #[test]
    fn a_full_disk_loses_nothing_and_delivers_nothing_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let log = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
        let image = vec![9; BLOCK];
        let live = ScriptedDoor::new()
            .typing(Due::At(Icount(1)), b"ab")
            .drive(0, image);
        let mut door = Recording::new(live, log);
        let (at, time) = (Icount(1), VirtualTime(1));
        let key = |byte| Input::Console { port: 0, byte };

        door.log.fill_disk(true);
        // The live door gave the byte out; the guest has not seen it.
        full(door.input(at, time, READY));
        full(door.input(at, time, READY));
        assert_eq!(door.position(), LogPosition::default());
        assert_eq!(
            door.idle(at, time, Some(VirtualTime(9))).unwrap(),
            Idle::Until(time)
        );
        assert_eq!(door.next_input(), None);
        full(door.disk_block(at, time, 0, 0));
        full(door.inject(at, time, &Input::Reset));
        full(
            door.progress(at, time, true)
                .and_then(|()| door.finish(at, time, End::Stopped)),
        );
        door.log.fill_disk(false);
        assert_eq!(door.input(at, time, READY).unwrap(), Some(key(b'a')));

        // Effects are taken in while there is memory, and told where the machine can pause.
        door.log.fill_disk(true);
        let mut effects = 0;
        while door.effect(at, time, 0, &noise(effects)).is_ok() {
            effects += 1;
        }
        assert!(effects > 4000, "{effects}");
        full(door.effect(at, time, 0, &noise(effects)));
        full(door.input(at, time, READY));
        full(door.idle(at, time, None));
        full(door.progress(at, time, false));
        assert_eq!(door.position(), LogPosition { inputs: 1, effects });
        door.log.fill_disk(false);
        assert_eq!(door.input(at, time, READY).unwrap(), Some(key(b'b')));
        assert_eq!(door.input(at, time, READY).unwrap(), None);
        door.effect(at, time, 0, &noise(effects)).unwrap();
        door.inject(at, time, &Input::Reset).unwrap();
        assert_eq!(door.disk_block(at, time, 0, 0).unwrap(), [9; BLOCK]);

        door.log.fill_disk(true);
        full(door.finish(at, time, End::Stopped));
        door.log.fill_disk(false);
        door.finish(at, time, End::Stopped).unwrap();
        door.finish(at, time, End::Stopped).unwrap();

        let reader = LogReader::open(&path).unwrap();
        assert_eq!(reader.recovered(), None);
        let events: Vec<Event> = reader.events_from(at).unwrap().map(Result::unwrap).collect();
        let mut expected = vec![Body::Input(key(b'a'))];
        expected.extend((0..effects).map(|n| Body::Effect(noise(n))));
        expected.push(Body::Input(key(b'b')));
        expected.push(Body::Effect(noise(effects)));
        expected.push(Body::Input(Input::Reset));
        let block = Input::DiskBlock {
            drive: 0,
            block: 0,
            data: vec![9; BLOCK],
        };
        expected.push(Body::Input(block));
        assert!(events.iter().map(|e| &e.body).eq(&expected));
    }

    const BLOCK: usize = crate::BLOCK_SIZE;
}
