//! The content-addressed store of a recording: blocks (pages and tree nodes) in pack files, found by their hash.
//!
//! One index of ids is shared by the recorder's threads, which append, and by readers, so that a live recording can be
//! read back. A block is entered when it's given a place in a frame, before that is written; readers come only by a
//! checkpoint, which is published after all its frames.
//!
//! On open the index is rebuilt from the frames' headers. A frame that is cut short ends its pack; blocks are
//! checked against their ids each time they are read, so damage is an error that names the file and offset.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::error::{Result, SnapshotError};
use crate::node::NodeSource;
use crate::pack::{self, FILE_HEAD, Group, PACK_BYTES, Pack, pack_path};
use crate::page::{Page, PageId, PageSource};

/// Decompressed groups that are kept in memory.
const CACHED_GROUPS: usize = 256;

/// A recording's pages. Clones share everything.
#[derive(Clone)]
pub struct Store(Arc<Shared>);

struct Shared {
    dir: PathBuf,
    index: RwLock<Index>,
    cache: Mutex<Cache>,
    damage: Vec<SnapshotError>,
}

/// Blocks with the frame and the place in it.
type Found = Vec<(PageId, (u32, u16))>;

#[derive(Default)]
struct Index {
    /// Frame and place in it of each block.
    blocks: BTreeMap<PageId, (u32, u16)>,
    frames: Vec<Frame>,
    packs: BTreeMap<u32, Arc<Pack>>,
}

#[derive(Clone, Copy)]
struct Frame {
    pack: u32,
    at: u64,
}

/// A frame that has a number and isn't written yet.
const UNWRITTEN: Frame = Frame {
    pack: u32::MAX,
    at: 0,
};

/// A place in the packs: everything before it was written.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
)]
pub(crate) struct PackEnd {
    pub(crate) pack: u32,
    pub(crate) at: u64,
}

#[derive(Default)]
struct Cache {
    groups: BTreeMap<u32, (u64, Arc<Group>)>,
    used: BTreeMap<u64, u32>,
    clock: u64,
}

impl Cache {
    fn find(&mut self, frame: u32) -> Option<Arc<Group>> {
        self.clock += 1;
        let (used, group) = self.groups.get_mut(&frame)?;
        self.used.remove(used);
        *used = self.clock;
        self.used.insert(self.clock, frame);
        Some(Arc::clone(group))
    }

    fn keep(&mut self, frame: u32, group: Arc<Group>) {
        self.clock += 1;
        if let Some((used, _)) = self.groups.insert(frame, (self.clock, group)) {
            self.used.remove(&used);
        }
        self.used.insert(self.clock, frame);
        while self.groups.len() > CACHED_GROUPS {
            let Some((_, oldest)) = self.used.pop_first() else {
                break;
            };
            self.groups.remove(&oldest);
        }
    }
}

