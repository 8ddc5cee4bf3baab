//! Writing snapshots beside a running machine.
//!
//! ```text
//! caller ──take──▶ hash: copies, ids, dedup, tree, root ──groups──▶ compress (n threads)
//!                                └──── frames and checkpoints in order ────▶ write
//! ```
//!
//! Pages that are [`Behind`] are copied one by one as they are hashed, into memory that goes round: it stays in the host's caches.
//!
//! The caller waits only when more than [`RecorderOptions::pages_in_flight`] pages are on the way. The writer takes frames in the order
//! in which they were formed, so pages come before the nodes that name them, and those before the checkpoint; the files'
//! contents don't depend on thread timing. An error stops the recording; it's reported by the next
//! [`take`](Recorder::take) and every one after, by [`flush`](Recorder::flush) and by [`finish`](Recorder::finish).

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use icount::{Icount, VirtualTime};

use crate::checkpoint::{CheckpointWriter, Checkpoints, Info, MAX_LOG_POSITION, MAX_STATE, StoredState};
use crate::error::{Result, SnapshotError};
use crate::pack::{Group, MAX_COUNT, PACK_BYTES, Unpacked};
use crate::page::{Page, PageId, PageRef, PageSource, Root, Spares, whole_root};
use crate::store::{PackEnd, PackWriter, Store, lock};
use crate::tree::{Edit, Tree};

/// One snapshot as the machine hands it over.
#[derive(Debug, Clone)]
pub struct Taken {
    /// Its position.
    pub at: Icount,
    /// The virtual time there.
    pub time: VirtualTime,
    /// The pages that were written since the last one, in any order; `None` for all zero. (The first: all pages.)
    pub dirty: Vec<Edit>,
    /// The canonical serialised state of everything else.
    pub state: Vec<u8>,
    /// Where the log stands; given back on load.
    pub log_position: Vec<u8>,
    /// Whether retention must leave it.
    pub keep: bool,
}

/// Pages of a snapshot that are copied when the caller runs on already.
pub trait Behind: Send {
    /// How many they are.
    fn pages(&self) -> usize;

    /// Copies them, as they were when the snapshot was taken, into memory of `spares`, and hands over each, in order; until an error.
    fn copy(self: Box<Self>, spares: &Spares, each: &mut dyn FnMut(Edit) -> Result<()>) -> Result<()>;
}

/// The figures of a recorder.
#[derive(Clone)]
pub struct RecorderOptions {
    /// Threads that compress.
    pub workers: usize,
    /// Pages compressed together: more is smaller, fewer is faster to read back.
    pub group: usize,
    /// The zstd level. Of those that are below 1, -3 takes half the time and a fifth more room.
    pub level: i32,
    /// Pages on the way to the disk above which `take` waits.
    pub pages_in_flight: usize,
    /// A pack is closed at this size. What is thrown away is thrown away in whole packs.
    pub pack_bytes: u64,
    /// Whether to wait for the disk before a checkpoint is listed (for power cuts; a killed process loses nothing).
    pub durable: bool,
    /// Where pages come from that are only named, when a branch begins with its parent's.
    pub parent: Option<Store>,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self {
            workers: 2,
            group: 16,
            level: -3,
            pages_in_flight: 1 << 16,
            pack_bytes: PACK_BYTES,
            durable: false,
            parent: None,
        }
    }
}

/// The priorities of the threads behind, for the kernel's scheduler, until the first snapshot is written, for which the guest may have to
/// wait, and from then on: a tenth of the guest's, and the least. On a host whose cores are all busy what they
/// take is missing to the guest.
const NICE: [i32; 2] = [10, 19];

/// Pages of memory that go round: 4 MiB.
const STOCK: usize = 1024;

fn pages_of(taken: &Taken, behind: Option<&dyn Behind>) -> usize {
    taken.dirty.len() + behind.map_or(0, Behind::pages)
}

