//! Whether the disk has room for a recording that grows.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use machine::host::{Stopwatch, free_bytes};

/// The user is warned below this.
const LOW: u64 = 512 << 20;
/// Kept for the end of the recording: a last snapshot and the end of the log.
const RESERVE: u64 = 32 << 20;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Enough, or nothing new.
    Enough,
    /// So many bytes, which is told once.
    Low(u64),
    /// So many bytes, with which a recording should end.
    Out(u64),
}

impl Room {
    const fn level(self) -> u8 {
        match self {
            Self::Enough => 0,
            Self::Low(_) => 1,
            Self::Out(_) => 2,
        }
    }
}

/// Looks at the disk of a recording now and then.
pub struct DiskWatch {
    folder: PathBuf,
    watch: Stopwatch,
    looked: Cell<Option<Duration>>,
    told: Cell<Room>,
}

impl DiskWatch {
    /// Of the recording that is to be in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            watch: Stopwatch::start(),
            looked: Cell::new(None),
            told: Cell::new(Room::Enough),
        }
    }

    /// What is to be told now.
    pub fn look(&self) -> Room {
        let now = self.watch.elapsed();
        if self.looked.get().is_some_and(|looked| now - looked < LOOK) {
            return Room::Enough;
        }
        self.looked.set(Some(now));
        free_bytes(&self.folder).map_or(Room::Enough, |free| self.judge(free))
    }

    fn judge(&self, free: u64) -> Room {
        let room = match free {
            free if free < RESERVE => Room::Out(free),
            free if free < LOW => Room::Low(free),
            _ => Room::Enough,
        };
        if room.level() == 0 {
            self.told.set(room);
        }
        // A user who went on all the same has been told.
        if room.level() <= self.told.get().level() {
            return Room::Enough;
        }
        self.told.set(room);
        room
    }

    /// Where the recording is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// `12 MiB`.
pub fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_told_once() {
        let watch = DiskWatch::new(Path::new("/"));
        let told = |free: u64| watch.judge(free << 20);
        assert_eq!(told(10_000), Room::Enough);
        assert_eq!(told(500), Room::Low(500 << 20));
        assert_eq!(told(400), Room::Enough);
        assert_eq!(told(31), Room::Out(31 << 20));
        assert_eq!(told(30), Room::Enough);
        assert_eq!(told(9_000), Room::Enough);
        assert_eq!(told(20), Room::Out(20 << 20));
    }
}
