//! The content-addressed store of a recording: blocks (pages and tree nodes) in pack files, found by their hash.
//!
//! One index of ids is shared by the recorder's threads, which append, and by readers, so that a live recording can be
//! read back. A block is entered when it's given a place in a frame, before that is written; readers come only by a
//! checkpoint, which is published after all its frames.
//!
//! On open the index is rebuilt from the frames' headers. A frame that is cut short ends its pack; blocks are
//! checked against their ids each time they are read, so damage is an error that names the file and offset.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::error::{Result, SnapshotError};
use crate::node::NodeSource;
use crate::pack::{self, FILE_HEAD, FrameHead, Group, Pack, pack_path};
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
    frames: Frames,
    packs: BTreeMap<u32, Arc<Pack>>,
}

#[derive(Clone, Copy)]
struct Frame {
    pack: u32,
    at: u64,
}

/// Frames by their numbers, which ascend along the packs; those of packs that are gone are forgotten.
#[derive(Default)]
struct Frames {
    first: u32,
    list: VecDeque<Frame>,
}

impl Frames {
    fn get(&self, number: u32) -> Option<&Frame> {
        self.list.get(number.checked_sub(self.first)? as usize)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Frame> {
        self.list.get_mut(number.checked_sub(self.first)? as usize)
    }

    /// Adds one; its number.
    fn push(&mut self, frame: Frame) -> u32 {
        self.list.push_back(frame);
        self.first + (self.list.len() - 1) as u32
    }

    fn numbered(&self) -> impl Iterator<Item = (u32, &Frame)> {
        (self.first..).zip(&self.list)
    }

    /// Forgets the frames of the packs before `pack`.
    fn remove_before(&mut self, pack: u32) {
        while self.list.front().is_some_and(|frame| frame.pack < pack) {
            self.list.pop_front();
            self.first += 1;
        }
    }
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
        Ok(Self::open_until(dir, 0, None)?.0)
    }