/// What is on the way to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// Snapshots that were taken and aren't listed yet.
    pub checkpoints: usize,
    /// Their pages.
    pub pages: usize,
}

/// A position and the whole-state root there.
pub type Rooted = (Icount, Root);

/// Bounds what is in flight.
#[derive(Default)]
struct Flight {
    pending: Mutex<Pending>,
    landed: Condvar,
}

impl Flight {
    fn start(&self, pages: usize, most: usize) {
        let mut pending = lock(&self.pending);
        while pending.checkpoints > 0 && pending.pages + pages > most {
            pending = self.landed.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        pending.checkpoints += 1;
        pending.pages += pages;
    }

    fn end(&self, pages: usize) {
        let mut pending = lock(&self.pending);
        pending.checkpoints -= 1;
        pending.pages -= pages;
        self.landed.notify_all();
    }
}

/// The tree as of the last snapshot that was handed over: its pages are named only, and all on disk.
///
/// A machine that hands over its changes needs no tree of its own, with a copy of each page, until it wants to go
/// elsewhere.
#[derive(Clone, Default)]
pub struct Written(Arc<Growing>);

#[derive(Default)]
struct Growing {
    state: Mutex<Grown>,
    grew: Condvar,
    failure: Failure,
}

#[derive(Default)]
struct Grown {
    handed: u64,
    written: u64,
    bytes: u64,
    tree: Tree,
    ended: bool,
    /// Bytes that were written when the first snapshot was.
    first: Option<u64>,
}

impl Written {
    /// The tree, once it is written.
    pub fn tree(&self) -> Result<Tree> {
        let mut state = lock(&self.0.state);
        while state.written < state.handed {
            if state.ended {
                let failure = lock(&self.0.failure).clone();
                return Err(failure.unwrap_or(SnapshotError::Stopped));
            }
            state = self.0.grew.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state.tree.clone())
    }

    /// Bytes of pages and nodes that were written, but for the first snapshot's.
    pub fn bytes(&self) -> u64 {
        let state = lock(&self.0.state);
        state.first.map_or(0, |first| state.bytes - first)
    }

    /// Waits until the first snapshot is written.
    pub fn first(&self) -> Result<()> {
        let mut state = lock(&self.0.state);
        while state.first.is_none() {
            if state.ended {
                let failure = lock(&self.0.failure).clone();
                return Err(failure.unwrap_or(SnapshotError::Stopped));
            }
            state = self.0.grew.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Grown)) {
        change(&mut lock(&self.0.state));
        self.0.grew.notify_all();
    }
}

/// Tells those who wait for a tree that there will be none, however the writer ends.
struct Ends(Written);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.change(|state| state.ended = true);
    }
}

enum Job {
    Take(Taken, Option<Box<dyn Behind>>),
    Drop(Vec<Icount>),
    Retain { from: Icount, squeeze: bool },
    Flush(Sender<()>),
}

pub(crate) enum ToWrite {
    Frame(u32, Receiver<Vec<u8>>),
    /// A frame of blocks that were in an older one.
    Moved(u32, Receiver<Vec<u8>>, Vec<PageId>),
    /// Nothing that is needed is in packs before this one.
    FirstPack(u32),
    Checkpoint {
        info: Info,
        state: StoredState,
        tree: Tree,
        pages: usize,
    },
    Drop(Vec<Icount>),
    Flush(Sender<()>),
    /// A snapshot that failed on the way.
    Failed {
        pages: usize,
    },
}

type ToPack = (Unpacked, Sender<Vec<u8>>);
type ToRoot = (Icount, Vec<Edit>, Vec<u8>);
type Failure = Arc<Mutex<Option<SnapshotError>>>;

/// Records snapshots of a running machine into a folder.
pub struct Recorder {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    flight: Arc<Flight>,
    failure: Failure,
    roots: Receiver<Rooted>,
    checkpoints: Checkpoints,
    spares: Spares,
    written: Written,
    last: Option<Icount>,
    pages_in_flight: usize,
}

