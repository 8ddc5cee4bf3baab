//! Image files as drives. Raw images only: byte N of the file is byte N of the disk.
//!
//! Images are opened read-only unless their drive is write-through. What the guest writes stays in the machine's
//! overlay; the owner of a write-through run hands it on with [`Drives::write_block`]. Blocks have
//! [`BLOCK_SIZE`] bytes; the last one ends in zeros if the image does not fill it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use icount::{BLOCK_SIZE, DoorError};
use rustix::fs::{FlockOperation, flock};

use super::error::HostError;
use super::file::open_file;
use crate::machine::Machine;

const SECTOR: u64 = 512;

/// One image.
#[derive(Debug)]
pub struct DriveImage {
    path: PathBuf,
    file: File,
    len: u64,
    read_only: bool,
    write_through: bool,
}

impl DriveImage {
    /// Opens an image. `read_only` is what the guest will be told; with `write_through` its writes can be handed
    /// on to the file, which is then locked against other users of the same kind.
    ///
    /// # Errors
    /// It can't be opened, is empty or no file, or is in use.
    pub fn open(path: &Path, read_only: bool, write_through: bool) -> Result<Self, HostError> {
        let unfit = |why| HostError::Drive {
            path: path.into(),
            why,
        };
        if read_only && write_through {
            return Err(unfit("ro and write-through exclude each other"));
        }
        let failed = |source| HostError::File {
            action: if write_through { "open for writing" } else { "open" },
            path: path.into(),
            source,
        };
        let mut file = open_file(path, OpenOptions::new().read(true).write(write_through)).map_err(failed)?;
        // Also the size of a block device, of which the metadata say 0.
        let len = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if len == 0 {
            return Err(unfit("it is empty; make it larger, with truncate -s 1G"));
        }
        if write_through && flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(unfit("another run writes through to it; end that first"));
        }
        Ok(Self {
            path: path.into(),
            file,
            len,
            read_only,
            write_through,
        })
    }

    /// Size in sectors of 512 bytes, a last incomplete one included.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        self.len.div_ceil(SECTOR)
    }

    /// Whether the guest is told that it can't write.
    #[must_use]
    pub const fn read_only(&self) -> bool {
        self.read_only
    }

    /// Whether the guest's writes go on to the file.
    #[must_use]
    pub const fn write_through(&self) -> bool {
        self.write_through
    }

    /// Where block `block` lies in the file, and how much of it does.
    fn extent(&self, block: u64) -> Option<(u64, usize)> {
        let start = block.checked_mul(BLOCK_SIZE as u64)?;
        let rest = self.len.checked_sub(start).filter(|rest| *rest > 0)?;
        Some((start, rest.min(BLOCK_SIZE as u64) as usize))
    }

    fn error(&self, action: &str, block: u64, source: io::Error) -> DoorError {
        DoorError::Host {
            action: format!("{action} block {block} of {}", self.path.display()),
            source,
        }
    }
}

/// The images of a machine, by drive number.
#[derive(Debug, Default)]
pub struct Drives(Vec<DriveImage>);

impl Drives {
    /// Drive 0 first.
    #[must_use]
    pub const fn new(images: Vec<DriveImage>) -> Self {
        Self(images)
    }

    /// The images.
    #[must_use]
    pub fn images(&self) -> &[DriveImage] {
        &self.0
    }

    fn extent(&self, drive: u8, block: u64) -> Result<(&DriveImage, u64, usize), DoorError> {
        self.0
            .get(usize::from(drive))
            .and_then(|image| image.extent(block).map(|(start, len)| (image, start, len)))
            .ok_or(DoorError::NoDiskBlock { drive, block })
    }

    /// A block of an image.
    ///
    /// # Errors
    /// There is no such block, or the file can't be read (it was cut off since it was opened, for example).
    pub fn read_block(&self, drive: u8, block: u64) -> Result<Vec<u8>, DoorError> {
        let (image, start, len) = self.extent(drive, block)?;
        let mut data = vec![0; BLOCK_SIZE];
        image
            .file
            .read_exact_at(&mut data[..len], start)
            .map_err(|source| image.error("reading", block, source))?;
        Ok(data)
    }

    /// Hands a guest's write on to the file, if the drive is write-through; nothing otherwise. What would lie past
    /// the image's end is left out.
    ///
    /// # Errors
    /// There is no such block, or the file can't be written.
    pub fn write_block(&self, drive: u8, block: u64, data: &[u8; BLOCK_SIZE]) -> Result<(), DoorError> {
        let (image, start, len) = self.extent(drive, block)?;
        if !image.write_through {
            return Ok(());
        }
        image
            .file
            .write_all_at(&data[..len], start)
            .map_err(|source| image.error("writing", block, source))
    }
}

impl Drives {
    /// Hands on what the guest has written since this was last called. To be called now and then, whatever the
    /// drives are: the machine keeps a note of each write until then.
    ///
    /// # Errors
    /// As [`write_block`](Self::write_block).
    pub fn write_through(&self, machine: &mut Machine) -> Result<(), DoorError> {
        let written: BTreeSet<(u8, u64)> = machine.sys.disks.take_written().into_iter().collect();
        for (drive, block) in written {
            if let Some(data) = machine.sys.disks.block(drive, block) {
                self.write_block(drive, block, data)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(folder: &Path, len: usize) -> PathBuf {
        let path = folder.join("disk.img");
        let content: Vec<u8> = (0..len).map(|i| (i / 7) as u8 | 1).collect();
        std::fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn the_tail_is_padded_and_nothing_lies_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = image(folder.path(), 4096 + 700);
        let image = DriveImage::open(&path, true, false).unwrap();
        assert_eq!(image.sectors(), 10);
        let drives = Drives::new(vec![image]);
        let content = std::fs::read(&path).unwrap();
        assert_eq!(drives.read_block(0, 0).unwrap(), content[..4096]);
        let tail = drives.read_block(0, 1).unwrap();
        assert_eq!(tail[..700], content[4096..]);
        assert_eq!(tail[700..], [0; 4096 - 700]);
        for (drive, block) in [(0, 2), (0, u64::MAX), (1, 0)] {
            assert!(matches!(
                drives.read_block(drive, block),
                Err(DoorError::NoDiskBlock { .. })
            ));
        }
    }

    #[test]
    fn an_image_that_shrinks_is_an_error_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = image(folder.path(), 8192);
        let drives = Drives::new(vec![DriveImage::open(&path, false, false).unwrap()]);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(5000)
            .unwrap();
        let error = drives.read_block(0, 1).unwrap_err();
        assert!(error.to_string().contains("disk.img"), "{error}");
    }

    #[test]
    fn only_write_through_reaches_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = image(folder.path(), 4096 + 100);
        let before = std::fs::read(&path).unwrap();
        let drives = Drives::new(vec![DriveImage::open(&path, false, false).unwrap()]);
        drives.write_block(0, 0, &[9; 4096]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let drives = Drives::new(vec![DriveImage::open(&path, false, true).unwrap()]);
        drives.write_block(0, 1, &[9; 4096]).unwrap();
        let after = std::fs::read(&path).unwrap();
        assert_eq!((after.len(), &after[..4096]), (4196, &before[..4096]));
        assert_eq!(after[4096..], [9; 100]);
        assert!(
            DriveImage::open(&path, false, true).is_err(),
            "the file is locked"
        );
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| DriveImage::open(path, false, false).unwrap_err().to_string();
        assert!(DriveImage::open(folder.path(), false, false).is_err());
        assert!(open(&folder.path().join("none")).contains("none"));
        assert!(open(&image(folder.path(), 0)).contains("empty"));
    }
}
