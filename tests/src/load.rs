//! A busy host: threads that compute, allocate, write files and yield, so that whoever runs beside them is preempted at other
//! moments each time, and waits for memory and disks.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::Random;

/// Keeps the host busy until it is dropped.
#[derive(Debug)]
pub struct HostLoad {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl HostLoad {
    /// With two threads a core.
    #[must_use]
    pub fn heavy() -> HostLoad {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        HostLoad::of(2 * cores)
    }

    /// With so many threads: of four, two compute, one fills 256 MiB again and again, and one writes a file to the disk.
    #[must_use]
    pub fn of(threads: usize) -> HostLoad {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..threads as u64)
            .map(|seed| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || match seed % 4 {
                    1 => fill(&stop),
                    2 => write(&stop),
                    _ => churn(seed, &stop),
                })
            })
            .collect();
        HostLoad { stop, threads }
    }
}

impl Drop for HostLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn churn(seed: u64, stop: &AtomicBool) {
    let mut random = Random(seed);
    while !stop.load(Ordering::Relaxed) {
        let mut bytes = vec![0u64; 1 << 16];
        for _ in 0..random.below(1 << 18) {
            let n = random.number();
            bytes[(n >> 48) as usize] ^= n;
        }
        std::hint::black_box(&bytes);
        if random.below(4) == 0 {
            std::thread::yield_now();
        }
    }
}

fn fill(stop: &AtomicBool) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut pages = vec![0u8; 256 << 20];
        for page in pages.chunks_mut(4096) {
            number += 1;
            page[..8].copy_from_slice(&u64::to_le_bytes(number));
            if number % 1024 == 0 && stop.load(Ordering::Relaxed) {
                return;
            }
        }
        std::hint::black_box(&pages);
    }
}

/// What can't be written is no load.
fn write(stop: &AtomicBool) {
    let bytes = vec![0x5a; 1 << 20];
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut file) = tempfile::tempfile() else {
            return;
        };
        for _ in 0..16 {
            if stop.load(Ordering::Relaxed) || file.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = file.sync_all();
    }
}