impl Recorder {
    /// Begins a recording's snapshots in `dir`, which must have none. Files are for the user alone.
    pub fn create(dir: &Path, options: RecorderOptions) -> Result<Self> {
        let store = Store::create(dir)?;
        let writer = CheckpointWriter::create(dir, store.clone(), options.durable)?;
        let checkpoints = writer.list().clone();
        let packs = PackWriter::new(store.clone(), options.pack_bytes, options.durable);
        let (flight, failure) = (Arc::<Flight>::default(), Failure::default());
        let spares = Spares::default();
        let written = Written(Arc::new(Growing {
            failure: Arc::clone(&failure),
            ..Growing::default()
        }));
        let (jobs, jobs_in) = unbounded();
        let (to_pack, pack_in) = bounded::<ToPack>(64);
        let (to_write, write_in) = bounded(256);
        let (root_out, roots) = unbounded();
        let mut threads = Vec::new();
        let spawn_error = SnapshotError::io("start a thread for", dir);
        let mut spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let behind = move || {
                // The guest comes first; if this is refused, all are alike.
                let _ = rustix::process::setpriority_process(None, NICE[0]);
                run();
            };
            let thread = std::thread::Builder::new().name(name.into()).spawn(behind)?;
            threads.push(thread);
            Ok(())
        };
        let rank = Rank {
            written: written.clone(),
            least: false,
        };
        let group = options.group.clamp(1, MAX_COUNT);
        let (level, parent) = (options.level, options.parent);
        let mut started = Ok(());
        for _ in 0..options.workers.max(1) {
            let (pack_in, spares, rank) = (pack_in.clone(), spares.clone(), rank.clone());
            let run = Box::new(move || pack_all(&pack_in, level, &spares, rank));
            started = started.and_then(|()| spawn("snapshot-pack", run));
        }
        let fail = Arc::clone(&failure);
        let hash = Hash {
            tree: Tree::new(),
            checkpoints: checkpoints.clone(),
            needed: 0,
            pack_bytes: options.pack_bytes,
            store,
            parent,
            group,
            level,
            to_pack,
            to_write,
            spares: spares.clone(),
            failure: fail,
            rank: rank.clone(),
        };
        started = started.and_then(|()| spawn("snapshot-hash", Box::new(move || hash.all(&jobs_in))));
        let mut write = Write {
            packs,
            checkpoints: writer,
            roots: root_out,
            flight: Arc::clone(&flight),
            failure: Arc::clone(&failure),
            written: Ends(written.clone()),
            rank,
        };
        started = started.and_then(|()| spawn("snapshot-write", Box::new(move || write.all(&write_in))));
        started.map_err(spawn_error)?;
        let pages_in_flight = options.pages_in_flight;
        let jobs = Some(jobs);
        Ok(Self {
            jobs,
            threads,
            flight,
            failure,
            roots,
            checkpoints,
            spares,
            written,
            last: None,
            pages_in_flight,
        })
    }

    /// Hands over a snapshot; positions must not descend. Waits only if too much is on the way.
    pub fn take(&mut self, taken: Taken) -> Result<()> {
        self.take_behind(taken, None)
    }

    /// As [`take`](Self::take), of a snapshot that has more pages than those in `taken.dirty`.
    pub fn take_behind(&mut self, taken: Taken, behind: Option<Box<dyn Behind>>) -> Result<()> {
        self.check()?;
        if let Some(last) = self.last.filter(|l| taken.at < *l) {
            return Err(SnapshotError::OutOfOrder { at: taken.at, last });
        }
        let limits = [
            ("machine state", taken.state.len(), MAX_STATE),
            ("log position", taken.log_position.len(), MAX_LOG_POSITION),
        ];
        if let Some(&(what, size, max)) = limits.iter().find(|(_, size, max)| size > max) {
            return Err(SnapshotError::TooLarge { what, size, max });
        }
        self.last = Some(taken.at);
        let pages = pages_of(&taken, behind.as_deref());
        self.flight.start(pages, self.pages_in_flight);
        self.written.change(|state| state.handed += 1);
        self.send(Job::Take(taken, behind))
            .inspect_err(|_| self.flight.end(pages))
    }

    /// Memory for the pages of the next snapshot.
    pub fn spares(&self) -> &Spares {
        &self.spares
    }

    /// The tree as of the last snapshot taken.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Marks checkpoints as dropped: they're no longer listed. Their pages stay in the packs.
    pub fn drop_checkpoints(&mut self, at: Vec<Icount>) -> Result<()> {
        self.check()?;
        self.send(Job::Drop(at))
    }

    /// Throws away the checkpoints before `from` (not the last one, and not what was in memory at power-on), and from time to time the
    /// pages that only they had: when as much is not needed as is needed, or now if `squeeze`.
    pub fn retain(&mut self, from: Icount, squeeze: bool) -> Result<()> {
        self.check()?;
        self.send(Job::Retain { from, squeeze })
    }

    /// What is on the way to the disk.
    pub fn pending(&self) -> Pending {
        *lock(&self.flight.pending)
    }

    /// The whole-state root of each snapshot taken, in order, as soon as it's on the list.
    pub fn roots(&self) -> &Receiver<Rooted> {
        &self.roots
    }

    /// The checkpoints so far; the list grows as snapshots are written.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Waits until everything taken so far is on the list.
    pub fn flush(&self) -> Result<()> {
        let (done, wait) = bounded(1);
        self.send(Job::Flush(done))?;
        // An error here means that a thread has ended, which `check` tells better.
        let ended = wait.recv().is_err();
        self.check()?;
        if ended {
            Err(SnapshotError::Stopped)
        } else {
            Ok(())
        }
    }

    /// Writes what is on the way and ends the recording.
    pub fn finish(mut self) -> Result<Checkpoints> {
        let flushed = self.flush();
        self.join();
        flushed.map(|()| self.checkpoints.clone())
    }

    fn check(&self) -> Result<()> {
        lock(&self.failure).clone().map_or(Ok(()), Err)
    }

    fn send(&self, job: Job) -> Result<()> {
        match &self.jobs {
            Some(jobs) => jobs.send(job).map_err(|_| SnapshotError::Stopped),
            None => Err(SnapshotError::Stopped),
        }
    }

    fn join(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has been reported as `Stopped`, by the channel that it dropped.
            let _ = thread.join();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.join();
    }
}

