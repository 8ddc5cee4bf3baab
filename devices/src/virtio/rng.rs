//! Virtio entropy device (virtio 1.2, 5.4), from a seed.
//!
//! Byte n of the stream is byte n of BLAKE3's extendable output keyed with the seed: the state is
//! the seed and how much was given out. A request completes at its notification; one is given at
//! most [`MAX_REQUEST`] bytes, as the device may (5.4.6.1).
//!
//! Reset does not rewind the stream: a guest that reboots gets new numbers.

use serde::{Deserialize, Serialize};

use super::{Chain, Cursor, Queues, TransferError, VirtioDevice};
use crate::{Context, DeviceError, Input, InputKind, VirtualTime, state};

/// Bytes that one request gets at most.
const MAX_REQUEST: u64 = 64 * 1024;
const QUEUE_SIZE: u16 = 8;
const VERSION: u8 = 1;

/// A source of seeded randomness.
pub struct Rng {
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    seed: [u8; 32],
    /// Bytes given out.
    position: u64,
}

impl Rng {
    /// The stream of `seed`, from its beginning.
    pub fn new(seed: [u8; 32]) -> Self {
        Rng {
            state: State { seed, position: 0 },
        }
    }

    fn serve(&mut self, cx: &mut dyn Context, chain: &Chain) -> Result<u32, TransferError> {
        let mut stream = blake3::Hasher::new_keyed(&self.state.seed).finalize_xof();
        let mut cursor = Cursor::new(&chain.writable);
        let mut left = chain.writable_len().min(MAX_REQUEST);
        let mut written = 0;
        while left > 0 {
            stream.set_position(self.state.position);
            let mut buf = [0; 256];
            let count = left.min(buf.len() as u64);
            let piece = &mut buf[..count as usize];
            stream.fill(piece);
            cursor.write(cx, piece)?;
            self.state.position = self.state.position.wrapping_add(count);
            written += count as u32;
            left -= count;
        }
        Ok(written)
    }
}

impl VirtioDevice for Rng {
    fn name(&self) -> &'static str {
        "virtio-rng"
    }

    fn device_id(&self) -> u32 {
        4
    }

    fn features(&self) -> u64 {
        0
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE]
    }

    fn config(&self) -> Vec<u8> {
        Vec::new()
    }

    fn config_write(&mut self, _cx: &mut dyn Context, _offset: u64, _bytes: &[u8]) {}

    fn notified(&mut self, cx: &mut dyn Context, queues: &mut Queues, queue: u16) {
        // A ring's worth and a look whether it is empty: more can only come from a buffer that lies
        // over the ring.
        for _ in 0..=QUEUE_SIZE {
            let Some(chain) = queues.pop(cx, queue) else {
                return;
            };
            match self.serve(cx, &chain) {
                Ok(written) => queues.complete(cx, queue, chain.head, written),
                Err(_) => queues.fail(),
            }
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _cx: &mut dyn Context, _queues: &mut Queues) {}

    fn accepts(&self, _queues: &Queues, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _queues: &mut Queues, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.state = state::restore(self.name(), VERSION, bytes, |_: &State| Ok(()))?;
        Ok(())
    }

    fn reset(&mut self) {}
}
