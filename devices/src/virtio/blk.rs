//! Virtio block device (virtio 1.2, 5.2).
//!
//! ```text
//!   notify ─▶ pop chain, read its 16-byte header ─▶ pending, due at now + 50 us + 1 ns a byte
//!   deadline ─▶ transfer the data, status byte, used ring
//! ```
//!
//! The data moves when a request completes, all of it at one boundary; requests in flight are
//! state. Each completes in its own time, so that a short one may overtake a long one; a driver
//! that minds waits, as the manual has it. A flush has nothing to do but wait its time: what was
//! completed is in the overlay.
//!
//! Sectors are 512 bytes, drives are in blocks of 4096: the topology asks the driver to keep to
//! those, and a write that doesn't reads the rest of the block first.
//!
//! Limits: at most 256 requests in flight (the rest stay in the ring), and at most
//! 256 MiB each. A buffer outside RAM fails its request; a request without room for
//! header and status breaks the queue. Discard, write zeroes and several queues are not offered.

use serde::{Deserialize, Serialize};

use super::{Chain, Cursor, Queues, TransferError, VirtioDevice};
use crate::{BLOCK_SIZE, Context, DeviceError, DiskError, Input, InputKind, VirtualTime, state};

/// Bytes in a sector, the unit of capacity and requests.
pub const SECTOR_SIZE: u64 = 512;
/// Greatest size of the request queue.
const QUEUE_SIZE: u16 = 256;
/// Bytes in the longest request that is served.
const MAX_REQUEST: u64 = 256 << 20;
/// Data segments that a driver may use in a request (with header and status they make 128).
const SEG_MAX: u32 = 126;
/// Bytes that a driver may put in a segment.
const SIZE_MAX: u32 = 1 << 20;
/// Virtual nanoseconds that every request takes; each byte takes one more.
const LATENCY_NS: u64 = 50_000;

const FEATURE_SIZE_MAX: u64 = 1 << 1;
const FEATURE_SEG_MAX: u64 = 1 << 2;
const FEATURE_RO: u64 = 1 << 5;
const FEATURE_BLK_SIZE: u64 = 1 << 6;
const FEATURE_FLUSH: u64 = 1 << 9;
const FEATURE_TOPOLOGY: u64 = 1 << 10;

const TYPE_IN: u32 = 0;
const TYPE_OUT: u32 = 1;
const TYPE_FLUSH: u32 = 4;
const TYPE_GET_ID: u32 = 8;

const HEADER_SIZE: u64 = 16;
const ID_SIZE: usize = 20;
const VERSION: u8 = 1;

/// A drive of the board.
pub struct Blk {
    drive: u8,
    sectors: u64,
    read_only: bool,
    id: [u8; ID_SIZE],
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    /// Requests in flight, by due time, then order of submission.
    pending: Vec<Request>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Request {
    due: VirtualTime,
    queue: u16,
    kind: u32,
    sector: u64,
    chain: Chain,
}

/// Status byte of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Ok = 0,
    IoErr = 1,
    Unsupp = 2,
}

impl From<TransferError> for Status {
    fn from(_: TransferError) -> Self {
        Status::IoErr
    }
}

impl From<DiskError> for Status {
    fn from(_: DiskError) -> Self {
        Status::IoErr
    }
}

impl Blk {
    /// Drive `drive` of the machine, `sectors` of [`SECTOR_SIZE`] bytes, with a serial number of
    /// which 20 bytes count.
    pub fn new(drive: u8, sectors: u64, read_only: bool, serial: &str) -> Self {
        let mut id = [0; ID_SIZE];
        for (to, from) in id.iter_mut().zip(serial.bytes()) {
            *to = from;
        }
        Blk {
            drive,
            sectors,
            read_only,
            id,
            state: State { pending: Vec::new() },
        }
    }

    /// Takes requests from the ring, as many as may be in flight.
    fn submit(&mut self, cx: &mut dyn Context, queues: &mut Queues, queue: u16) {
        while self.state.pending.len() < usize::from(QUEUE_SIZE) {
            let Some(chain) = queues.pop(cx, queue) else {
                return;
            };
            let mut header = [0; HEADER_SIZE as usize];
            let read = Cursor::new(&chain.readable).read(cx, &mut header);
            if read.is_err() || chain.writable_len() == 0 {
                return queues.fail();
            }
            let [k0, k1, k2, k3, _, _, _, _, sector @ ..] = header;
            let size = chain.readable_len() - HEADER_SIZE + chain.writable_len() - 1;
            let request = Request {
                due: cx.now().saturating_add(LATENCY_NS.saturating_add(size)),
                queue,
                kind: u32::from_le_bytes([k0, k1, k2, k3]),
                sector: u64::from_le_bytes(sector),
                chain,
            };
            let pending = &mut self.state.pending;
            let place = pending.partition_point(|other| other.due <= request.due);
            pending.insert(place, request);
        }
    }

    /// Serves a request that is due and gives its buffer back.
    fn finish(&mut self, cx: &mut dyn Context, queues: &mut Queues, request: &Request) {
        let chain = &request.chain;
        let room = chain.writable_len().saturating_sub(1);
        let (status, data) = match self.execute(cx, request, room) {
            Ok(data) => (Status::Ok, data),
            Err(status) => (status, 0),
        };
        let mut cursor = Cursor::new(&chain.writable);
        let stored = cursor.skip(room).and_then(|()| cursor.write(cx, &[status as u8]));
        if stored.is_err() {
            return queues.fail();
        }
        // The length counts only what was written from the start without a gap (2.7.8.2).
        let written = if data == room { data + 1 } else { data };
        queues.complete(cx, request.queue, chain.head, written as u32);
    }

