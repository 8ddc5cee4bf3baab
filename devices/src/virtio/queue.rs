//! Split virtqueues (virtio 1.2, 2.7), device side.
//!
//! ```text
//!   driver area (avail)            device area (used)             descriptor table
//!   +0 flags  +2 idx               +0 flags  +2 idx               16 bytes each:
//!   +4 ring[size]: u16 head        +4 ring[size]: u32 id, len     u64 addr, u32 len,
//!   +4+2*size used_event           +4+8*size avail_event          u16 flags, u16 next
//! ```
//!
//! Everything in guest memory is hostile. A chain has at most [`MAX_CHAIN`] descriptors and 4 GiB - 1
//! bytes; `idx` may be at most one ring ahead; any broken rule, and any ring address outside RAM,
//! breaks the queues for good ([`Queues::is_broken`]), until the driver resets the device.
//!
//! The device runs between two steps of the guest, so the races that the event index protocol of
//! 2.7.10 guards against can't happen; `avail_event` is written whenever a queue is found empty.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::function::{EVENT_IDX, INDIRECT_DESC};
use crate::{Context, DmaError};

/// Descriptors in the longest chain, indirect ones included.
pub const MAX_CHAIN: usize = 1024;

const DESC_SIZE: u64 = 16;
const DESC_F_NEXT: u16 = 1;
const DESC_F_WRITE: u16 = 2;
const DESC_F_INDIRECT: u16 = 4;
const AVAIL_F_NO_INTERRUPT: u16 = 1;

/// The virtqueues of one device, as the device sees them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Queues {
    pub(super) queues: Vec<Queue>,
    /// Features that the driver accepted.
    pub(super) features: u64,
    /// The driver broke a rule.
    pub(super) broken: bool,
    /// One bit for each queue whose driver wants to be interrupted; the transport takes them at
    /// the end of each call.
    #[serde(skip)]
    pub(super) signals: u64,
}

/// One virtqueue: where the driver put it, and how far the device is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Queue {
    pub(super) size: u16,
    pub(super) ready: bool,
    pub(super) desc: u64,
    pub(super) driver: u64,
    pub(super) device: u64,
    next_avail: u16,
    next_used: u16,
}

/// A buffer that the driver made available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Index of its first descriptor: its name in [`Queues::complete`].
    pub head: u16,
    /// What the device may read.
    pub readable: Vec<Segment>,
    /// What the device may write.
    pub writable: Vec<Segment>,
}

/// A piece of guest-physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
}

/// How a driver broke its ring. The guest's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum RingError {
    #[error(transparent)]
    Dma(#[from] DmaError),
    #[error("an address wraps")]
    Address,
    #[error("avail idx is more than a ring ahead")]
    AvailIndex,
    #[error("descriptor index outside its table")]
    DescriptorIndex,
    #[error("chain too long, or a loop")]
    ChainLength,
    #[error("indirect descriptor not negotiated, nested, chained on, or of a bad length")]
    Indirect,
    #[error("readable descriptor behind a writable one")]
    Order,
}

impl Queues {
    pub(super) fn new(max_sizes: &[u16]) -> Self {
        Queues {
            queues: max_sizes.iter().map(|&size| Queue::new(size)).collect(),
            features: 0,
            broken: false,
            signals: 0,
        }
    }

    /// Whether the driver accepted feature `bit`.
    pub fn has_feature(&self, bit: u32) -> bool {
        self.features >> bit & 1 != 0
    }

    /// Whether the driver broke a rule and must reset the device.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// The device found a request that breaks its rules.
    pub fn fail(&mut self) {
        self.broken = true;
    }

    /// The size of a queue that the driver has made ready.
    pub fn size(&self, queue: u16) -> Option<u16> {
        let queue = self.queues.get(usize::from(queue))?;
        queue.ready.then_some(queue.size)
    }

    /// The next available buffer of a queue, if there is one.
    pub fn pop(&mut self, cx: &mut dyn Context, queue: u16) -> Option<Chain> {
        let features = self.features;
        if self.broken {
            return None;
        }
        let queue = self.queues.get_mut(usize::from(queue))?;
        if !queue.ready {
            return None;
        }
        queue.pop(cx, features).unwrap_or_else(|_| {
            self.broken = true;
            None
        })
    }

    /// Gives a buffer back, of whose writable part the first `written` bytes were written.
    /// Nothing, if the queue has been stopped since.
    pub fn complete(&mut self, cx: &mut dyn Context, index: u16, head: u16, written: u32) {
        let features = self.features;
        let Some(queue) = self.queues.get_mut(usize::from(index)) else {
            return;
        };
        if self.broken || !queue.ready {
            return;
        }
        match queue.complete(cx, features, head, written) {
            Ok(false) => {}
            Ok(true) => self.signals |= 1u64.checked_shl(u32::from(index)).unwrap_or(0),
            Err(_) => self.broken = true,
        }
    }

