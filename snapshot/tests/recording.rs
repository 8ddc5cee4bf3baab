//! Recordings on disk: what was taken comes back, each page is stored once, a killed recorder leaves whole
//! checkpoints, and damage is an error that names the file.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use icount::{Icount, VirtualTime};
use proptest::prelude::*;
use snapshot::{
    Checkpoints, Edit, Page, PageId, PageRef, Recorder, RecorderOptions, Root, RootStream, SnapshotError,
    Taken, Tree, whole_root,
};

type Pages = BTreeMap<u64, u32>;

/// A page that differs for each `n`, half of it compressible; 0 is the zero page.
fn page(n: u32) -> Page {
    let mut page = [0; 4096];
    if n != 0 {
        let mut hash = seed(n);
        for chunk in page[..2048].chunks_mut(8) {
            hash = hash.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(n.into());
            chunk.copy_from_slice(&(hash ^ hash >> 29).to_le_bytes());
        }
    }
    page
}

fn seed(n: u32) -> u64 {
    u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn edit(key: u64, n: u32) -> Edit {
    (key, PageRef::of(Arc::new(page(n))))
}

fn taken(at: u64, dirty: &[(u64, u32)]) -> Taken {
    Taken {
        at: Icount(at),
        time: VirtualTime(at * 2),
        dirty: dirty.iter().map(|&(k, n)| edit(k, n)).collect(),
        state: state(at),
        log_position: at.to_be_bytes().to_vec(),
        keep: at.is_multiple_of(3),
    }
}

fn state(at: u64) -> Vec<u8> {
    (0..at % 500).map(|i| (i ^ at) as u8).collect()
}

fn tree(pages: &Pages) -> Tree {
    let mut tree = Tree::new();
    tree.extend(&pages.iter().map(|(&k, &n)| edit(k, n)).collect::<Vec<_>>())
        .unwrap();
    tree
}

fn apply(pages: &mut Pages, dirty: &[(u64, u32)]) {
    for &(k, n) in dirty {
        if n == 0 {
            pages.remove(&k)
        } else {
            pages.insert(k, n)
        };
    }
}

/// Loads the checkpoint at `at` and compares everything with what was taken.
fn verify(checkpoints: &Checkpoints, at: u64, pages: &Pages) -> Result<(), SnapshotError> {
    let loaded = checkpoints.load(Icount(at))?;
    assert_eq!(loaded.state, state(at));
    assert_eq!(loaded.log_position, at.to_be_bytes());
    assert_eq!(loaded.info.time, VirtualTime(at * 2));
    assert_eq!(loaded.info.keep, at.is_multiple_of(3));
    let mut got = Vec::new();
    loaded.tree.for_each(|k, p| {
        got.push((k, p.load(checkpoints.store())?));
        Ok::<_, SnapshotError>(())
    })?;
    assert_eq!(got.len(), pages.len());
    for ((k, bytes), (key, n)) in got.iter().zip(pages) {
        assert_eq!(k, key);
        assert!(**bytes == page(*n));
    }
    assert_eq!(loaded.info.tree, tree(pages).root());
    assert_eq!(loaded.info.root, whole_root(loaded.info.tree, &loaded.state));
    Ok(())
}

type Batches = Vec<Vec<(u64, u32)>>;

fn batches() -> impl Strategy<Value = Batches> {
    let key = prop_oneof![0..200u64, 0..1u64 << 18, (1 << 40)..(1 << 40) + 50u64];
    let n = prop_oneof![0..6u32, any::<u32>()];
    prop::collection::vec(prop::collection::btree_map(key, n, 0..70), 1..7)
        .prop_map(|maps| maps.into_iter().map(|m| m.into_iter().collect()).collect())
}

/// Records `batches` at steps 100, 200, ... and gives what each checkpoint must hold.
fn record(dir: &Path, batches: &Batches) -> Vec<(u64, Pages)> {
    let mut recorder = Recorder::create(dir, RecorderOptions::default()).unwrap();
    let mut pages = Pages::new();
    let mut want = Vec::new();
    for (i, dirty) in batches.iter().enumerate() {
        let at = (i as u64 + 1) * 100;
        recorder.take(taken(at, dirty)).unwrap();
        apply(&mut pages, dirty);
        want.push((at, pages.clone()));
    }
    recorder.finish().unwrap();
    want
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let packs = fs::read_dir(dir.join("packs"))
        .unwrap()
        .map(|e| e.unwrap().path());
    packs.chain([dir.join("checkpoints")]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_was_taken_comes_back(batches in batches()) {
        let dir = tempfile::tempdir().unwrap();
        let want = record(dir.path(), &batches);
        let checkpoints = Checkpoints::open(dir.path()).unwrap();
        prop_assert!(checkpoints.damage().is_empty());
        prop_assert_eq!(checkpoints.len(), want.len());
        for (at, pages) in &want {
            verify(&checkpoints, *at, pages).unwrap();
        }
        // A replay without a disk gets the same roots.
        let mut replay = RootStream::new(Tree::new()).unwrap();
        for (i, dirty) in batches.iter().enumerate() {
            let taken = taken((i as u64 + 1) * 100, dirty);
            replay.feed(taken.at, taken.dirty, taken.state).unwrap();
        }
        let recorded: Vec<(Icount, Root)> = checkpoints.list().iter().map(|c| (c.at, c.root)).collect();
        prop_assert_eq!(replay.finish().unwrap(), recorded);
    }

    /// `kill -9`: files are cut anywhere. What opens is a prefix of the checkpoints, and each is whole.
    #[test]
    fn a_killed_recorder_leaves_whole_checkpoints(batches in batches(), cuts in prop::collection::vec(0.0..1.0f64, 2)) {
        let dir = tempfile::tempdir().unwrap();
        let want = record(dir.path(), &batches);
        for (file, cut) in files(dir.path()).iter().zip(cuts) {
            let file = OpenOptions::new().write(true).open(file).unwrap();
            let size = file.metadata().unwrap().len();
            file.set_len((size as f64 * cut) as u64).unwrap();
        }
        match Checkpoints::open(dir.path()) {
            Ok(checkpoints) => {
                let list = checkpoints.list();
                prop_assert!(list.len() <= want.len());
                for (info, (at, pages)) in list.iter().zip(&want) {
                    prop_assert_eq!(info.at.0, *at);
                    verify(&checkpoints, *at, pages).unwrap();
                }
            }
            Err(SnapshotError::Damaged { path, offset, .. }) => {
                prop_assert_eq!(path, dir.path().join("checkpoints"));
                prop_assert_eq!(offset, 0);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    /// A flipped bit is an error, or (in bytes that nothing reads) nothing. It's never wrong content, nor a panic.
    #[test]
    fn a_flipped_bit_is_never_content(batches in batches(), which: bool, place in 0.0..1.0f64, bit in 0..8u8) {
        let dir = tempfile::tempdir().unwrap();
        let want = record(dir.path(), &batches);
        let all = files(dir.path());
        let path = if which { &all[0] } else { all.last().unwrap() };
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let at = (file.metadata().unwrap().len() as f64 * place) as u64;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
        let named = |e: &SnapshotError| match e {
            SnapshotError::Damaged { path: p, .. } | SnapshotError::Version { path: p, .. } => p == path,
            // What follows a damaged header isn't found.
            SnapshotError::Unknown { .. } => true,
            _ => false,
        };
        match Checkpoints::open(dir.path()) {
            Ok(checkpoints) => {
                prop_assert!(checkpoints.damage().iter().all(named));
                for (at, pages) in &want {
                    if checkpoints.at(Icount(*at)).is_some()
                        && let Err(e) = verify(&checkpoints, *at, pages)
                    {
                        prop_assert!(named(&e), "{}", e);
                    }
                }
            }
            Err(e) => prop_assert!(named(&e), "{}", e),
        }
    }
}

#[test]
fn a_damaged_page_names_file_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    let dirty: Vec<(u64, u32)> = (1..=40).map(|n| (u64::from(n), n)).collect();
    record(dir.path(), &vec![dirty]);
    let pack = dir.path().join("packs/0000.pack");
    // Into what the second frame stores.
    let file = OpenOptions::new().read(true).write(true).open(&pack).unwrap();
    let mut head = [0; 16];
    file.read_exact_at(&mut head, 16).unwrap();
    let second = 16 + 16 + 16 * 32 + 16 + u64::from(u32::from_le_bytes(head[12..].try_into().unwrap()));
    file.write_all_at(&[0xff; 64], second + 16 + 16 * 32 + 16 + 5000)
        .unwrap();
    let checkpoints = Checkpoints::open(dir.path()).unwrap();
    let store = checkpoints.store();
    assert!(*store.get(PageId::of(&page(1))).unwrap() == page(1));
    let damaged: Vec<_> = (17..=32)
        .filter_map(|n| store.get(PageId::of(&page(n))).err())
        .collect();
    assert!(!damaged.is_empty());
    for error in damaged {
        assert!(
            matches!(&error, SnapshotError::Damaged { path, offset, .. } if *path == pack && *offset == second)
        );
        assert!(error.to_string().contains("0000.pack is damaged at byte"));
    }
    assert!(*store.get(PageId::of(&page(40))).unwrap() == page(40));
}

#[test]
fn a_removed_pack_is_named() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), &vec![vec![(1, 1)], vec![(2, 2)]]);
    let pack = dir.path().join("packs/0000.pack");
    fs::remove_file(&pack).unwrap();
    let checkpoints = Checkpoints::open(dir.path()).unwrap();
    assert!(checkpoints.is_empty());
    assert!(matches!(checkpoints.damage(), [SnapshotError::MissingPack { path }] if *path == pack));
    let error = checkpoints.store().get(PageId::of(&page(1))).unwrap_err();
    assert!(matches!(error, SnapshotError::Unknown { .. }));
}

#[test]
fn another_version_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), &vec![vec![(1, 1)]]);
    let path = dir.path().join("checkpoints");
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .write_all_at(&[9], 8)
        .unwrap();
    let error = Checkpoints::open(dir.path()).err().unwrap();
    assert!(matches!(error, SnapshotError::Version { found: 9, .. }));
}