/// The priority of a thread behind.
#[derive(Clone)]
struct Rank {
    written: Written,
    least: bool,
}

impl Rank {
    /// Called now and then.
    fn keep(&mut self) {
        if !self.least && lock(&self.written.0.state).first.is_some() {
            self.least = true;
            let _ = rustix::process::setpriority_process(None, NICE[1]);
        }
    }
}

fn pack_all(pack_in: &Receiver<ToPack>, level: i32, spares: &Spares, mut rank: Rank) {
    let mut compressor = None;
    for (unpacked, out) in pack_in {
        rank.keep();
        // The receiver is gone only when the writer is, and then it was told.
        let _ = out.send(unpacked.pack(level, &mut compressor));
        if let Group::Pages(pages) = unpacked.group {
            spares.give(pages);
        }
    }
}

/// The pages of `edits` named and hashed, sorted by key; each is handed to `visit`.
fn name(
    mut edits: Vec<Edit>,
    mut visit: impl FnMut(PageId, Arc<PageRef>) -> Result<()>,
) -> Result<Vec<Edit>> {
    edits.sort_by_key(|e| e.0);
    for (_, page) in &mut edits {
        if let Some(full) = page.take() {
            let id = full.id();
            visit(id, full)?;
            *page = PageRef::named(id);
        }
    }
    Ok(edits)
}

