//! Files that the user names, opened so that nothing waits: only what has a size can be a kernel, an image or a script.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens a regular file or a block device. Opening a pipe waits for whoever writes to it, perhaps for ever, and a character
/// device may have no end.
///
/// # Errors
/// It can't be opened, or is something else: that error says what.
pub fn open_file(path: &Path, options: &OpenOptions) -> io::Result<File> {
    // Looked at before it is opened: opening may be what waits, or what acts.
    let kind = std::fs::metadata(path)?.file_type();
    let what = if kind.is_file() || kind.is_block_device() {
        return options.open(path);
    } else if kind.is_dir() {
        "it is a folder; give a file"
    } else if kind.is_fifo() {
        "it is a pipe; give a file"
    } else {
        "it is neither a file nor a block device"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

/// Reads a text of at most `limit` bytes.
///
/// # Errors
/// Those of [`open_file`]; it can't be read; is longer; is no UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    open_file(path, OpenOptions::new().read(true))?
        .take(limit + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        let what = format!("it is longer than {limit} bytes");
        return Err(io::Error::new(ErrorKind::InvalidData, what));
    }
    Ok(text)
}

/// Bytes that the user may still write to the file system of a path, if it can be told.
#[must_use]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_a_size_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| read_text(path, 10).unwrap_err().to_string();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(said(&pipe).contains("a pipe"));
        assert!(said(folder.path()).contains("a folder"));
        assert!(said(Path::new("/dev/zero")).contains("neither"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(said(&link).contains("neither"));
        let file = folder.path().join("file");
        std::fs::write(&file, "0123456789").unwrap();
        assert_eq!(read_text(&file, 10).unwrap(), "0123456789");
        assert!(
            read_text(&file, 9)
                .unwrap_err()
                .to_string()
                .contains("longer than 9")
        );
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        assert!(said(&file).contains("longer than 10"));
    }
}