#[test]
fn each_page_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), RecorderOptions::default()).unwrap();
    for at in 1..50 {
        // The same 20 contents, moving about.
        let dirty: Vec<(u64, u32)> = (0..20)
            .map(|n| (u64::from((n + at as u32) % 64), n + 1))
            .collect();
        recorder.take(taken(at, &dirty)).unwrap();
    }
    let checkpoints = recorder.finish().unwrap();
    let size = fs::metadata(dir.path().join("packs/0000.pack")).unwrap().len();
    // 20 pages of 2 KiB that don't compress, and a few nodes of 0.5 KiB for each snapshot.
    assert!(size < 20 * 2200 + 49 * 6 * 700, "{size}");
    assert!(checkpoints.store().len() < 20 + 49 * 6);
    let again = Recorder::create(dir.path(), RecorderOptions::default())
        .err()
        .unwrap();
    assert!(matches!(again, SnapshotError::Io { doing: "create", .. }));
    for path in files(dir.path()) {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(
        fs::metadata(dir.path().join("packs"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o700
    );
}

/// Going from one checkpoint to another costs what differs: the nodes and pages that both share aren't read.
#[test]
fn restore_is_proportional_to_the_difference() {
    let dir = tempfile::tempdir().unwrap();
    let all: Vec<(u64, u32)> = (0..30_000).map(|n| (u64::from(n), n / 3 + 1)).collect();
    record(
        dir.path(),
        &vec![all, vec![(5, 77_777), (20_000, 0), (1 << 41, 88_888)]],
    );
    let checkpoints = Checkpoints::open(dir.path()).unwrap();
    let (a, b) = (
        checkpoints.load(Icount(100)).unwrap(),
        checkpoints.load(Icount(200)).unwrap(),
    );
    let mut keys = Vec::new();
    a.tree
        .diff(&b.tree, |k, _, _| {
            keys.push(k);
            Ok::<_, SnapshotError>(())
        })
        .unwrap();
    assert_eq!(keys, [5, 20_000, 1 << 41]);
    // The same where most of the pack is gone: only what differs is read. The nodes of both lie behind the pages.
    let pack = dir.path().join("packs/0000.pack");
    let file = OpenOptions::new().write(true).open(&pack).unwrap();
    let checkpoints = Checkpoints::open(dir.path()).unwrap();
    file.write_all_at(&vec![0; 8 << 20], 16).unwrap();
    let (a, b) = (
        checkpoints.load(Icount(100)).unwrap(),
        checkpoints.load(Icount(200)).unwrap(),
    );
    let mut pages = 0;
    a.tree
        .diff(&b.tree, |_, _, after| {
            pages += usize::from(after.is_some_and(|p| p.load(checkpoints.store()).is_ok()));
            Ok::<_, SnapshotError>(())
        })
        .unwrap();
    assert_eq!(pages, 2);
}

#[test]
fn a_live_recording_can_be_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), RecorderOptions::default()).unwrap();
    let mut pages = Pages::new();
    for at in 1..20u64 {
        let dirty: Vec<(u64, u32)> = (0..30).map(|n| (n * at, (n + at * 100) as u32)).collect();
        recorder.take(taken(at, &dirty)).unwrap();
        apply(&mut pages, &dirty);
        recorder.flush().unwrap();
        verify(recorder.checkpoints(), at, &pages).unwrap();
        assert_eq!(recorder.roots().try_recv().unwrap().0, Icount(at));
        // A second process sees it too.
        verify(&Checkpoints::open(dir.path()).unwrap(), at, &pages).unwrap();
    }
    assert_eq!(recorder.pending(), snapshot::Pending::default());
    assert_eq!(
        recorder.checkpoints().at_or_below(Icount(1000)).unwrap().at,
        Icount(19)
    );
    assert!(recorder.checkpoints().at_or_below(Icount(0)).is_none());
    recorder.drop_checkpoints((2..10).map(Icount).collect()).unwrap();
    let checkpoints = recorder.finish().unwrap();
    let left: Vec<u64> = checkpoints.list().iter().map(|c| c.at.0).collect();
    assert_eq!(left, [1].into_iter().chain(10..20).collect::<Vec<_>>());
    let reopened = Checkpoints::open(dir.path()).unwrap();
    assert_eq!(reopened.list(), checkpoints.list());
    verify(&reopened, 19, &pages).unwrap();
    assert!(matches!(
        reopened.load(Icount(5)),
        Err(SnapshotError::NoCheckpoint { .. })
    ));
}