    /// Whether a device with these greatest sizes can be in this state.
    pub(super) fn check(&self, max_sizes: &[u16]) -> Result<(), &'static str> {
        if self.queues.len() != max_sizes.len() {
            return Err("another number of queues");
        }
        let fits = |(queue, &max): (&Queue, &u16)| queue.size.is_power_of_two() && queue.size <= max;
        if !self.queues.iter().zip(max_sizes).all(fits) {
            return Err("a queue size that can't be set");
        }
        Ok(())
    }
}

impl Queue {
    fn new(size: u16) -> Self {
        Queue {
            size,
            ready: false,
            desc: 0,
            driver: 0,
            device: 0,
            next_avail: 0,
            next_used: 0,
        }
    }

    /// Starts or stops the queue; a start is at index 0.
    pub(super) fn set_ready(&mut self, ready: bool) {
        if ready && !self.ready {
            self.next_avail = 0;
            self.next_used = 0;
        }
        self.ready = ready;
    }

    fn slot(&self, index: u16) -> u64 {
        // Sizes are powers of two, never 0.
        u64::from(index & (self.size - 1))
    }

    fn pop(&mut self, cx: &mut dyn Context, features: u64) -> Result<Option<Chain>, RingError> {
        let avail_idx = read_u16(cx, self.driver, 2)?;
        let ahead = avail_idx.wrapping_sub(self.next_avail);
        if ahead == 0 {
            if features & EVENT_IDX != 0 {
                let event = 4 + 8 * u64::from(self.size);
                write(cx, self.device, event, &self.next_avail.to_le_bytes())?;
            }
            return Ok(None);
        }
        if ahead > self.size {
            return Err(RingError::AvailIndex);
        }
        let head = read_u16(cx, self.driver, 4 + 2 * self.slot(self.next_avail))?;
        let chain = self.chain(cx, features, head)?;
        self.next_avail = self.next_avail.wrapping_add(1);
        Ok(Some(chain))
    }

    fn chain(&self, cx: &mut dyn Context, features: u64, head: u16) -> Result<Chain, RingError> {
        let mut chain = Chain {
            head,
            readable: Vec::new(),
            writable: Vec::new(),
        };
        let mut table = (self.desc, u32::from(self.size));
        let mut indirect = false;
        let mut index = head;
        let mut total = 0u32;
        for _ in 0..MAX_CHAIN {
            if u32::from(index) >= table.1 {
                return Err(RingError::DescriptorIndex);
            }
            let mut bytes = [0; DESC_SIZE as usize];
            read(cx, table.0, DESC_SIZE * u64::from(index), &mut bytes)?;
            let [addr @ .., l0, l1, l2, l3, f0, f1, n0, n1] = bytes;
            let segment = Segment {
                addr: u64::from_le_bytes(addr),
                len: u32::from_le_bytes([l0, l1, l2, l3]),
            };
            let flags = u16::from_le_bytes([f0, f1]);
            if flags & DESC_F_INDIRECT != 0 {
                let legal = features & INDIRECT_DESC != 0
                    && !indirect
                    && flags & DESC_F_NEXT == 0
                    && segment.len != 0
                    && u64::from(segment.len).is_multiple_of(DESC_SIZE);
                if !legal {
                    return Err(RingError::Indirect);
                }
                indirect = true;
                table = (segment.addr, segment.len / DESC_SIZE as u32);
                index = 0;
                continue;
            }
            total = total.checked_add(segment.len).ok_or(RingError::ChainLength)?;
            if flags & DESC_F_WRITE != 0 {
                chain.writable.push(segment);
            } else if chain.writable.is_empty() {
                chain.readable.push(segment);
            } else {
                return Err(RingError::Order);
            }
            if flags & DESC_F_NEXT == 0 {
                return Ok(chain);
            }
            index = u16::from_le_bytes([n0, n1]);
        }
        Err(RingError::ChainLength)
    }

