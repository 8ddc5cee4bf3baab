//! Old snapshots thrown away while new ones are taken: what is listed is whole at any moment, also on disk as a crash finds
//! it, and the size follows what is needed.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use icount::{Icount, VirtualTime};
use snapshot::{
    Checkpoint, Checkpoints, Edit, Page, PageRef, Recorder, RecorderOptions, SnapshotError, Taken,
};

type Pages = BTreeMap<u64, u64>;

/// A page that doesn't compress.
fn page(n: u64) -> Arc<Page> {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut page = [0; 4096];
    for chunk in page.chunks_mut(8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        chunk.copy_from_slice(&x.to_le_bytes());
    }
    Arc::new(page)
}

fn taken(at: u64, dirty: &[(u64, u64)]) -> Taken {
    let edit = |&(key, n): &(u64, u64)| -> Edit { (key, PageRef::of(page(n))) };
    Taken {
        at: Icount(at),
        time: VirtualTime(at),
        dirty: dirty.iter().map(edit).collect(),
        state: at.to_le_bytes().repeat(20),
        log_position: vec![at as u8],
        keep: at == 0,
    }
}

fn check(checkpoints: &Checkpoints, loaded: &Checkpoint, pages: &Pages) -> Result<(), SnapshotError> {
    let mut left = pages.clone();
    loaded.tree.for_each(|key, found| {
        let n = left.remove(&key).unwrap();
        assert!(*found.load(checkpoints.store())? == *page(n));
        Ok::<_, SnapshotError>(())
    })?;
    assert!(left.is_empty());
    Ok(())
}

/// Everything that is listed in `dir`, and the memory at power-on, is what was taken.
fn whole(dir: &Path, want: &BTreeMap<u64, Pages>) -> Checkpoints {
    let checkpoints = Checkpoints::open(dir).unwrap();
    assert!(checkpoints.damage().is_empty(), "{:?}", checkpoints.damage());
    for info in checkpoints.list() {
        let loaded = checkpoints.load(info.at).unwrap();
        assert_eq!(loaded.state, info.at.0.to_le_bytes().repeat(20));
        check(&checkpoints, &loaded, &want[&info.at.0]).unwrap();
    }
    let first = checkpoints.power_on().unwrap().unwrap();
    assert_eq!(first.info.at, Icount(0));
    check(&checkpoints, &first, &want[&0]).unwrap();
    checkpoints
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("packs")).unwrap();
    // As a crash finds it at one moment: the list first, then what it names.
    fs::copy(from.join("checkpoints"), to.join("checkpoints")).unwrap();
    for entry in fs::read_dir(from.join("packs")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join("packs").join(entry.file_name())).unwrap();
    }
}

fn size(dir: &Path) -> u64 {
    let packs = fs::read_dir(dir.join("packs")).unwrap();
    packs.map(|e| e.unwrap().metadata().unwrap().len()).sum::<u64>()
        + fs::metadata(dir.join("checkpoints")).unwrap().len()
}

#[test]
fn what_is_kept_is_whole_and_the_rest_goes() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("a");
    let options = RecorderOptions {
        pack_bytes: 64 << 10,
        ..RecorderOptions::default()
    };
    let mut recorder = Recorder::create(&dir, options).unwrap();
    let (mut pages, mut want) = (Pages::new(), BTreeMap::new());
    let mut x = 1u64;
    let mut most = 0;
    for at in 0..160u64 {
        let mut dirty = Vec::new();
        // 100 pages that stay, from the beginning; others come, go, and come again with old contents.
        if at == 0 {
            dirty.extend((0..100).map(|key| (key, 1_000_000 + key)));
        }
        for _ in 0..8 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = 100 + (x >> 33) % 60;
            dirty.retain(|(other, _)| *other != key);
            dirty.push((key, 1 + (x >> 40) % 500));
        }
        recorder.take(taken(at, &dirty)).unwrap();
        pages.extend(dirty);
        want.insert(at, pages.clone());
        if at % 5 == 0 && at > 20 {
            recorder.retain(Icount(at - 20), at % 50 == 0).unwrap();
            recorder.flush().unwrap();
            let live = recorder.checkpoints().clone();
            for info in live.list() {
                check(&live, &live.load(info.at).unwrap(), &want[&info.at.0]).unwrap();
            }
            assert_eq!(live.list()[0].at, Icount(at - 20));
            let crashed = place.path().join(format!("crashed-{at}"));
            copy(&dir, &crashed);
            let found = whole(&crashed, &want);
            assert_eq!(found.list().last().map(|c| c.at), Some(Icount(at)));
            fs::remove_dir_all(&crashed).unwrap();
            if at > 60 {
                most = most.max(size(&dir));
            }
        }
    }
    // 160 pages and 20 snapshots of 8 pages are needed: 1.3 MB; twice that, and two packs.
    assert!(most < 3_200_000, "{most}");
    recorder.finish().unwrap();
    let found = whole(&dir, &want);
    assert_eq!(found.list().first().map(|c| c.at), Some(Icount(135)));
    assert!(!dir.join("packs/0000.pack").exists());
    assert!(fs::metadata(dir.join("checkpoints")).unwrap().len() < 20_000);
}

#[test]
fn the_last_snapshot_stays_whatever_is_asked() {
    let place = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(place.path(), RecorderOptions::default()).unwrap();
    for at in 0..3 {
        recorder.take(taken(at, &[(at, at + 1)])).unwrap();
    }
    recorder.retain(Icount(u64::MAX), true).unwrap();
    recorder.retain(Icount(u64::MAX), true).unwrap();
    let left = recorder.finish().unwrap();
    assert_eq!(left.list().iter().map(|c| c.at.0).collect::<Vec<_>>(), [2]);
    assert!(left.power_on().unwrap().is_some());
    let again = Checkpoints::open(place.path()).unwrap();
    assert_eq!(again.len(), 1);
    assert!(again.power_on().unwrap().is_some());
}