#[test]
fn misuse_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), RecorderOptions::default()).unwrap();
    recorder.take(taken(10, &[(1, 1)])).unwrap();
    assert!(matches!(
        recorder.take(taken(9, &[])),
        Err(SnapshotError::OutOfOrder { .. })
    ));
    let mut large = taken(10, &[]);
    large.state = vec![0; snapshot::MAX_STATE + 1];
    assert!(matches!(
        recorder.take(large),
        Err(SnapshotError::TooLarge { .. })
    ));
    // A second one at the same place takes the place of the first.
    recorder.take(taken(10, &[(2, 2)])).unwrap();
    recorder.flush().unwrap();
    assert_eq!(recorder.checkpoints().len(), 1);
    verify(recorder.checkpoints(), 10, &Pages::from([(1, 1), (2, 2)])).unwrap();
    // An error in the background comes back, and stays.
    recorder.take(taken(11, &[(1 << 44, 1)])).unwrap();
    assert!(matches!(recorder.flush(), Err(SnapshotError::KeyRange { .. })));
    assert!(matches!(
        recorder.take(taken(12, &[])),
        Err(SnapshotError::KeyRange { .. })
    ));
    assert!(matches!(recorder.finish(), Err(SnapshotError::KeyRange { .. })));
    assert_eq!(Checkpoints::open(dir.path()).unwrap().len(), 1);
}

