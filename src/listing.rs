//! Writing listings to standard output, also into a pipe that closes early.

use std::io::{self, BufWriter, StdoutLock, Write};

use anyhow::{Context, Result};

/// Standard output, buffered.
pub struct Listing(BufWriter<StdoutLock<'static>>);

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The reader takes more.
    Listens,
    /// The reader (`head`, a pager) has gone away, which is no failure.
    Gone,
}

impl Listing {
    /// Of standard output.
    pub fn new() -> Self {
        Self(BufWriter::new(io::stdout().lock()))
    }

    /// Writes a line.
    pub fn line(&mut self, line: &str) -> Result<Reader> {
        let written = self
            .0
            .write_all(line.as_bytes())
            .and_then(|()| self.0.write_all(b"\n"));
        Self::reader(written)
    }

    /// Writes what is held, before others write to standard output.
    pub fn flush(&mut self) -> Result<Reader> {
        Self::reader(self.0.flush())
    }

    /// Writes what is held.
    pub fn end(mut self) -> Result<()> {
        Self::reader(self.0.flush()).map(|_| ())
    }

    fn reader(written: io::Result<()>) -> Result<Reader> {
        match written {
            Ok(()) => Ok(Reader::Listens),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(error) => Err(error).context("can't write to standard output"),
        }
    }
}
