//! How fast snapshots are recorded and read back: `cargo run --release -p snapshot --example record_speed [pages]`.
//!
//! The pages are like a kernel's: tables of small integers and pointers, text, zeros, and some that don't compress. Two
//! patterns: large snapshots (a boot), and many small ones with scattered pages (an idle system).

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use icount::{Icount, VirtualTime};
use snapshot::{
    Checkpoints, Edit, Page, PageRef, Recorder, RecorderOptions, RootStream, SnapshotError, Taken, Tree,
};

fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (n ^ n >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ n >> 33
}

fn page(n: u64) -> Arc<Page> {
    let mut page = [0; 4096];
    for (i, word) in page.chunks_exact_mut(8).enumerate() {
        let r = mix(n * 512 + i as u64);
        let value = match n % 8 {
            0 => r,
            1..=3 => 0xffff_ffff_8000_0000 | r & 0xff_fff8 | n << 32,
            4 | 5 if i % 3 == 0 => r & 0xffff,
            6 => u64::from_le_bytes(*b"printk: ") ^ (r & 0x0f),
            _ => 0,
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    page[0] = 1;
    Arc::new(page)
}

fn size(dir: &Path) -> f64 {
    let packs = std::fs::read_dir(dir.join("packs"))
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().len());
    (packs.sum::<u64>() + std::fs::metadata(dir.join("checkpoints")).unwrap().len()) as f64
}

fn measure(name: &str, pages: u64, each: u64) {
    let dir = tempfile::tempdir().unwrap();
    let snapshots: Vec<Vec<Edit>> = (0..pages / each)
        .map(|s| {
            (0..each)
                .map(|i| (mix(s * each + i) % (1 << 18), PageRef::of(page(s * each + i))))
                .collect()
        })
        .collect();
    // Leaves are hashed once and remember it, so each run gets its own.
    let again: Vec<Vec<Edit>> = snapshots
        .iter()
        .map(|s| {
            s.iter()
                .map(|(k, p)| {
                    (
                        *k,
                        p.as_ref().and_then(|p| PageRef::of(p.bytes().unwrap().clone())),
                    )
                })
                .collect()
        })
        .collect();
    let count = snapshots.len();
    let megabytes = pages as f64 * 4096.0 / 1e6;
    let mut recorder = Recorder::create(dir.path(), RecorderOptions::default()).unwrap();
    let start = Instant::now();
    for (at, dirty) in snapshots.into_iter().enumerate() {
        let (at, time) = (Icount(at as u64), VirtualTime(at as u64));
        let state = vec![at.0 as u8; 4096];
        recorder
            .take(Taken {
                at,
                time,
                dirty,
                state,
                log_position: Vec::new(),
                keep: false,
            })
            .unwrap();
    }
    let handed = start.elapsed().as_secs_f64();
    recorder.finish().unwrap();
    let record = start.elapsed().as_secs_f64();
    let bytes = size(dir.path());
    let start = Instant::now();
    let mut stream = RootStream::new(Tree::new()).unwrap();
    for (at, dirty) in again.into_iter().enumerate() {
        stream
            .feed(Icount(at as u64), dirty, vec![at as u8; 4096])
            .unwrap();
    }
    stream.finish().unwrap();
    let roots = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let checkpoints = Checkpoints::open(dir.path()).unwrap();
    let open = start.elapsed().as_secs_f64();
    let last = checkpoints.list().last().unwrap().at;
    let start = Instant::now();
    let (mut keys, mut ids) = (0, Vec::new());
    let collect = |_, p: &Arc<PageRef>| {
        keys += 1;
        ids.push(p.id());
        Ok::<_, SnapshotError>(())
    };
    checkpoints.load(last).unwrap().tree.for_each(collect).unwrap();
    let walk = start.elapsed().as_secs_f64();
    let start = Instant::now();
    checkpoints.store().get_many(&ids).unwrap();
    let read = start.elapsed().as_secs_f64();
    println!("{name}: {count} snapshots of {each} pages, {megabytes:.0} MB");
    println!(
        "  record {:.0} MB/s (caller held {:.3} s of {record:.3} s)",
        megabytes / record,
        handed
    );
    println!(
        "  on disk {:.1} MB: {:.0} bytes a page",
        bytes / 1e6,
        bytes / pages as f64
    );
    println!("  roots without a disk {:.0} MB/s", megabytes / roots);
    println!(
        "  open {:.1} ms, walk {keys} leaves {:.1} ms, read them {:.0} MB/s",
        open * 1e3,
        walk * 1e3,
        f64::from(keys) * 4096e-6 / read
    );
}

fn main() {
    let pages = std::env::args().nth(1).map_or(60_000, |n| n.parse().unwrap());
    measure("large", pages, 4096);
    measure("small", pages / 2, 100);
}