/// A disk that is full stops the recording with the host's own words, and nobody waits for ever.
#[test]
fn a_vanished_folder_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let options = RecorderOptions {
        pages_in_flight: 1,
        ..RecorderOptions::default()
    };
    let mut recorder = Recorder::create(dir.path(), options).unwrap();
    fs::remove_dir_all(dir.path().join("packs")).unwrap();
    let error = (1..1000)
        .find_map(|at| recorder.take(taken(at, &[(at, at as u32), (at + 1, 5)])).err())
        .unwrap();
    assert!(matches!(error, SnapshotError::Io { .. }), "{error}");
    assert!(error.to_string().contains("0000.pack"));
}

/// A branch begins with its parent's pages, which are only named.
#[test]
fn a_branch_copies_its_parents_pages() {
    let (parent, child) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let want = record(parent.path(), &vec![vec![(1, 1), (2, 2), (70_000, 3)]]);
    let from = Checkpoints::open(parent.path()).unwrap();
    let mut dirty = Vec::new();
    from.load(Icount(100))
        .unwrap()
        .tree
        .for_each(|k, p| {
            dirty.push((k, Some(Arc::clone(p))));
            Ok::<_, SnapshotError>(())
        })
        .unwrap();
    let options = RecorderOptions {
        parent: Some(from.store().clone()),
        ..RecorderOptions::default()
    };
    let mut recorder = Recorder::create(child.path(), options).unwrap();
    recorder
        .take(Taken {
            dirty,
            ..taken(100, &[])
        })
        .unwrap();
    recorder.finish().unwrap();
    fs::remove_dir_all(parent.path()).unwrap();
    verify(&Checkpoints::open(child.path()).unwrap(), 100, &want[0].1).unwrap();
}

