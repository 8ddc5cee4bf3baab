//! Opening the files of a recording. Its folder may come from anybody: a pipe in a file's place would have the reader wait for
//! ever, and a device would act on being opened, or never end.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens a regular file to read it.
///
/// # Errors
/// It can't be opened, or is something else: that error says so.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_regular_with(path, OpenOptions::new().read(true))
}

/// Opens a regular file.
///
/// # Errors
/// As [`open_regular`].
pub fn open_regular_with(path: &Path, options: &OpenOptions) -> io::Result<File> {
    // Looked at before it is opened: opening may be what waits, or what acts.
    if std::fs::metadata(path)?.file_type().is_file() {
        return options.open(path);
    }
    let what = "it is no regular file, as those of a recording are";
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let said = |path: &str| open_regular(Path::new(path)).unwrap_err().to_string();
        assert!(said("/dev/zero").contains("no regular file"));
        assert!(said("/").contains("no regular file"));
        assert!(said("/no/such/file").contains("No such file"));
        assert!(open_regular(Path::new(file!().trim_start_matches("icount/"))).is_ok());
    }
}
