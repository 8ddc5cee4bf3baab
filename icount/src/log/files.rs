//! The files of a log: `events`, and for one that was shortened as it grew `events.NNNN`, without gaps.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::LogError;
use crate::file::open_regular_with;

/// The name of a file of a log.
pub fn suffixed(name: &str, segment: u32) -> String {
    format!("{name}.{segment:04}")
}

/// Open files by their numbers.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    open: BTreeMap<u32, File>,
}

impl Files {
    /// None yet of the log at `path`.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            open: BTreeMap::new(),
        }
    }

    /// Opens all that are there.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, LogError> {
        let mut files = Self::new(path);
        files.find(options)?;
        if files.open.is_empty() {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(LogError::io(path, "open it", source));
        }
        Ok(files)
    }

    /// Opens those that have come since.
    pub fn find(&mut self, options: &OpenOptions) -> Result<(), LogError> {
        let mut numbers = Vec::new();
        match fs::symlink_metadata(&self.path) {
            Ok(_) => numbers.push(0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(LogError::io(&self.path, "open it", error)),
        }
        let name = self.path.file_name().and_then(|name| name.to_str());
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(name) = name
            && let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new(".")))
        {
            numbers.extend(entries.filter_map(|entry| {
                let entry = entry.ok()?.file_name();
                let digits = entry.to_str()?.strip_prefix(name)?.strip_prefix('.')?;
                let number = digits.parse().ok()?;
                (number > 0 && suffixed(name, number) == *entry.to_str()?).then_some(number)
            }));
        }
        numbers.sort_unstable();
        for (index, &number) in numbers.iter().enumerate() {
            let expected = numbers[0] + index as u32;
            if number != expected {
                return Err(LogError::Missing {
                    path: self.path_of(expected),
                });
            }
            if self.open.contains_key(&number) {
                continue;
            }
            let path = self.path_of(number);
            let file =
                open_regular_with(&path, options).map_err(|source| LogError::io(&path, "open it", source))?;
            self.open.insert(number, file);
        }
        Ok(())
    }

    /// Where a file is.
    pub fn path_of(&self, segment: u32) -> PathBuf {
        if segment == 0 {
            return self.path.clone();
        }
        let name = self
            .path
            .file_name()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default();
        self.path.with_file_name(suffixed(&name, segment))
    }

    /// A file and its path.
    pub fn get(&self, segment: u32) -> Result<(&File, PathBuf), LogError> {
        let path = self.path_of(segment);
        match self.open.get(&segment) {
            Some(file) => Ok((file, path)),
            None => Err(LogError::Missing { path }),
        }
    }

    /// Whether there is such a file.
    pub fn has(&self, segment: u32) -> bool {
        self.open.contains_key(&segment)
    }

    /// The number of the first one.
    pub fn first(&self) -> Option<u32> {
        self.open.first_key_value().map(|(number, _)| *number)
    }

    /// Takes in a file.
    pub fn add(&mut self, segment: u32, file: File) {
        self.open.insert(segment, file);
    }

    /// Removes the files before `segment` from the folder, the first one first. What can't be removed stays.
    pub fn remove_before(&mut self, segment: u32) -> Result<(), LogError> {
        while let Some(first) = self.first().filter(|first| *first < segment) {
            let path = self.path_of(first);
            fs::remove_file(&path).map_err(|source| LogError::io(&path, "remove it", source))?;
            self.open.remove(&first);
        }
        Ok(())
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        let len = |file: &File| file.metadata().map_or(0, |metadata| metadata.len());
        self.open.values().map(len).sum()
    }
}