#[test]
fn only_what_is_torn_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let want = record(dir.path(), &vec![vec![(1, 1)], vec![(2, 2)], vec![(3, 3)]]);
    // Half a frame behind the last checkpoint, as a killed recorder leaves it: nothing to report.
    let pack = dir.path().join("packs/0000.pack");
    let whole = fs::read(&pack).unwrap();
    fs::write(&pack, [&whole[..], &whole[16..150]].concat()).unwrap();
    let checkpoints = Checkpoints::open(dir.path()).unwrap();
    assert_eq!((checkpoints.len(), checkpoints.damage().len()), (3, 0));
    // A byte less than the last checkpoint needs.
    fs::write(&pack, &whole[..whole.len() - 1]).unwrap();
    let checkpoints = Checkpoints::open(dir.path()).unwrap();
    assert_eq!(checkpoints.len(), 2);
    assert!(matches!(checkpoints.damage(), [SnapshotError::Damaged { path, .. }] if *path == pack));
    verify(&checkpoints, 200, &want[1].1).unwrap();
    // A torn record.
    let file = dir.path().join("checkpoints");
    let records = fs::read(&file).unwrap();
    fs::write(&file, &records[..records.len() - 1]).unwrap();
    fs::write(&pack, &whole).unwrap();
    let checkpoints = Checkpoints::open(dir.path()).unwrap();
    assert_eq!(checkpoints.len(), 2);
    assert!(matches!(checkpoints.damage(), [SnapshotError::Damaged { path, .. }] if *path == file));
    verify(&checkpoints, 200, &want[1].1).unwrap();
}

/// The pages that the recorder of [`a_process_killed_while_recording`] writes before step `at`.
fn busy(at: u64) -> Vec<(u64, u32)> {
    (0..200).map(|n| (n * 31 + at % 7, (n * at) as u32)).collect()
}

/// A real `kill -9` of a recorder at full speed: everything that it had listed is there and whole.
#[test]
fn a_process_killed_while_recording() {
    use std::io::{BufRead, BufReader, Write};
    const CHILD: &str = "SNAPSHOT_TEST_RECORD_INTO";
    if let Some(dir) = std::env::var_os(CHILD) {
        let mut recorder = Recorder::create(Path::new(&dir), RecorderOptions::default()).unwrap();
        let roots = recorder.roots().clone();
        std::thread::spawn(move || {
            for (at, _) in roots {
                writeln!(std::io::stderr(), "listed {}", at.0).unwrap();
            }
        });
        (1..u64::MAX).for_each(|at| recorder.take(taken(at, &busy(at))).unwrap());
    }
    for last in [1, 7, 40] {
        let dir = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_killed_while_recording", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut listed = 0;
        for line in lines {
            let Some(at) = line
                .unwrap()
                .strip_prefix("listed ")
                .and_then(|at| at.parse::<u64>().ok())
            else {
                continue;
            };
            if listed < last && at >= last {
                child.kill().unwrap();
            }
            listed = at;
        }
        child.wait().unwrap();
        assert!(listed >= last);
        let checkpoints = Checkpoints::open(dir.path()).unwrap();
        let list = checkpoints.list();
        assert!(list.len() as u64 >= listed, "{} of {listed}", list.len());
        let mut pages = Pages::new();
        for info in &list {
            apply(&mut pages, &busy(info.at.0));
            verify(&checkpoints, info.at.0, &pages).unwrap();
        }
    }
}
