//! The file of checkpoints: one record a snapshot, appended after everything that it names.
//!
//! ```text
//! file:    8 bytes "TBKCKPT\0" | u16 version | 6 bytes zero | records
//! record:  4 bytes "TBKR" | u8 kind | u8 codec of the state | u16 zero | u32 info length | u32 state length
//!          | 16 bytes checksum | info (postcard) | state as stored
//! kinds:   0 a checkpoint, info = `Info`; 1 dropped ones, info = their icounts, no state
//! codecs:  0 none; 1 zstd
//! ```
//!
//! Integers are little-endian. The checksum is the first half of the BLAKE3 of the 16 bytes before it and of the info; the state is
//! checked by the whole-state root when it's loaded. What follows the last whole record is ignored, and so are checkpoints
//! that name a place in the packs behind what is whole there. Reader and writer are both here.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use icount::{Icount, VirtualTime};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SnapshotError};
use crate::node::NodeSource;
use crate::pack::VERSION;
use crate::page::{Root, whole_root};
use crate::store::{PackEnd, Store, create_private};
use crate::tree::Tree;

/// The most bytes of CPU and device state in a snapshot.
pub const MAX_STATE: usize = 64 << 20;

/// The most bytes of a log position.
pub const MAX_LOG_POSITION: usize = 4096;

const FILE_NAME: &str = "checkpoints";
const FILE_MAGIC: [u8; 8] = *b"TBKCKPT\0";
const FILE_HEAD: usize = 16;
const MAGIC: [u8; 4] = *b"TBKR";
const HEAD: usize = 16;
const CHECKSUM: usize = 16;
const MAX_INFO: usize = 1 << 20;

/// A checkpoint as it stands in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Info {
    pub(crate) at: Icount,
    pub(crate) time: VirtualTime,
    pub(crate) tree: Root,
    pub(crate) root: Root,
    pub(crate) state_len: u64,
    pub(crate) keep: bool,
    /// Everything that the tree names lies before this.
    pub(crate) end: PackEnd,
    pub(crate) log_position: Vec<u8>,
}

/// What is known of a checkpoint without loading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Its position.
    pub at: Icount,
    /// The virtual time there.
    pub time: VirtualTime,
    /// The root of its pages.
    pub tree: Root,
    /// The root of its whole state ([`whole_root`]): what a replay compares.
    pub root: Root,
    /// Whether retention must leave it.
    pub keep: bool,
    /// Bytes of its CPU and device state.
    pub state_len: u64,
}

/// A checkpoint, loaded.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Position, time and roots.
    pub info: CheckpointInfo,
    /// Its pages; the nodes of the tree are loaded when first needed, pages by [`PageRef::load`](crate::PageRef::load).
    pub tree: Tree,
    /// The serialised CPU and device state, checked against the root.
    pub state: Vec<u8>,
    /// Where the log stood, as the recorder's caller gave it.
    pub log_position: Vec<u8>,
}

/// The checkpoints of a recording, ascending. Clones share everything; of a live recording the list grows.
#[derive(Clone)]
pub struct Checkpoints(Arc<Shared>);

struct Shared {
    path: PathBuf,
    file: File,
    store: Store,
    list: RwLock<Vec<Entry>>,
    damage: Vec<SnapshotError>,
}

#[derive(Clone)]
struct Entry {
    info: Info,
    /// Where the record begins, and its state.
    record: u64,
    state: u64,
    stored: usize,
    packed: bool,
}

impl Info {
    fn public(&self) -> CheckpointInfo {
        let Self {
            at,
            time,
            tree,
            root,
            keep,
            state_len,
            ..
        } = *self;
        CheckpointInfo {
            at,
            time,
            tree,
            root,
            keep,
            state_len,
        }
    }
}

