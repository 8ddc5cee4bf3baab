//! The manifest of a recording: what the machine was, and which program can replay it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::{Config, MODEL_VERSION};
use crate::error::MachineError;
use crate::host::read_text;

/// Version of the folder's layout.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of the longest manifest that is read: many times what the longest command line makes.
const LONGEST: u64 = 16 << 20;

const NAME: &str = "manifest.json";

fn hash(config: &Config) -> String {
    // Postcard of the same values is the same bytes; it can't fail for plain data.
    let bytes = postcard::to_stdvec(config).unwrap_or_default();
    blake3::hash(&bytes).to_hex().to_string()
}

/// The content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the folder's layout.
    pub format: u32,
    /// Version of guest-visible behaviour; only the same one replays.
    pub model: u32,
    /// The program that recorded, for people.
    pub program: String,
    /// The machine.
    pub config: Config,
    /// BLAKE3 of the machine's configuration: what decides the run must not change unseen.
    pub config_hash: String,
    /// What the user gave, for people: option to file name and BLAKE3 hash.
    pub origin: BTreeMap<String, String>,
}

impl Manifest {
    /// The manifest of a new recording by this program.
    pub fn new(config: Config, origin: BTreeMap<String, String>) -> Manifest {
        let program = concat!("tickback ", env!("CARGO_PKG_VERSION")).to_owned();
        Manifest {
            format: FORMAT_VERSION,
            model: MODEL_VERSION,
            program,
            config_hash: hash(&config),
            config,
            origin,
        }
    }

    /// Writes it into a recording's folder.
    ///
    /// # Errors
    /// The file can't be written, or is there already.
    pub fn write(&self, dir: &Path) -> Result<(), MachineError> {
        let path = dir.join(NAME);
        let file = |source| MachineError::File {
            path: path.clone(),
            source,
        };
        let text = serde_json::to_string_pretty(self).map_err(|e| MachineError::Recording(e.to_string()))?;
        let mut out = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(file)?;
        out.write_all(text.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .map_err(file)
    }

    /// Reads a recording's manifest. Another version is told apart from damage.
    ///
    /// # Errors
    /// No such file, damaged, or a layout that this program doesn't read.
    pub fn read(dir: &Path) -> Result<Manifest, MachineError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let path = dir.join(NAME);
        let text = read_text(&path, LONGEST).map_err(|source| MachineError::File {
            path: path.clone(),
            source,
        })?;
        let damaged = |e: serde_json::Error| {
            MachineError::Recording(format!(
                "{} is damaged ({e}); it is needed to read the recording",
                path.display()
            ))
        };
        let Version { format } = serde_json::from_str(&text).map_err(damaged)?;
        if format != FORMAT_VERSION {
            return Err(MachineError::Recording(format!(
                "{} says format {format}; this program reads format {FORMAT_VERSION}: use the tickback that recorded it",
                path.display()
            )));
        }
        let manifest: Manifest = serde_json::from_str(&text).map_err(damaged)?;
        if hash(&manifest.config) != manifest.config_hash {
            return Err(MachineError::Recording(format!(
                "{} is damaged: the machine's configuration isn't the one that was recorded",
                path.display()
            )));
        }
        manifest.config.check()?;
        Ok(manifest)
    }

    /// Whether this program's machine computes what the recorder's did.
    ///
    /// # Errors
    /// Says which versions there are and what to do.
    pub fn check_model(&self) -> Result<(), MachineError> {
        if self.model == MODEL_VERSION {
            return Ok(());
        }
        Err(MachineError::Recording(format!(
            "it was recorded with model version {} ({}), this program has {MODEL_VERSION}: it can be read (info, log, \
             snapshots), but must be replayed by a tickback with the same model version",
            self.model, self.program
        )))
    }
}