    /// Moves the data of a request; returns how many bytes the driver got.
    fn execute(&self, cx: &mut dyn Context, request: &Request, room: u64) -> Result<u64, Status> {
        let chain = &request.chain;
        match request.kind {
            TYPE_IN => {
                let mut to = Cursor::new(&chain.writable);
                self.blocks(cx, request.sector, room, |cx, block, part| {
                    let mut buf = [0; BLOCK_SIZE];
                    cx.disk_read(self.drive, block, &mut buf)?;
                    Ok(to.write(cx, &buf[part])?)
                })?;
                Ok(room)
            }
            TYPE_OUT if self.read_only => Err(Status::IoErr),
            TYPE_OUT => {
                let mut from = Cursor::new(&chain.readable);
                from.skip(HEADER_SIZE)?;
                let len = chain.readable_len() - HEADER_SIZE;
                self.blocks(cx, request.sector, len, |cx, block, part| {
                    let mut buf = [0; BLOCK_SIZE];
                    if part.len() < BLOCK_SIZE {
                        cx.disk_read(self.drive, block, &mut buf)?;
                    }
                    from.read(cx, &mut buf[part])?;
                    Ok(cx.disk_write(self.drive, block, &buf)?)
                })?;
                Ok(0)
            }
            TYPE_FLUSH => Ok(0),
            TYPE_GET_ID => {
                let len = room.min(ID_SIZE as u64);
                Cursor::new(&chain.writable).write(cx, &self.id[..len as usize])?;
                Ok(len)
            }
            _ => Err(Status::Unsupp),
        }
    }

    /// Calls `each` with every block of the drive that `len` bytes from `sector` on touch, and which
    /// part of it.
    fn blocks(
        &self,
        cx: &mut dyn Context,
        sector: u64,
        len: u64,
        mut each: impl FnMut(&mut dyn Context, u64, std::ops::Range<usize>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let end = sector.checked_add(len / SECTOR_SIZE);
        let fits = len.is_multiple_of(SECTOR_SIZE)
            && len <= MAX_REQUEST
            && end.is_some_and(|end| end <= self.sectors);
        let start = sector.checked_mul(SECTOR_SIZE);
        let (Some(mut at), true) = (start, fits) else {
            return Err(Status::IoErr);
        };
        let mut left = len;
        while left > 0 {
            let offset = at % BLOCK_SIZE as u64;
            let count = left.min(BLOCK_SIZE as u64 - offset);
            let part = offset as usize..(offset + count) as usize;
            each(cx, at / BLOCK_SIZE as u64, part)?;
            at += count;
            left -= count;
        }
        Ok(())
    }
}

impl VirtioDevice for Blk {
    fn name(&self) -> &'static str {
        "virtio-blk"
    }

    fn device_id(&self) -> u32 {
        2
    }

    fn features(&self) -> u64 {
        let read_only = if self.read_only { FEATURE_RO } else { 0 };
        FEATURE_SIZE_MAX | FEATURE_SEG_MAX | FEATURE_BLK_SIZE | FEATURE_FLUSH | FEATURE_TOPOLOGY | read_only
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE]
    }

    /// `struct virtio_blk_config` (5.2.4) up to the topology.
    fn config(&self) -> Vec<u8> {
        let mut config = Vec::with_capacity(32);
        config.extend(self.sectors.to_le_bytes());
        config.extend(SIZE_MAX.to_le_bytes());
        config.extend(SEG_MAX.to_le_bytes());
        config.extend([0; 4]); // geometry: not offered
        config.extend((SECTOR_SIZE as u32).to_le_bytes());
        let sectors_per_block = BLOCK_SIZE as u64 / SECTOR_SIZE;
        config.push(sectors_per_block.trailing_zeros() as u8); // physical_block_exp
        config.push(0); // alignment_offset
        config.extend((sectors_per_block as u16).to_le_bytes()); // min_io_size
        config.extend(0u32.to_le_bytes()); // opt_io_size
        config
    }

    fn config_write(&mut self, _cx: &mut dyn Context, _offset: u64, _bytes: &[u8]) {}

    fn notified(&mut self, cx: &mut dyn Context, queues: &mut Queues, queue: u16) {
        self.submit(cx, queues, queue);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.state.pending.first().map(|request| request.due)
    }

    fn fire(&mut self, cx: &mut dyn Context, queues: &mut Queues) {
        let now = cx.now();
        let pending = &mut self.state.pending;
        let due = pending.partition_point(|request| request.due <= now);
        let full = pending.len() == usize::from(QUEUE_SIZE);
        let due: Vec<Request> = pending.drain(..due).collect();
        for request in &due {
            if !queues.is_broken() {
                self.finish(cx, queues, request);
            }
        }
        if full {
            self.submit(cx, queues, 0);
        }
        if queues.is_broken() {
            self.state.pending.clear();
        }
    }

    fn accepts(&self, _queues: &Queues, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _queues: &mut Queues, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            let pending = &state.pending;
            if pending.len() > usize::from(QUEUE_SIZE) {
                return Err("more requests in flight than the queue holds");
            }
            if !pending.is_sorted_by_key(|request| request.due) {
                return Err("requests out of order");
            }
            let possible = |request: &Request| {
                request.chain.is_possible()
                    && request.chain.readable_len() >= HEADER_SIZE
                    && request.chain.writable_len() > 0
            };
            if !pending.iter().all(possible) {
                return Err("a request that can't have been submitted");
            }
            Ok(())
        })?;
        Ok(())
    }

    fn reset(&mut self) {
        self.state.pending.clear();
    }
}