impl Checkpoints {
    /// Opens the checkpoints of the recording in `dir`, up to the last whole one. Damage of files that leaves some
    /// usable is no error here: see [`damage`](Self::damage).
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE_NAME);
        let file = File::open(&path).map_err(SnapshotError::io("open", &path))?;
        let (mut list, mut damage) = (Vec::new(), Vec::new());
        if let Err(error) = scan(&file, &path, &mut list) {
            match error {
                SnapshotError::Damaged { offset, .. } if offset > 0 => damage.push(error),
                _ => return Err(error),
            }
        }
        let needed = list.iter().map(|e: &Entry| e.info.end).max();
        let (store, whole) = Store::open_until(dir, needed)?;
        list.retain(|e| e.info.end <= whole);
        damage.extend(store.damage().iter().cloned());
        Ok(Self(Arc::new(Shared {
            path,
            file,
            store,
            list: RwLock::new(list),
            damage,
        })))
    }

    /// What was found wrong on opening: the checkpoints listed are whole all the same, and those that aren't are not listed.
    pub fn damage(&self) -> &[SnapshotError] {
        &self.0.damage
    }

    /// The store of the pages.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The number of checkpoints.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there's none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, ascending.
    pub fn list(&self) -> Vec<CheckpointInfo> {
        self.read().iter().map(|e| e.info.public()).collect()
    }

    /// The last one at or below `at`.
    pub fn at_or_below(&self, at: Icount) -> Option<CheckpointInfo> {
        let list = self.read();
        let above = list.partition_point(|e| e.info.at <= at);
        above.checked_sub(1).map(|i| list[i].info.public())
    }

    /// The one at exactly `at`.
    pub fn at(&self, at: Icount) -> Option<CheckpointInfo> {
        self.at_or_below(at).filter(|c| c.at == at)
    }

    /// Loads the checkpoint at exactly `at`.
    pub fn load(&self, at: Icount) -> Result<Checkpoint> {
        let shared = &*self.0;
        let entry = {
            let list = self.read();
            let found = list.binary_search_by_key(&at, |e| e.info.at);
            found
                .map(|i| list[i].clone())
                .map_err(|_| SnapshotError::NoCheckpoint {
                    at,
                    path: shared.path.clone(),
                })?
        };
        let damaged = |what: &str| SnapshotError::damaged(&shared.path, entry.record, what);
        let mut state = vec![0; entry.stored];
        shared
            .file
            .read_exact_at(&mut state, entry.state)
            .map_err(SnapshotError::io("read", &shared.path))?;
        if entry.packed {
            state = zstd::bulk::decompress(&state, entry.info.state_len as usize)
                .map_err(|_| damaged("the machine state doesn't decompress"))?;
        }
        if whole_root(entry.info.tree, &state) != entry.info.root {
            return Err(damaged("the machine state fails its checksum"));
        }
        let source: Arc<dyn NodeSource> = Arc::new(shared.store.clone());
        Ok(Checkpoint {
            info: entry.info.public(),
            tree: Tree::stored(entry.info.tree, &source),
            state,
            log_position: entry.info.log_position,
        })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<Entry>> {
        self.0.list.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Vec<Entry>> {
        self.0.list.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn scan(file: &File, path: &Path, list: &mut Vec<Entry>) -> Result<()> {
    let size = file
        .metadata()
        .map_err(SnapshotError::io("read the size of", path))?
        .len();
    let read = |at: u64, len: usize| {
        if size.saturating_sub(at) < len as u64 {
            return Err(SnapshotError::damaged(
                path,
                at,
                "the file ends in the middle of a record",
            ));
        }
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, at)
            .map_err(SnapshotError::io("read", path))?;
        Ok(bytes)
    };
    let head = read(0, FILE_HEAD)?;
    if head[..8] != FILE_MAGIC {
        return Err(SnapshotError::damaged(
            path,
            0,
            "it doesn't begin as a file of checkpoints",
        ));
    }
    let found = u16::from_le_bytes([head[8], head[9]]);
    if found != VERSION {
        return Err(SnapshotError::Version {
            path: path.to_path_buf(),
            found,
            known: VERSION,
        });
    }
    let mut at = FILE_HEAD as u64;
    while at < size {
        let damaged = |what: &str| SnapshotError::damaged(path, at, what);
        let torn = |error| match error {
            SnapshotError::Damaged { what, .. } => damaged(&what),
            other => other,
        };
        let head = read(at, HEAD + CHECKSUM).map_err(torn)?;
        let info_len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let stored = u32::from_le_bytes([head[12], head[13], head[14], head[15]]) as usize;
        if head[..4] != MAGIC || head[4] > 1 || head[5] > 1 || info_len > MAX_INFO || stored > MAX_STATE {
            return Err(damaged("no record begins here"));
        }
        let info_at = at + (HEAD + CHECKSUM) as u64;
        let info = read(info_at, info_len).map_err(torn)?;
        if checksum(&head[..HEAD], &info) != head[HEAD..] {
            return Err(damaged("the record fails its checksum"));
        }
        let state = info_at + info_len as u64;
        if size - state < stored as u64 {
            return Err(damaged("the file ends in the middle of a record"));
        }
        if head[4] == 0 {
            let info: Info = postcard::from_bytes(&info).map_err(|_| damaged("the record doesn't decode"))?;
            if info.state_len > MAX_STATE as u64 {
                return Err(damaged("the machine state is impossibly large"));
            }
            push(
                list,
                Entry {
                    info,
                    record: at,
                    state,
                    stored,
                    packed: head[5] == 1,
                },
            )
            .map_err(|()| damaged("the record is out of order"))?;
        } else {
            let gone: Vec<Icount> =
                postcard::from_bytes(&info).map_err(|_| damaged("the record doesn't decode"))?;
            list.retain(|e| !gone.contains(&e.info.at));
        }
        at = state + stored as u64;
    }
    Ok(())
}

/// Appends to the list; a second checkpoint at the same position takes the place of the first.
fn push(list: &mut Vec<Entry>, entry: Entry) -> Result<(), ()> {
    match list.last_mut() {
        Some(last) if last.info.at > entry.info.at => return Err(()),
        Some(last) if last.info.at == entry.info.at => *last = entry,
        _ => list.push(entry),
    }
    Ok(())
}

fn checksum(head: &[u8], info: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(head).update(info);
    let hash = hasher.finalize();
    std::array::from_fn(|i| hash.as_bytes()[i])
}

/// A state as it's stored: compressed if that's shorter.
pub(crate) struct StoredState {
    bytes: Vec<u8>,
    packed: bool,
}

impl StoredState {
    pub(crate) fn new(state: Vec<u8>, level: i32) -> Self {
        match zstd::bulk::compress(&state, level) {
            Ok(bytes) if bytes.len() < state.len() => Self { bytes, packed: true },
            _ => Self {
                bytes: state,
                packed: false,
            },
        }
    }
}

/// The appending side: owned by the one thread that writes.
pub(crate) struct CheckpointWriter {
    list: Checkpoints,
    file: File,
    end: u64,
    durable: bool,
}

impl CheckpointWriter {
    pub(crate) fn create(dir: &Path, store: Store, durable: bool) -> Result<Self> {
        let path = dir.join(FILE_NAME);
        let mut file = create_private(&path)?;
        let mut head = [0; FILE_HEAD];
        head[..8].copy_from_slice(&FILE_MAGIC);
        head[8..10].copy_from_slice(&VERSION.to_le_bytes());
        file.write_all(&head)
            .map_err(SnapshotError::io("write to", &path))?;
        let reader = File::open(&path).map_err(SnapshotError::io("open", &path))?;
        let shared = Shared {
            path,
            file: reader,
            store,
            list: RwLock::default(),
            damage: Vec::new(),
        };
        Ok(Self {
            list: Checkpoints(Arc::new(shared)),
            file,
            end: FILE_HEAD as u64,
            durable,
        })
    }

    pub(crate) fn list(&self) -> &Checkpoints {
        &self.list
    }

    /// Appends a checkpoint and puts it on the list.
    pub(crate) fn append(&mut self, info: Info, state: &StoredState) -> Result<()> {
        let StoredState { bytes, packed } = state;
        let record = self.end;
        let state = self.record(0, *packed, &encode(&info), bytes)?;
        let entry = Entry {
            info,
            record,
            state,
            stored: bytes.len(),
            packed: *packed,
        };
        let (at, path) = (entry.info.at, &self.list.0.path);
        push(&mut self.list.write(), entry).map_err(|()| SnapshotError::NoCheckpoint {
            at,
            path: path.clone(),
        })
    }

    /// Appends that the checkpoints at these positions are dropped, and takes them off the list.
    pub(crate) fn drop_all(&mut self, gone: &[Icount]) -> Result<()> {
        for gone in gone.chunks(10_000) {
            self.record(1, false, &encode(&gone), &[])?;
            self.list.write().retain(|e| !gone.contains(&e.info.at));
        }
        Ok(())
    }

    /// Where the state begins.
    fn record(&mut self, kind: u8, packed: bool, info: &[u8], state: &[u8]) -> Result<u64> {
        let mut out = Vec::with_capacity(HEAD + CHECKSUM + info.len() + state.len());
        out.extend(MAGIC);
        out.extend([kind, u8::from(packed), 0, 0]);
        out.extend((info.len() as u32).to_le_bytes());
        out.extend((state.len() as u32).to_le_bytes());
        out.extend(checksum(&out, info));
        out.extend_from_slice(info);
        let state_at = self.end + out.len() as u64;
        out.extend_from_slice(state);
        let path = &self.list.0.path;
        self.file
            .write_all(&out)
            .map_err(SnapshotError::io("append to", path))?;
        if self.durable {
            self.file.sync_data().map_err(SnapshotError::io("sync", path))?;
        }
        self.end += out.len() as u64;
        Ok(state_at)
    }
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // A plain struct into a growing vector: postcard has nothing to fail at, and an empty info fails its decoding.
    postcard::to_allocvec(value).unwrap_or_default()
}