/// New pages on the way to a frame, and memory of pages that aren't new.
#[derive(Default)]
struct Grouped {
    ids: Vec<PageId>,
    pages: Vec<Arc<Page>>,
    known: Vec<Arc<Page>>,
}

pub(crate) struct Hash {
    tree: Tree,
    pub(crate) checkpoints: Checkpoints,
    /// Bytes of the store when all that was in it was needed.
    pub(crate) needed: u64,
    pub(crate) pack_bytes: u64,
    pub(crate) store: Store,
    parent: Option<Store>,
    pub(crate) group: usize,
    level: i32,
    to_pack: Sender<ToPack>,
    pub(crate) to_write: Sender<ToWrite>,
    spares: Spares,
    failure: Failure,
    rank: Rank,
}

impl Hash {
    fn all(mut self, jobs: &Receiver<Job>) {
        for job in jobs {
            self.rank.keep();
            let message = match job {
                Job::Drop(at) => ToWrite::Drop(at),
                Job::Flush(done) => ToWrite::Flush(done),
                Job::Retain { from, squeeze } => {
                    if lock(&self.failure).is_none()
                        && let Err(error) = self.retain(from, squeeze)
                    {
                        lock(&self.failure).get_or_insert(error);
                    }
                    continue;
                }
                Job::Take(taken, behind) => {
                    let pages = pages_of(&taken, behind.as_deref());
                    let failed = lock(&self.failure).is_some();
                    match if failed {
                        Err(SnapshotError::Stopped)
                    } else {
                        self.take(taken, behind)
                    } {
                        Ok((info, state)) => ToWrite::Checkpoint {
                            info,
                            state,
                            tree: self.tree.clone(),
                            pages,
                        },
                        Err(error) => {
                            lock(&self.failure).get_or_insert(error);
                            ToWrite::Failed { pages }
                        }
                    }
                }
            };
            if self.to_write.send(message).is_err() {
                lock(&self.failure).get_or_insert(SnapshotError::Stopped);
                return;
            }
            if jobs.is_empty() {
                self.spares.stock(STOCK);
            }
        }
    }

    fn take(&mut self, taken: Taken, behind: Option<Box<dyn Behind>>) -> Result<(Info, StoredState)> {
        let Taken {
            at,
            time,
            dirty,
            state,
            log_position,
            keep,
        } = taken;
        let mut edits = Vec::with_capacity(dirty.len() + behind.as_ref().map_or(0, |behind| behind.pages()));
        let mut grouped = Grouped::default();
        let spares = self.spares.clone();
        if let Some(behind) = behind {
            behind.copy(&spares, &mut |edit| {
                edits.push(self.name(edit, &mut grouped)?);
                Ok(())
            })?;
        }
        for edit in dirty {
            edits.push(self.name(edit, &mut grouped)?);
        }
        self.spares.give(grouped.known);
        if !grouped.ids.is_empty() {
            self.frame(grouped.ids, Group::Pages(grouped.pages))?;
        }
        edits.sort_by_key(|edit| edit.0);
        self.tree.extend(&edits)?;
        let tree = self.tree.root();
        let mut nodes = Vec::new();
        self.tree.unwritten(&mut |id, node| nodes.push((id, node)));
        nodes.retain(|n| self.store.is_new(&n.0));
        for chunk in nodes.chunks(64) {
            let (ids, nodes) = chunk
                .iter()
                .map(|(id, node)| (*id, Arc::from(node.as_slice())))
                .unzip();
            self.frame(ids, Group::Nodes(nodes))?;
        }
        let root = whole_root(tree, &state);
        let state_len = state.len() as u64;
        let end = PackEnd::default();
        let info = Info {
            at,
            time,
            tree,
            root,
            state_len,
            keep,
            end,
            log_position,
        };
        Ok((info, StoredState::new(state, self.level)))
    }