    /// Puts a used element, and says whether the driver wants an interrupt for it.
    fn complete(
        &mut self,
        cx: &mut dyn Context,
        features: u64,
        head: u16,
        written: u32,
    ) -> Result<bool, RingError> {
        let mut element = [0; 8];
        element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        element[4..].copy_from_slice(&written.to_le_bytes());
        write(cx, self.device, 4 + 8 * self.slot(self.next_used), &element)?;
        let old = self.next_used;
        self.next_used = old.wrapping_add(1);
        write(cx, self.device, 2, &self.next_used.to_le_bytes())?;
        if features & EVENT_IDX != 0 {
            // 2.7.10's vring_need_event(event, old + 1, old).
            let event = read_u16(cx, self.driver, 4 + 2 * u64::from(self.size))?;
            Ok(event == old)
        } else {
            let flags = read_u16(cx, self.driver, 0)?;
            Ok(flags & AVAIL_F_NO_INTERRUPT == 0)
        }
    }
}

fn read(cx: &mut dyn Context, base: u64, offset: u64, buf: &mut [u8]) -> Result<(), RingError> {
    let addr = base.checked_add(offset).ok_or(RingError::Address)?;
    Ok(cx.dma_read(addr, buf)?)
}

fn write(cx: &mut dyn Context, base: u64, offset: u64, buf: &[u8]) -> Result<(), RingError> {
    let addr = base.checked_add(offset).ok_or(RingError::Address)?;
    Ok(cx.dma_write(addr, buf)?)
}

fn read_u16(cx: &mut dyn Context, base: u64, offset: u64) -> Result<u16, RingError> {
    let mut buf = [0; 2];
    read(cx, base, offset, &mut buf)?;
    Ok(u16::from_le_bytes(buf))
}

impl Chain {
    /// Bytes that the device may read.
    pub fn readable_len(&self) -> u64 {
        self.readable.iter().map(|s| u64::from(s.len)).sum()
    }

    /// Bytes that the device may write.
    pub fn writable_len(&self) -> u64 {
        self.writable.iter().map(|s| u64::from(s.len)).sum()
    }

    /// Whether a chain from [`Queues::pop`] can be so.
    pub fn is_possible(&self) -> bool {
        self.readable.len() + self.writable.len() <= MAX_CHAIN
            && self.readable_len() + self.writable_len() <= u64::from(u32::MAX)
    }
}

/// A transfer between a device and the buffer of a chain failed. The guest's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TransferError {
    /// The buffer is not in RAM.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// The buffer is too short.
    #[error("the driver's buffer is too short")]
    Short,
}

/// A place in the readable or the writable part of a chain, moving forward.
pub struct Cursor<'a> {
    segments: &'a [Segment],
    /// Bytes of the first segment that are behind.
    behind: u32,
}

impl<'a> Cursor<'a> {
    /// At the beginning of `segments`.
    pub fn new(segments: &'a [Segment]) -> Self {
        Cursor { segments, behind: 0 }
    }

    /// Moves `count` bytes forward.
    ///
    /// # Errors
    /// [`TransferError::Short`] if there are fewer.
    pub fn skip(&mut self, mut count: u64) -> Result<(), TransferError> {
        while count > 0 {
            let (_, len) = self.piece(count)?;
            count -= u64::from(len);
        }
        Ok(())
    }

    /// Fills `buf` from guest memory.
    ///
    /// # Errors
    /// [`TransferError`], with `buf` filled up to there.
    pub fn read(&mut self, cx: &mut dyn Context, buf: &mut [u8]) -> Result<(), TransferError> {
        let mut rest = buf;
        while !rest.is_empty() {
            let (addr, len) = self.piece(rest.len() as u64)?;
            let (piece, behind) = rest.split_at_mut(len as usize);
            cx.dma_read(addr, piece)?;
            rest = behind;
        }
        Ok(())
    }

    /// Stores `buf` to guest memory.
    ///
    /// # Errors
    /// [`TransferError`], with what lies before stored.
    pub fn write(&mut self, cx: &mut dyn Context, buf: &[u8]) -> Result<(), TransferError> {
        let mut rest = buf;
        while !rest.is_empty() {
            let (addr, len) = self.piece(rest.len() as u64)?;
            let (piece, behind) = rest.split_at(len as usize);
            cx.dma_write(addr, piece)?;
            rest = behind;
        }
        Ok(())
    }

    /// The next piece of at most `limit` (not 0) bytes that lies in one segment; never empty.
    fn piece(&mut self, limit: u64) -> Result<(u64, u32), TransferError> {
        loop {
            let (segment, behind) = self.segments.split_first().ok_or(TransferError::Short)?;
            let left = segment.len.saturating_sub(self.behind);
            if left == 0 {
                self.segments = behind;
                self.behind = 0;
                continue;
            }
            let len = u64::from(left).min(limit) as u32;
            let addr = segment.addr.checked_add(u64::from(self.behind)).ok_or(DmaError {
                addr: segment.addr,
                len: u64::from(segment.len),
            })?;
            self.behind += len;
            return Ok((addr, len));
        }
    }
}