/// A lock whose holder panicked is taken all the same: each critical section leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Makes the folder `dir` (with its `packs/`) for a new recording, with access for the user alone.
    pub fn create(dir: &Path) -> Result<Self> {
        let packs = dir.join("packs");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&packs)
            .map_err(SnapshotError::io("create folder", &packs))?;
        Ok(Self::over(packs, Index::default(), Vec::new()))
    }

    /// Opens the store of the recording in `dir` to read. Damage of packs doesn't prevent it: see
    /// [`damage`](Self::damage).
    pub fn open_read(dir: &Path) -> Result<Self> {
        Ok(Self::open_until(dir, None)?.0)
    }

    /// Opens the store and tells up to where its packs are whole. A torn end after `needed`, the end of
    /// the last checkpoint, is no damage.
    pub(crate) fn open_until(dir: &Path, needed: Option<PackEnd>) -> Result<(Self, PackEnd)> {
        let packs = dir.join("packs");
        let mut numbers: Vec<u32> = fs::read_dir(&packs)
            .map_err(SnapshotError::io("list folder", &packs))?
            .filter_map(|e| e.ok()?.file_name().to_str()?.strip_suffix(".pack")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        let (mut index, mut found, mut damage) = (Index::default(), Found::new(), Vec::new());
        let mut whole: Option<PackEnd> = None;
        let mut end = PackEnd::default();
        let last = needed
            .filter(|n| n.at > 0)
            .map(|n| n.pack)
            .max(numbers.last().copied());
        for n in last.map_or(0..0, |l| 0..l.saturating_add(1)) {
            let path = pack_path(&packs, n);
            let scanned = if numbers.binary_search(&n).is_ok() {
                let mut at = 0;
                let scanned = index.scan(n, path, &mut at, &mut found);
                end = PackEnd { pack: n, at };
                scanned
            } else {
                if damage.len() > 16 {
                    break;
                }
                end = PackEnd { pack: n, at: 0 };
                Err(SnapshotError::MissingPack { path })
            };
            if let Err(error) = scanned {
                // What follows the last checkpoint was cut off by the end of the recorder.
                if needed.is_some_and(|needed| needed <= end) && Some(n) == last {
                    continue;
                }
                damage.push(error);
                whole.get_or_insert(end);
            }
        }
        // Sorted first, the map is built in one go. Of equal ids the first stays.
        found.sort_by_key(|f| f.0);
        found.dedup_by_key(|f| f.0);
        index.blocks = found.into_iter().collect();
        let whole = whole.unwrap_or(end);
        Ok((Self::over(packs, index, damage), whole))
    }

    fn over(dir: PathBuf, index: Index, damage: Vec<SnapshotError>) -> Self {
        let (index, cache) = (RwLock::new(index), Mutex::default());
        Self(Arc::new(Shared {
            dir,
            index,
            cache,
            damage,
        }))
    }

    /// What was found wrong with the packs on opening: files that are missing, and frames that are damaged or cut short
    /// though a checkpoint needs what follows. Pages elsewhere can be read all the same.
    pub fn damage(&self) -> &[SnapshotError] {
        &self.0.damage
    }

    /// The number of different blocks (pages and tree nodes) in the store.
    pub fn len(&self) -> usize {
        self.read().blocks.len()
    }

    /// Whether the store has no block.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The page named `id`, checked against it.
    pub fn get(&self, id: PageId) -> Result<Arc<Page>> {
        let (frame, slot, group) = self.find(id)?;
        match &*group {
            Group::Pages(pages) => match pages.get(slot) {
                Some(page) if PageId::of(page) == id => Ok(Arc::clone(page)),
                _ => Err(self.mismatch(frame, id)),
            },
            Group::Nodes(_) => Err(self.mismatch(frame, id)),
        }
    }

    /// The pages named, in the order asked for; each group is read once, so this is the way to load many.
    pub fn get_many(&self, ids: &[PageId]) -> Result<Vec<Arc<Page>>> {
        let mut order: Vec<usize> = (0..ids.len()).collect();
        {
            let index = self.read();
            order.sort_by_cached_key(|&i| index.blocks.get(&ids[i]).copied());
        }
        let mut pages = vec![None; ids.len()];
        for i in order {
            pages[i] = Some(self.get(ids[i])?);
        }
        Ok(pages.into_iter().flatten().collect())
    }

    /// The number of frames that the store was opened with.
    pub fn frames(&self) -> usize {
        self.read().frames.len()
    }

    /// Reads a frame, by its number, and checks each of its blocks against its id: how many these are.
    pub fn check_frame(&self, number: usize) -> Result<usize> {
        let (frame, pack) = {
            let index = self.read();
            let found = index.frames.get(number).copied();
            match found.and_then(|frame| Some((frame, index.packs.get(&frame.pack).cloned()?))) {
                Some(found) => found,
                None => return Ok(0),
            }
        };
        let (ids, group) = (pack.frame_head(frame.at)?.ids, pack.group(frame.at)?);
        let found: Vec<PageId> = match &group {
            Group::Pages(pages) => pages.iter().map(|page| PageId::of(page)).collect(),
            Group::Nodes(nodes) => nodes
                .iter()
                .map(|node| PageId(*blake3::hash(node).as_bytes()))
                .collect(),
        };
        if found.len() != ids.len() {
            return Err(SnapshotError::damaged(
                &pack.path,
                frame.at,
                "the frame has another number of blocks than its header says",
            ));
        }
        match found.iter().zip(&ids).find(|(found, id)| found != id) {
            Some((_, id)) => Err(self.mismatch(frame, *id)),
            None => Ok(ids.len()),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.0.dir
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Index> {
        self.0.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Index> {
        self.0.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: PageId) -> Result<(Frame, usize, Arc<Group>)> {
        let unknown = || SnapshotError::Unknown {
            id,
            path: self.0.dir.clone(),
        };
        let (number, slot, frame, pack) = {
            let index = self.read();
            let &(number, slot) = index.blocks.get(&id).ok_or_else(unknown)?;
            let frame = *index.frames.get(number as usize).ok_or_else(unknown)?;
            (
                number,
                slot,
                frame,
                index.packs.get(&frame.pack).cloned().ok_or_else(unknown)?,
            )
        };
        if let Some(group) = lock(&self.0.cache).find(number) {
            return Ok((frame, slot.into(), group));
        }
        let group = Arc::new(pack.group(frame.at)?);
        lock(&self.0.cache).keep(number, Arc::clone(&group));
        Ok((frame, slot.into(), group))
    }

    fn mismatch(&self, frame: Frame, id: PageId) -> SnapshotError {
        SnapshotError::damaged(
            &pack_path(&self.0.dir, frame.pack),
            frame.at,
            format!("the block that should be {id} fails its checksum"),
        )
    }

    /// Whether no frame holds or will hold this block. Only the one thread that forms groups asks.
    pub(crate) fn is_new(&self, id: &PageId) -> bool {
        !self.read().blocks.contains_key(id)
    }

    /// Gives a new frame its number and enters its blocks.
    pub(crate) fn announce(&self, ids: &[PageId]) -> u32 {
        let mut index = self.write();
        let number = index.frames.len() as u32;
        index.frames.push(UNWRITTEN);
        for (slot, id) in ids.iter().enumerate() {
            index.blocks.insert(*id, (number, slot as u16));
        }
        number
    }

    fn written(&self, number: u32, frame: Frame) {
        if let Some(slot) = self.write().frames.get_mut(number as usize) {
            *slot = frame;
        }
    }
}

impl PageSource for Store {
    fn page(&self, id: PageId) -> Result<Arc<Page>> {
        self.get(id)
    }
}

impl NodeSource for Store {
    fn node(&self, id: PageId) -> Result<Arc<[u8]>> {
        let (frame, slot, group) = self.find(id)?;
        match &*group {
            Group::Nodes(nodes) => match nodes.get(slot) {
                Some(node) if *blake3::hash(node).as_bytes() == id.0 => Ok(Arc::clone(node)),
                _ => Err(self.mismatch(frame, id)),
            },
            Group::Pages(_) => Err(self.mismatch(frame, id)),
        }
    }
}

impl Index {
    /// Enters the frames of a pack; `end` is where the whole ones end, also on an error.
    fn scan(&mut self, number: u32, path: PathBuf, end: &mut u64, found: &mut Found) -> Result<()> {
        let pack = Pack::open(path)?;
        let size = pack.size()?;
        *end = FILE_HEAD;
        let pack = Arc::new(pack);
        self.packs.insert(number, Arc::clone(&pack));
        while *end < size {
            let head = pack.frame_head(*end)?;
            if size - *end < head.len() {
                return Err(SnapshotError::damaged(
                    &pack.path,
                    *end,
                    "the file ends in the middle of a frame",
                ));
            }
            let frame = self.frames.len() as u32;
            self.frames.push(Frame {
                pack: number,
                at: *end,
            });
            let places = head.ids.iter().enumerate();
            found.extend(places.map(|(slot, id)| (*id, (frame, slot as u16))));
            *end += head.len();
        }
        Ok(())
    }
}

/// The appending side of a store: owned by the one thread that writes.
pub(crate) struct PackWriter {
    store: Store,
    file: Option<File>,
    path: PathBuf,
    end: PackEnd,
    /// Whether to wait for the disk before anything names what was written.
    durable: bool,
}

impl PackWriter {
    pub(crate) fn new(store: Store, durable: bool) -> Self {
        Self {
            store,
            file: None,
            path: PathBuf::new(),
            end: PackEnd::default(),
            durable,
        }
    }

    /// Appends the frame that was announced as `number`.
    pub(crate) fn append(&mut self, number: u32, frame: &[u8]) -> Result<()> {
        if self.file.is_none() || self.end.at >= PACK_BYTES {
            self.next_pack()?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(frame)
                .map_err(SnapshotError::io("append to", &self.path))?;
        }
        self.store.written(
            number,
            Frame {
                pack: self.end.pack,
                at: self.end.at,
            },
        );
        self.end.at += frame.len() as u64;
        Ok(())
    }

    fn next_pack(&mut self) -> Result<()> {
        self.sync()?;
        let number = if self.file.is_some() {
            self.end.pack + 1
        } else {
            self.end.pack
        };
        self.path = pack_path(self.store.dir(), number);
        let mut file = create_private(&self.path)?;
        file.write_all(&pack::file_head())
            .map_err(SnapshotError::io("write to", &self.path))?;
        self.file = Some(file);
        self.end = PackEnd {
            pack: number,
            at: FILE_HEAD,
        };
        self.store
            .write()
            .packs
            .insert(number, Arc::new(Pack::open(self.path.clone())?));
        Ok(())
    }

    /// Everything appended so far lies before this.
    pub(crate) fn end(&self) -> PackEnd {
        self.end
    }

    /// Waits until what was appended is on the disk, if that was asked for.
    pub(crate) fn sync(&self) -> Result<()> {
        match &self.file {
            Some(file) if self.durable => file.sync_data().map_err(SnapshotError::io("sync", &self.path)),
            _ => Ok(()),
        }
    }
}

/// Creates a file that only the user can read, and that didn't exist.
pub(crate) fn create_private(path: &Path) -> Result<File> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(SnapshotError::io("create", path))
}
