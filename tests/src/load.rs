//! A busy host: threads that compute, allocate and yield, so that whoever runs beside them is preempted at other
//! moments each time.

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

    /// With so many threads.
    #[must_use]
    pub fn of(threads: usize) -> HostLoad {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..threads as u64)
            .map(|seed| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || churn(seed, &stop))
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
