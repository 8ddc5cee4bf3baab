//! The file of checkpoints: one record a snapshot, appended after everything that it names.
//!
//! ```text
//! file:    8 bytes "TBKCKPT\0" | u16 version | u16 zero | u32 first pack | records
//! record:  4 bytes "TBKR" | u8 kind | u8 codec of the state | u16 zero | u32 info length | u32 state length
//!          | 16 bytes checksum | info (postcard) | state as stored
//! kinds:   0 a checkpoint, info = `Info`; 1 dropped ones, info = their icounts, no state
//! codecs:  0 none; 1 zstd
//! ```
//!
//! Integers are little-endian. The checksum is the first half of the BLAKE3 of the 16 bytes before it and of the info; the state is
//! checked by the whole-state root when it's loaded. What follows the last whole record is ignored, and so are checkpoints
//! that name a place in the packs behind what is whole there. Reader and writer are both here.
//!
//! Version 1 is that of a file whose first pack is 0: all that was ever written is there. When old snapshots are thrown away, the blocks
//! that are still needed are appended to the packs again, and then the file takes the place of a new one (version 2) that names
//! the first pack still needed. The snapshot of icount 0, listed or dropped, is what was in memory at power-on, which a guest's
//! reset needs: it stays.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use icount::{Icount, VirtualTime, open_regular};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SnapshotError};
use crate::node::NodeSource;
use crate::page::{Root, whole_root};
use crate::store::{PackEnd, Store, create_private};
use crate::tree::Tree;

/// The most bytes of CPU and device state in a snapshot.
pub const MAX_STATE: usize = 64 << 20;

/// The most bytes of a log position.
pub const MAX_LOG_POSITION: usize = 4096;

const FILE_NAME: &str = "checkpoints";
/// What is to take its place, while it is written.
const NEW_NAME: &str = "checkpoints.new";
/// The newest version; 1 if the first pack is 0.
const VERSION: u16 = 2;
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
    store: Store,
    list: RwLock<List>,
    damage: Vec<SnapshotError>,
}

struct List {
    /// The file in which the entries stand.
    file: Arc<File>,
    entries: Vec<Entry>,
    /// The one of icount 0, if it was dropped.
    power_on: Option<Entry>,
    first_pack: u32,
}

impl List {
    fn of(file: File) -> Self {
        Self {
            file: Arc::new(file),
            entries: Vec::new(),
            power_on: None,
            first_pack: 0,
        }
    }

