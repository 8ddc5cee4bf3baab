//! `tickback pack` and `tickback unpack`: a recording as one file, and back.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use icount::LogReader;
use machine::manifest::Manifest;
use snapshot::Checkpoints;

use crate::archive;
use crate::cut::{folder_of, must_be_new};
use crate::outcome::Outcome;
use crate::session::say;
use crate::values;

/// Make one file of a recording, to send or to keep
///
/// The file is a tar archive with a hash of each file in it. `tickback unpack` makes the recording again, on any
/// machine: neither images nor paths of this one are needed.
#[derive(clap::Args, Debug)]
pub struct PackArguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// The file to write; must not exist
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Make a recording of a packed one
#[derive(clap::Args, Debug)]
pub struct UnpackArguments {
    /// The packed recording
    #[arg(value_name = "FILE")]
    packed: PathBuf,
    /// Folder for the recording; must not exist
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
}

/// What is wrong with a recording that can be opened all the same.
fn notes(folder: &Path) -> Result<Vec<String>> {
    Manifest::read(folder)?;
    let log = LogReader::open(&machine::history::events_path(folder))?;
    let checkpoints = Checkpoints::open(folder)?;
    let recovered = log.recovered().map(|recovered| recovered.to_string());
    let damage = checkpoints.damage().iter().map(ToString::to_string);
    Ok(recovered.into_iter().chain(damage).collect())
}

pub fn pack(arguments: &PackArguments) -> Result<Outcome> {
    let output = &arguments.output;
    for note in notes(&arguments.recording)? {
        say(&note);
    }
    must_be_new(output)?;
    let failed = || format!("can't write {}", output.display());
    // Whole or not at all; a temporary file is for the user alone.
    let file = tempfile::NamedTempFile::new_in(folder_of(output)).with_context(failed)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let archived = archive::write(&arguments.recording, &mut out)?;
    out.flush().with_context(failed)?;
    let file = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)
        .with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist_noclobber(output).with_context(failed)?;
    say(&format!(
        "packed {} files, {} bytes, into {}; tickback unpack opens it",
        archived.files,
        archived.bytes,
        output.display()
    ));
    Ok(Outcome::Done)
}

pub fn unpack(arguments: &UnpackArguments) -> Result<Outcome> {
    let (packed, output) = (&arguments.packed, &arguments.output);
    must_be_new(output)?;
    let mut file = File::open(packed).with_context(|| format!("can't open {}", packed.display()))?;
    let made = || format!("can't make the folder {}", output.display());
    let temporary = tempfile::Builder::new()
        .prefix(".tickback-unpack")
        .tempdir_in(folder_of(output))
        .with_context(made)?;
    let folder = temporary.path().join("recording");
    let archived =
        archive::read(&mut file, &folder).with_context(|| format!("can't unpack {}", packed.display()))?;
    let notes =
        notes(&folder).with_context(|| format!("what is packed in {} can't be read", packed.display()))?;
    std::fs::rename(&folder, output).with_context(made)?;
    for note in notes {
        say(&note);
    }
    say(&format!(
        "unpacked {} files, {} bytes, into {}",
        archived.files,
        archived.bytes,
        output.display()
    ));
    Ok(Outcome::Done)
}