    /// The edit with its page hashed and named; the page goes into a group if it's new.
    fn name(&self, (key, page): Edit, grouped: &mut Grouped) -> Result<Edit> {
        let Some(page) = page else { return Ok((key, None)) };
        let id = page.id();
        if self.store.is_new(&id) && !grouped.ids.contains(&id) {
            let bytes = match (page.bytes(), &self.parent) {
                (Some(bytes), _) => Arc::clone(bytes),
                (None, Some(parent)) => parent.page(id)?,
                (None, None) => self.store.get(id)?,
            };
            grouped.ids.push(id);
            grouped.pages.push(bytes);
            if grouped.ids.len() == self.group {
                let full = std::mem::take(grouped);
                self.frame(full.ids, Group::Pages(full.pages))?;
                grouped.known = full.known;
            }
        } else {
            grouped.known.extend(PageRef::into_bytes(page));
            if grouped.known.len() >= self.group {
                self.spares.give(std::mem::take(&mut grouped.known));
            }
        }
        Ok((key, PageRef::named(id)))
    }

    /// Whether an earlier job has failed, in a thread behind this one.
    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    /// Blocks that are in an older frame, in one of their own.
    pub(crate) fn move_frame(&self, ids: Vec<PageId>, group: Group) -> Result<()> {
        let number = self.store.announce_moved();
        let (out, packed) = bounded(1);
        let moved = ids.clone();
        self.to_pack
            .send((Unpacked { ids, group }, out))
            .map_err(|_| SnapshotError::Stopped)?;
        self.to_write
            .send(ToWrite::Moved(number, packed, moved))
            .map_err(|_| SnapshotError::Stopped)
    }

    fn frame(&self, ids: Vec<PageId>, group: Group) -> Result<()> {
        let number = self.store.announce(&ids);
        let (out, packed) = bounded(1);
        self.to_pack
            .send((Unpacked { ids, group }, out))
            .map_err(|_| SnapshotError::Stopped)?;
        self.to_write
            .send(ToWrite::Frame(number, packed))
            .map_err(|_| SnapshotError::Stopped)
    }
}

struct Write {
    packs: PackWriter,
    checkpoints: CheckpointWriter,
    roots: Sender<Rooted>,
    flight: Arc<Flight>,
    failure: Failure,
    written: Ends,
    rank: Rank,
}

impl Write {
    /// After an error it goes on to take messages, so that nobody waits for it.
    fn all(&mut self, write_in: &Receiver<ToWrite>) {
        for message in write_in {
            self.rank.keep();
            let pages = match &message {
                ToWrite::Checkpoint { pages, .. } | ToWrite::Failed { pages } => Some(*pages),
                ToWrite::Frame(..)
                | ToWrite::Moved(..)
                | ToWrite::FirstPack(_)
                | ToWrite::Drop(_)
                | ToWrite::Flush(_) => None,
            };
            let failed = lock(&self.failure).is_some();
            if let Err(error) = if failed { Ok(()) } else { self.one(message) } {
                lock(&self.failure).get_or_insert(error);
            }
            if lock(&self.failure).is_some() {
                self.written.0.change(|state| state.ended = true);
            }
            if let Some(pages) = pages {
                self.flight.end(pages);
            }
        }
    }