    fn drop_all(&mut self, gone: &[Icount]) {
        let first = self.entries.first().filter(|e| e.info.at == Icount(0));
        if let Some(first) = first.filter(|_| gone.contains(&Icount(0))) {
            self.power_on = Some(first.clone());
        }
        self.entries.retain(|e| !gone.contains(&e.info.at));
    }
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
        let file = open_regular(&path).map_err(SnapshotError::io("open", &path))?;
        let (mut list, mut damage) = (List::of(file), Vec::new());
        if let Err(error) = scan(&path, &mut list) {
            match error {
                SnapshotError::Damaged { offset, .. } if offset > 0 => damage.push(error),
                _ => return Err(error),
            }
        }
        let needed = list.entries.iter().map(|e: &Entry| e.info.end).max();
        let (store, whole) = Store::open_until(dir, list.first_pack, needed)?;
        list.entries.retain(|e| e.info.end <= whole);
        damage.extend(store.damage().iter().cloned());
        Ok(Self(Arc::new(Shared {
            path,
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
        self.read().entries.len()
    }

    /// Whether there's none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, ascending.
    pub fn list(&self) -> Vec<CheckpointInfo> {
        self.read().entries.iter().map(|e| e.info.public()).collect()
    }

    /// The first one at or above `at`.
    pub fn at_or_above(&self, at: Icount) -> Option<CheckpointInfo> {
        let list = self.read();
        let below = list.entries.partition_point(|e| e.info.at < at);
        list.entries.get(below).map(|e| e.info.public())
    }

    /// Where the log stood at the checkpoint at exactly `at`, as the recorder's caller gave it.
    pub fn log_position(&self, at: Icount) -> Option<Vec<u8>> {
        let list = self.read();
        let found = list.entries.binary_search_by_key(&at, |e| e.info.at).ok()?;
        Some(list.entries[found].info.log_position.clone())
    }

    /// The last one at or below `at`.
    pub fn at_or_below(&self, at: Icount) -> Option<CheckpointInfo> {
        let list = self.read();
        let above = list.entries.partition_point(|e| e.info.at <= at);
        above.checked_sub(1).map(|i| list.entries[i].info.public())
    }

    /// The one at exactly `at`.
    pub fn at(&self, at: Icount) -> Option<CheckpointInfo> {
        self.at_or_below(at).filter(|c| c.at == at)
    }

    /// Loads the checkpoint at exactly `at`.
    pub fn load(&self, at: Icount) -> Result<Checkpoint> {
        let (file, entry) = {
            let list = self.read();
            let found = list.entries.binary_search_by_key(&at, |e| e.info.at);
            let entry = found
                .map(|i| list.entries[i].clone())
                .map_err(|_| SnapshotError::NoCheckpoint {
                    at,
                    path: self.0.path.clone(),
                })?;
            (Arc::clone(&list.file), entry)
        };
        self.load_entry(&file, &entry)
    }

    /// Loads what was in memory at power-on, if the recording has it: the checkpoint of icount 0, which stays when it
    /// is dropped from the list.
    pub fn power_on(&self) -> Result<Option<Checkpoint>> {
        let (file, entry) = {
            let list = self.read();
            let first = list.entries.first().filter(|e| e.info.at == Icount(0));
            match first.or(list.power_on.as_ref()) {
                Some(entry) => (Arc::clone(&list.file), entry.clone()),
                None => return Ok(None),
            }
        };
        self.load_entry(&file, &entry).map(Some)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Bytes of the records at `keep`.
    pub(crate) fn record_bytes(&self, keep: &[Icount]) -> u64 {
        let list = self.read();
        let kept = list.entries.iter().filter(|e| keep.contains(&e.info.at));
        kept.map(|e| e.state - e.record + e.stored as u64).sum()
    }

    /// Bytes of packs and of the file of checkpoints.
    pub fn bytes(&self) -> u64 {
        let file = Arc::clone(&self.read().file);
        file.metadata().map_or(0, |m| m.len()) + self.0.store.bytes()
    }

    /// The tree of a root, whose nodes are loaded from the store.
    pub(crate) fn tree(&self, root: Root) -> Tree {
        let source: Arc<dyn NodeSource> = Arc::new(self.0.store.clone());
        Tree::stored(root, &source)
    }

    fn load_entry(&self, file: &File, entry: &Entry) -> Result<Checkpoint> {
        let shared = &*self.0;
        let damaged = |what: &str| SnapshotError::damaged(&shared.path, entry.record, what);
        let mut state = vec![0; entry.stored];
        file.read_exact_at(&mut state, entry.state)
            .map_err(SnapshotError::io("read", &shared.path))?;
        if entry.packed {
            state = zstd::bulk::decompress(&state, entry.info.state_len as usize)
                .map_err(|_| damaged("the machine state doesn't decompress"))?;
        }
        if whole_root(entry.info.tree, &state) != entry.info.root {
            return Err(damaged("the machine state fails its checksum"));
        }
        Ok(Checkpoint {
            info: entry.info.public(),
            tree: self.tree(entry.info.tree),
            state,
            log_position: entry.info.log_position.clone(),
        })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, List> {
        self.0.list.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, List> {
        self.0.list.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn scan(path: &Path, list: &mut List) -> Result<()> {
    let file = Arc::clone(&list.file);
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
    if !(1..=VERSION).contains(&found) {
        return Err(SnapshotError::Version {
            path: path.to_path_buf(),
            found,
            known: VERSION,
        });
    }
    list.first_pack = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
    if head[10..12] != [0; 2] || (found == 1) != (list.first_pack == 0) {
        return Err(SnapshotError::damaged(path, 0, "its head is impossible"));
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
                &mut list.entries,
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
            list.drop_all(&gone);
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

fn file_head(first_pack: u32) -> [u8; FILE_HEAD] {
    let mut head = [0; FILE_HEAD];
    let version = if first_pack == 0 { 1 } else { VERSION };
    head[..8].copy_from_slice(&FILE_MAGIC);
    head[8..10].copy_from_slice(&version.to_le_bytes());
    head[12..].copy_from_slice(&first_pack.to_le_bytes());
    head
}

/// The bytes of a record, and where in them the state begins.
fn encode_record(kind: u8, packed: bool, info: &[u8], state: &[u8]) -> (Vec<u8>, u64) {
    let mut out = Vec::with_capacity(HEAD + CHECKSUM + info.len() + state.len());
    out.extend(MAGIC);
    out.extend([kind, u8::from(packed), 0, 0]);
    out.extend((info.len() as u32).to_le_bytes());
    out.extend((state.len() as u32).to_le_bytes());
    out.extend(checksum(&out, info));
    out.extend_from_slice(info);
    let state_at = out.len() as u64;
    out.extend_from_slice(state);
    (out, state_at)
}

impl CheckpointWriter {
    pub(crate) fn create(dir: &Path, store: Store, durable: bool) -> Result<Self> {
        let path = dir.join(FILE_NAME);
        let mut file = create_private(&path)?;
        file.write_all(&file_head(0))
            .map_err(SnapshotError::io("write to", &path))?;
        let reader = File::open(&path).map_err(SnapshotError::io("open", &path))?;
        let shared = Shared {
            path,
            store,
            list: RwLock::new(List::of(reader)),
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
        push(&mut self.list.write().entries, entry).map_err(|()| SnapshotError::NoCheckpoint {
            at,
            path: path.clone(),
        })
    }

    /// Appends that the checkpoints at these positions are dropped, and takes them off the list.
    pub(crate) fn drop_all(&mut self, gone: &[Icount]) -> Result<()> {
        for gone in gone.chunks(10_000) {
            self.record(1, false, &encode(&gone), &[])?;
            self.list.write().drop_all(gone);
        }
        Ok(())
    }

    /// Where the state begins.
    fn record(&mut self, kind: u8, packed: bool, info: &[u8], state: &[u8]) -> Result<u64> {
        let (out, state_at) = encode_record(kind, packed, info, state);
        let path = &self.list.0.path;
        if let Err(source) = self.file.write_all(&out) {
            // Best effort: what stays of a torn record is left out on open.
            let _ = self.file.set_len(self.end);
            return Err(SnapshotError::io("append to", path)(source));
        }
        if self.durable {
            self.file.sync_data().map_err(SnapshotError::io("sync", path))?;
        }
        let state_at = self.end + state_at;
        self.end += out.len() as u64;
        Ok(state_at)
    }

    /// Puts a file in place of this one that has only what is listed, and says that packs begin with `first_pack`: everything
    /// that is still needed lies behind it and before `end`, on the disk.
    pub(crate) fn compact(&mut self, first_pack: u32, end: PackEnd) -> Result<()> {
        let shared = &*self.list.0;
        let (old, mut entries, mut power_on) = {
            let list = self.list.read();
            (
                Arc::clone(&list.file),
                list.entries.clone(),
                list.power_on.clone(),
            )
        };
        let path = shared.path.with_file_name(NEW_NAME);
        let io = |doing| SnapshotError::io(doing, &path);
        // One that an earlier failure left.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io("remove")(e)),
            _ => {}
        }
        let mut file = create_private(&path)?;
        let mut at = FILE_HEAD as u64;
        let mut write = |file: &mut File, bytes: &[u8]| -> Result<u64> {
            file.write_all(bytes)
                .map_err(SnapshotError::io("write to", &path))?;
            at += bytes.len() as u64;
            Ok(at - bytes.len() as u64)
        };
        let written = (|| {
            file.write_all(&file_head(first_pack)).map_err(io("write to"))?;
            let dropped = power_on.is_some();
            for (index, entry) in power_on.iter_mut().chain(&mut entries).enumerate() {
                let mut state = vec![0; entry.stored];
                old.read_exact_at(&mut state, entry.state)
                    .map_err(SnapshotError::io("read", &shared.path))?;
                entry.info.end = entry.info.end.max(end);
                let (bytes, state_at) = encode_record(0, entry.packed, &encode(&entry.info), &state);
                entry.record = write(&mut file, &bytes)?;
                entry.state = entry.record + state_at;
                if dropped && index == 0 {
                    let (bytes, _) = encode_record(1, false, &encode(&[Icount(0)].as_slice()), &[]);
                    write(&mut file, &bytes)?;
                }
            }
            file.sync_data().map_err(io("sync"))?;
            std::fs::rename(&path, &shared.path).map_err(io("rename"))?;
            File::open(&shared.path).map_err(SnapshotError::io("open", &shared.path))
        })();
        let reader = written.inspect_err(|_| {
            // Best effort: nobody reads it.
            let _ = std::fs::remove_file(&path);
        })?;
        *self.list.write() = List {
            file: Arc::new(reader),
            entries,
            power_on,
            first_pack,
        };
        self.file = file;
        self.end = at;
        Ok(())
    }
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // A plain struct into a growing vector: postcard has nothing to fail at, and an empty info fails its decoding.
    postcard::to_allocvec(value).unwrap_or_default()
}