    /// Opens the store and tells up to where its packs, from `first` on, are whole. A torn end after `needed`, the end of
    /// the last checkpoint, is no damage.
    pub(crate) fn open_until(dir: &Path, first: u32, needed: Option<PackEnd>) -> Result<(Self, PackEnd)> {
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
        for n in last.map_or(0..0, |l| first..l.saturating_add(1)) {
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

    /// Bytes of the packs.
    pub fn bytes(&self) -> u64 {
        let packs: Vec<Arc<Pack>> = self.read().packs.values().cloned().collect();
        packs.iter().map(|pack| pack.size().unwrap_or(0)).sum()
    }

    /// The number of frames that the store was opened with.
    pub fn frames(&self) -> usize {
        self.read().frames.list.len()
    }

    /// Reads a frame, by its number, and checks each of its blocks against its id: how many these are.
    pub fn check_frame(&self, number: usize) -> Result<usize> {
        let (frame, pack) = {
            let index = self.read();
            let found = index.frames.get(number as u32).copied();
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
            let frame = *index.frames.get(number).ok_or_else(unknown)?;
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
        let number = index.frames.push(UNWRITTEN);
        for (slot, id) in ids.iter().enumerate() {
            index.blocks.insert(*id, (number, slot as u16));
        }
        number
    }

    /// Gives a new frame its number for blocks that are in an older one: they are found there until it is written.
    pub(crate) fn announce_moved(&self) -> u32 {
        self.write().frames.push(UNWRITTEN)
    }

    fn written(&self, number: u32, frame: Frame, moved: &[PageId]) {
        let mut index = self.write();
        if let Some(slot) = index.frames.get_mut(number) {
            *slot = frame;
        }
        for (slot, id) in moved.iter().enumerate() {
            index.blocks.insert(*id, (number, slot as u16));
        }
    }

    /// About how many bytes these blocks take: each its part of its frame.
    pub(crate) fn bytes_of(&self, ids: &BTreeSet<PageId>) -> Result<u64> {
        let mut bytes = 0;
        for pack in self.packs() {
            let file = self.read().packs.get(&pack).cloned();
            for (number, own) in self.frames_of(pack)? {
                let frame = self.read().frames.get(number).copied();
                if let (Some(file), Some(frame)) = (&file, frame) {
                    let head = file.frame_head(frame.at)?;
                    let needed = own.iter().filter(|id| ids.contains(id)).count() as u64;
                    bytes += head.len() * needed / head.ids.len().max(1) as u64;
                }
            }
        }
        Ok(bytes)
    }

    /// Pages, nodes, and the bytes of both before they were compressed.
    pub(crate) fn totals(&self) -> Result<(u64, u64, u64)> {
        let (mut pages, mut nodes, mut raw) = (0, 0, 0);
        for pack in self.packs() {
            let file = self.read().packs.get(&pack).cloned();
            let frames: Vec<u64> = {
                let index = self.read();
                let own = index.frames.numbered().filter(|(_, frame)| frame.pack == pack);
                own.map(|(_, frame)| frame.at).collect()
            };
            for at in frames {
                let Some(file) = &file else { continue };
                let head = file.frame_head(at)?;
                raw += head.raw as u64;
                let blocks = head.ids.len() as u64;
                match head.kind {
                    pack::Kind::Pages => pages += blocks,
                    pack::Kind::Nodes => nodes += blocks,
                }
            }
        }
        Ok((pages, nodes, raw))
    }

    /// The packs, first to last.
    pub(crate) fn packs(&self) -> Vec<u32> {
        self.read().packs.keys().copied().collect()
    }

    /// The frames of a pack, with those of their blocks that are found there.
    pub(crate) fn frames_of(&self, pack: u32) -> Result<Vec<(u32, Vec<PageId>)>> {
        let (numbers, file) = {
            let index = self.read();
            let numbers = index.frames.numbered().filter(|(_, frame)| frame.pack == pack);
            let numbers: Vec<(u32, u64)> = numbers.map(|(number, frame)| (number, frame.at)).collect();
            (numbers, index.packs.get(&pack).cloned())
        };
        let Some(file) = file else { return Ok(Vec::new()) };
        let mut frames = Vec::new();
        for (number, at) in numbers {
            let FrameHead { mut ids, .. } = file.frame_head(at)?;
            let index = self.read();
            ids.retain(|id| index.blocks.get(id).is_some_and(|(frame, _)| *frame == number));
            frames.push((number, ids));
        }
        Ok(frames)
    }

    /// Blocks that nobody names any more: if one comes again, it is new.
    pub(crate) fn forget(&self, ids: &[PageId]) {
        let mut index = self.write();
        for id in ids {
            index.blocks.remove(id);
        }
    }

    /// The block of an id, whatever it is.
    pub(crate) fn block(&self, id: PageId) -> Result<Block> {
        let (frame, slot, group) = self.find(id)?;
        let block = match &*group {
            Group::Pages(pages) => pages.get(slot).cloned().map(Block::Page),
            Group::Nodes(nodes) => nodes.get(slot).cloned().map(Block::Node),
        };
        block
            .filter(|block| block.id() == id)
            .ok_or_else(|| self.mismatch(frame, id))
    }

    /// Forgets the packs before `first`, and removes them. What can't be removed stays, unread.
    fn remove_before(&self, first: u32) {
        let gone: Vec<u32> = {
            let mut index = self.write();
            let gone: Vec<u32> = index.packs.range(..first).map(|(number, _)| *number).collect();
            index.packs.retain(|number, _| *number >= first);
            index.frames.remove_before(first);
            gone
        };
        for number in gone {
            let _ = fs::remove_file(pack_path(&self.0.dir, number));
        }
    }
}

/// A page or a node.
pub(crate) enum Block {
    Page(Arc<Page>),
    Node(Arc<[u8]>),
}

impl Block {
    fn id(&self) -> PageId {
        match self {
            Self::Page(page) => PageId::of(page),
            Self::Node(node) => PageId(*blake3::hash(node).as_bytes()),
        }
    }
}

impl PageSource for Store {
    fn page(&self, id: PageId) -> Result<Arc<Page>> {
        self.get(id)
    }

    fn pages(&self, ids: &[PageId]) -> Result<Vec<Arc<Page>>> {
        self.get_many(ids)
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
            let frame = self.frames.push(Frame {
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
    /// A pack is closed, and the next begun, at this size.
    pack_bytes: u64,
    /// Whether the open pack has blocks whose older copy may be removed.
    moved: bool,
    /// Whether to wait for the disk before anything names what was written.
    durable: bool,
}

impl PackWriter {
    pub(crate) fn new(store: Store, pack_bytes: u64, durable: bool) -> Self {
        Self {
            store,
            file: None,
            path: PathBuf::new(),
            end: PackEnd::default(),
            pack_bytes,
            moved: false,
            durable,
        }
    }

    /// Appends the frame that was announced as `number`; the blocks that `moved` names are found in it from now on.
    pub(crate) fn append(&mut self, number: u32, frame: &[u8], moved: &[PageId]) -> Result<()> {
        if self.file.is_none() || self.end.at >= self.pack_bytes {
            self.next_pack()?;
        }
        if let Some(file) = &mut self.file
            && let Err(source) = file.write_all(frame)
        {
            // Best effort: what stays of a torn frame is left out on open.
            let _ = file.set_len(self.end.at);
            return Err(SnapshotError::io("append to", &self.path)(source));
        }
        self.moved |= !moved.is_empty();
        self.store.written(
            number,
            Frame {
                pack: self.end.pack,
                at: self.end.at,
            },
            moved,
        );
        self.end.at += frame.len() as u64;
        Ok(())
    }

    fn next_pack(&mut self) -> Result<()> {
        if self.moved {
            self.sync_now()?;
            self.moved = false;
        }
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

    /// Removes the packs before `first`, when nothing names them any more.
    pub(crate) fn remove_before(&self, first: u32) {
        self.store.remove_before(first);
    }

    /// Waits until what was appended is on the disk.
    pub(crate) fn sync_now(&self) -> Result<()> {
        match &self.file {
            Some(file) => file.sync_data().map_err(SnapshotError::io("sync", &self.path)),
            None => Ok(()),
        }
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