    fn one(&mut self, message: ToWrite) -> Result<()> {
        match message {
            ToWrite::Frame(number, packed) => {
                let frame = packed.recv().map_err(|_| SnapshotError::Stopped)?;
                self.written.0.change(|grown| grown.bytes += frame.len() as u64);
                self.packs.append(number, &frame, &[])
            }
            ToWrite::Moved(number, packed, ids) => {
                let frame = packed.recv().map_err(|_| SnapshotError::Stopped)?;
                self.packs.append(number, &frame, &ids)
            }
            ToWrite::FirstPack(first) => {
                // On the disk before the list says so, and that before what it replaces is gone.
                self.packs.sync_now()?;
                self.checkpoints.compact(first, self.packs.end())?;
                self.packs.remove_before(first);
                Ok(())
            }
            ToWrite::Checkpoint {
                mut info,
                state,
                tree,
                ..
            } => {
                self.packs.sync()?;
                info.end = self.packs.end();
                let rooted = (info.at, info.root);
                self.checkpoints.append(info, &state)?;
                self.written.0.change(|grown| {
                    grown.written += 1;
                    grown.first.get_or_insert(grown.bytes);
                    grown.tree = tree;
                });
                // Nobody may want the roots.
                let _ = self.roots.send(rooted);
                Ok(())
            }
            ToWrite::Drop(at) => self.checkpoints.drop_all(&at),
            ToWrite::Flush(done) => {
                let _ = done.send(());
                Ok(())
            }
            ToWrite::Failed { .. } => Ok(()),
        }
    }
}

/// The roots of a run without a disk: a replay feeds what it would record, and compares the roots with the recorded ones.
pub struct RootStream {
    feed: Option<Sender<ToRoot>>,
    roots: Receiver<Result<Rooted>>,
    thread: Option<JoinHandle<()>>,
    flight: Arc<Flight>,
    spares: Spares,
    pages_in_flight: usize,
}

impl RootStream {
    /// A stream that begins with `tree` (of a snapshot, or empty at power-on).
    pub fn new(tree: Tree) -> Result<Self> {
        let (feed, feed_in) = unbounded::<ToRoot>();
        let (root_out, roots) = unbounded();
        let flight = Arc::<Flight>::default();
        let landed = Arc::clone(&flight);
        let spares = Spares::default();
        let used = spares.clone();
        let run = move || {
            let mut tree = tree;
            for (at, dirty, state) in feed_in {
                let pages = dirty.len();
                let mut done = Vec::new();
                let named = name(dirty, |_, page| {
                    done.extend(PageRef::into_bytes(page));
                    Ok(())
                });
                used.give(done);
                let extended = named.and_then(|edits| tree.extend(&edits));
                let rooted = extended.map(|()| (at, whole_root(tree.root(), &state)));
                let _ = root_out.send(rooted);
                landed.end(pages);
            }
        };
        let thread = std::thread::Builder::new()
            .name("snapshot-roots".into())
            .spawn(run);
        let thread = Some(thread.map_err(SnapshotError::io("start a thread for", Path::new("roots")))?);
        let pages_in_flight = RecorderOptions::default().pages_in_flight;
        Ok(Self {
            feed: Some(feed),
            roots,
            thread,
            flight,
            spares,
            pages_in_flight,
        })
    }

    /// Memory for the pages of the next feeding.
    pub fn spares(&self) -> &Spares {
        &self.spares
    }

    /// Hands over the pages written since the last one and the rest of the state. Waits only if too much is on the way.
    pub fn feed(&mut self, at: Icount, dirty: Vec<Edit>, state: Vec<u8>) -> Result<()> {
        let pages = dirty.len();
        self.flight.start(pages, self.pages_in_flight);
        let sent = self
            .feed
            .as_ref()
            .is_some_and(|f| f.send((at, dirty, state)).is_ok());
        if sent { Ok(()) } else { Err(SnapshotError::Stopped) }
    }

    /// What was fed and has no root yet.
    pub fn pending(&self) -> Pending {
        *lock(&self.flight.pending)
    }

    /// The next root in order, if it's there.
    pub fn poll(&mut self) -> Option<Result<Rooted>> {
        self.roots.try_recv().ok()
    }

    /// The roots that are left, waiting for them.
    pub fn finish(mut self) -> Result<Vec<Rooted>> {
        self.feed = None;
        self.roots.iter().collect()
    }
}

impl Drop for RootStream {
    fn drop(&mut self) {
        self.feed = None;
        if let Some(thread) = self.thread.take() {
            // It has no reason to panic, and no result.
            let _ = thread.join();
        }
    }
}
