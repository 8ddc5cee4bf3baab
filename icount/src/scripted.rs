//! A live door without a host: console input from a list, disks from memory, idle time that jumps.
//! For tests, and for runs that need nothing else.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    BLOCK_SIZE, Display, Door, DoorError, Effect, End, Icount, Idle, Input, LogPosition, Ready, VirtualTime,
};

/// When a scripted byte may be delivered, at the earliest: the UART must have room too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this boundary; or when every hart waits and no deadline is left.
    At(Icount),
    /// At this virtual time; harts that wait are woken for it.
    Time(VirtualTime),
}

/// Console bytes for port 0, in order, and images of drives.
#[derive(Clone, Debug, Default)]
pub struct ScriptedDoor {
    script: VecDeque<(Due, u8)>,
    /// The first byte of the script is due whatever it says: the guest waits for it.
    awaited: bool,
    drives: BTreeMap<u8, Vec<u8>>,
    /// What came out of port 0.
    output: Vec<u8>,
    position: LogPosition,
}

impl ScriptedDoor {
    /// A door through which nothing comes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes to the end of the script.
    #[must_use]
    pub fn typing(mut self, due: Due, bytes: &[u8]) -> Self {
        self.script.extend(bytes.iter().map(|&byte| (due, byte)));
        self
    }

    /// Gives a drive its image; what lies past its end reads as zeros.
    #[must_use]
    pub fn drive(mut self, drive: u8, image: Vec<u8>) -> Self {
        self.drives.insert(drive, image);
        self
    }

    /// What came out of port 0 so far.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    fn is_due(&self, due: Due, at: Icount, time: VirtualTime) -> bool {
        self.awaited
            || match due {
                Due::At(position) => position <= at,
                Due::Time(moment) => moment <= time,
            }
    }
}

impl Door for ScriptedDoor {
    fn effect(
        &mut self,
        _at: Icount,
        _time: VirtualTime,
        _hart: u8,
        effect: &Effect,
    ) -> Result<(), DoorError> {
        if let Effect::ConsoleOut { port: 0, byte } = effect {
            self.output.push(*byte);
        }
        self.position.effects += 1;
        Ok(())
    }

    fn send(&mut self, _port: u8, _frame: &[u8]) {}

    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError> {
        let Some(&(due, byte)) = self.script.front() else {
            return Ok(None);
        };
        if !ready.console || !self.is_due(due, at, time) {
            return Ok(None);
        }
        self.script.pop_front();
        self.awaited = false;
        self.position.inputs += 1;
        Ok(Some(Input::Console { port: 0, byte }))
    }

    fn wants_display(&self, _: Icount, _: VirtualTime) -> bool {
        false
    }

    fn display(&mut self, _: Icount, _: VirtualTime, _: Option<&Display>) {}

    /// `None`, as of any live door: whether the UART will have room is not known.
    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        None
    }

    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        let typed = match self.script.front() {
            Some(&(due, _)) if self.is_due(due, at, now) => None,
            Some(&(Due::Time(moment), _)) => Some(moment),
            _ => None,
        };
        if let Some(next) = deadline.into_iter().chain(typed).min() {
            return Ok(Idle::Until(next.max(now)));
        }
        // Without a deadline only the script can go on; a byte that was due and not taken is one
        // for which the UART has no room, and never will.
        if self
            .script
            .front()
            .is_none_or(|&(due, _)| self.is_due(due, at, now))
        {
            return Ok(Idle::Forever);
        }
        self.awaited = true;
        Ok(Idle::Until(now))
    }

    fn disk_block(
        &mut self,
        _at: Icount,
        _time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        let image = self
            .drives
            .get(&drive)
            .ok_or(DoorError::NoDiskBlock { drive, block })?;
        let start = usize::try_from(block)
            .ok()
            .and_then(|block| block.checked_mul(BLOCK_SIZE));
        let rest = start.and_then(|start| image.get(start..)).unwrap_or(&[]);
        let mut data = rest[..rest.len().min(BLOCK_SIZE)].to_vec();
        data.resize(BLOCK_SIZE, 0);
        Ok(data)
    }

    fn inject(&mut self, _: Icount, _: VirtualTime, _: &Input) -> Result<(), DoorError> {
        self.position.inputs += 1;
        Ok(())
    }

    fn progress(&mut self, _: Icount, _: VirtualTime, _: bool) -> Result<(), DoorError> {
        Ok(())
    }

    fn position(&self) -> LogPosition {
        self.position
    }

    fn seek(&mut self, _position: LogPosition) -> Result<(), DoorError> {
        Err(DoorError::Refused {
            door: "scripted",
            what: "go to another position",
        })
    }

    fn finish(&mut self, _: Icount, _: VirtualTime, _: End) -> Result<(), DoorError> {
        Ok(())
    }
}
