//! How long it takes to go to a near snapshot of a recording.
//!
//! ```text
//!   cargo run --release -p benches --bin restores -- boot.tick
//! ```
//!
//! From each snapshot to its neighbours, forward through the recording and then backward, twice; the second round has the recording's
//! files in the host's memory for sure, and counts.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use machine::host::Stopwatch;
use machine::{Engine, EngineKind, History};
use snapshot::Replay;

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("name a recording")?;
    let mut history = History::open(Path::new(&path), Engine::new(EngineKind::Jit)?)?;
    let places: Vec<_> = history.checkpoints().list().iter().map(|c| c.at).collect();
    ensure!(places.len() > 1, "it has one snapshot only");
    let mut times: Vec<Duration> = Vec::new();
    for round in 0..2 {
        let there_and_back = places.iter().chain(places.iter().rev());
        for at in there_and_back {
            let watch = Stopwatch::start();
            history.restore_anchor(*at)?;
            if round == 1 {
                times.push(watch.elapsed());
            }
        }
    }
    times.sort_unstable();
    let ms = |index: usize| times[index.min(times.len() - 1)].as_secs_f64() * 1e3;
    println!(
        "{} restores to a snapshot from its neighbour: median {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, at most {:.2} ms",
        times.len(),
        ms(times.len() / 2),
        ms(times.len() * 9 / 10),
        ms(times.len() * 99 / 100),
        ms(times.len()),
    );
    Ok(())
}
