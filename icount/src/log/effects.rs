//! The coding of effects inside a block: deltas, numbers of variable length, and runs.
//!
//! A block stands for itself: its head (outside the codec) gives the number and position of its
//! first effect, and the records start from there. A record is a tag byte, then:
//!
//! ```text
//!   literal   tag = operation | SKEW | HART
//!             number: icount minus that of the effect before (of the head, for the first)
//!             number: change of skew, if SKEW          byte: the hart, if HART
//!             the operation's fields
//!   repeat    tag = 15; number: how many more times the last effect came
//!             number: the stride between them in icount
//! ```
//!
//! *skew* is virtual time minus `icount × ns_per_step`, wrapping; it changes only when idle time is
//! skipped. Runs are decoded one effect at a time, never expanded: a hostile count costs nothing.

use crate::log::codec::{Bytes, put};
use crate::{Effect, Icount, VirtualTime};

const SKEW: u8 = 0x10;
const HART: u8 = 0x20;
const OPERATION: u8 = 0x0f;

const MMIO_READ: u8 = 0;
const MMIO_WRITE: u8 = 1;
const LINE_DOWN: u8 = 2;
const LINE_UP: u8 = 3;
const INTERRUPT: u8 = 4;
const DMA_READ: u8 = 5;
const DMA_WRITE: u8 = 6;
const CONSOLE_OUT: u8 = 7;
const HART_SWITCH: u8 = 8;
const RESET: u8 = 9;
const POWER_OFF: u8 = 10;
const PORT_READ: u8 = 11;
const PORT_WRITE: u8 = 12;
const FRAME_OUT: u8 = 13;
const REPEAT: u8 = 15;

/// Raw bytes after which a block is closed.
pub const BLOCK_RAW: usize = 64 << 10;
/// What a reader accepts: nothing larger is ever written.
pub const MAX_RAW: usize = 1 << 20;

/// An effect and where it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    pub at: Icount,
    pub time: VirtualTime,
    pub hart: u8,
    pub effect: Effect,
}

/// The head of a block, outside the codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// How many effects of the run stand before it.
    pub first_effect: u64,
    /// How many it holds; at least 1.
    pub count: u64,
    pub first_at: Icount,
    pub first_time: VirtualTime,
    pub last_at: Icount,
    pub last_time: VirtualTime,
    /// Bytes of its records before compression.
    pub raw_len: usize,
}

impl BlockHead {
    pub fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.first_effect);
        put(out, self.count);
        put(out, self.first_at.0);
        put(out, self.first_time.0);
        put(out, self.last_at.0);
        put(out, self.last_time.0);
        put(out, self.raw_len as u64);
    }

    /// Reads a head and checks its numbers against each other and against the bounds.
    pub fn decode(bytes: &mut Bytes<'_>) -> Option<Self> {
        let head = Self {
            first_effect: bytes.number()?,
            count: bytes.number()?,
            first_at: Icount(bytes.number()?),
            first_time: VirtualTime(bytes.number()?),
            last_at: Icount(bytes.number()?),
            last_time: VirtualTime(bytes.number()?),
            raw_len: usize::try_from(bytes.number()?).ok()?,
        };
        let sound = head.count > 0
            && head.first_effect.checked_add(head.count).is_some()
            && head.first_at <= head.last_at
            && head.raw_len <= MAX_RAW;
        sound.then_some(head)
    }
}

/// The block that is being filled.
#[derive(Debug)]
pub struct Encoder {
    ns_per_step: u64,
    raw: Vec<u8>,
    count: u64,
    first: (Icount, VirtualTime),
    last: Option<Logged>,
    skew: u64,
    hart: u8,
    run: u64,
    stride: u64,
}

impl Encoder {
    pub const fn new(ns_per_step: u64) -> Self {
        Self {
            ns_per_step,
            raw: Vec::new(),
            count: 0,
            first: (Icount::ZERO, VirtualTime::ZERO),
            last: None,
            skew: 0,
            hart: 0,
            run: 0,
            stride: 0,
        }
    }

    /// How many effects it holds.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether it should be closed.
    pub const fn is_full(&self) -> bool {
        self.raw.len() >= BLOCK_RAW
    }

    /// Adds an effect, which must not stand before the last one.
    pub fn push(&mut self, new: Logged) {
        let skew = new.time.0.wrapping_sub(new.at.0.wrapping_mul(self.ns_per_step));
        self.count += 1;
        let Some(last) = self.last.replace(new) else {
            self.first = (new.at, new.time);
            self.skew = skew;
            self.literal(new, 0, 0);
            return;
        };
        let delta = new.at.since(last.at);
        let same = new.effect == last.effect && new.hart == last.hart && skew == self.skew;
        if same && (self.run == 0 || delta == self.stride) {
            self.run += 1;
            self.stride = delta;
            return;
        }
        self.end_run();
        let skew_change = skew.wrapping_sub(self.skew);
        self.skew = skew;
        self.literal(new, delta, skew_change);
    }

    /// Closes the block and starts a new one. `None` if it is empty.
    pub fn close(&mut self, first_effect: u64) -> Option<(BlockHead, Vec<u8>)> {
        let last = self.last.take()?;
        self.end_run();
        let raw = std::mem::take(&mut self.raw);
        let head = BlockHead {
            first_effect,
            count: self.count,
            first_at: self.first.0,
            first_time: self.first.1,
            last_at: last.at,
            last_time: last.time,
            raw_len: raw.len(),
        };
        *self = Self::new(self.ns_per_step);
        Some((head, raw))
    }

    fn end_run(&mut self) {
        if self.run > 0 {
            self.raw.push(REPEAT);
            put(&mut self.raw, self.run);
            put(&mut self.raw, self.stride);
            self.run = 0;
        }
    }

    fn literal(&mut self, new: Logged, delta: u64, skew_change: u64) {
        let mut tag = operation(&new.effect);
        if skew_change != 0 {
            tag |= SKEW;
        }
        if new.hart != self.hart {
            tag |= HART;
        }
        let out = &mut self.raw;
        out.push(tag);
        put(out, delta);
        if skew_change != 0 {
            put(out, skew_change);
        }
        if new.hart != self.hart {
            out.push(new.hart);
            self.hart = new.hart;
        }
        match new.effect {
            Effect::Mmio {
                addr, size, value, ..
            } => {
                put(out, addr);
                out.push(size);
                put(out, value);
            }
            Effect::Port {
                port, size, value, ..
            } => {
                put(out, port.into());
                out.push(size);
                put(out, value.into());
            }
            Effect::FrameOut { port, len, digest } => {
                out.push(port);
                put(out, len.into());
                out.extend_from_slice(&digest.to_le_bytes());
            }
            Effect::Line { line, .. } => put(out, line.into()),
            Effect::Interrupt { cause } => put(out, cause),
            Effect::Dma {
                addr, len, digest, ..
            } => {
                put(out, addr);
                put(out, len.into());
                out.extend_from_slice(&digest.to_le_bytes());
            }
            Effect::ConsoleOut { port, byte } => out.extend_from_slice(&[port, byte]),
            Effect::HartSwitch { to } => out.push(to),
            Effect::Reset => {}
            Effect::PowerOff { code } => put(out, code.into()),
        }
    }
}

const fn operation(effect: &Effect) -> u8 {
    match effect {
        Effect::Mmio { write: false, .. } => MMIO_READ,
        Effect::Mmio { write: true, .. } => MMIO_WRITE,
        Effect::Port { write: false, .. } => PORT_READ,
        Effect::Port { write: true, .. } => PORT_WRITE,
        Effect::FrameOut { .. } => FRAME_OUT,
        Effect::Line { level: false, .. } => LINE_DOWN,
        Effect::Line { level: true, .. } => LINE_UP,
        Effect::Interrupt { .. } => INTERRUPT,
        Effect::Dma { write: false, .. } => DMA_READ,
        Effect::Dma { write: true, .. } => DMA_WRITE,
        Effect::ConsoleOut { .. } => CONSOLE_OUT,
        Effect::HartSwitch { .. } => HART_SWITCH,
        Effect::Reset => RESET,
        Effect::PowerOff { .. } => POWER_OFF,
    }
}

/// Reads a block, one effect at a time.
#[derive(Clone, Debug)]
pub struct Decoder {
    ns_per_step: u64,
    head: BlockHead,
    raw: Vec<u8>,
    offset: usize,
    left: u64,
    at: u64,
    skew: u64,
    hart: u8,
    effect: Option<Effect>,
    run: u64,
    stride: u64,
}

/// What is wrong with a block whose checksum was right (a hostile file, or our bug).
pub type Malformed = &'static str;

impl Decoder {
    /// A reader at the first effect of a block, given its decompressed records.
    pub fn new(ns_per_step: u64, head: BlockHead, raw: Vec<u8>) -> Self {
        let start = head.first_at.0.wrapping_mul(ns_per_step);
        Self {
            ns_per_step,
            head,
            raw,
            offset: 0,
            left: head.count,
            at: head.first_at.0,
            skew: head.first_time.0.wrapping_sub(start),
            hart: 0,
            effect: None,
            run: 0,
            stride: 0,
        }
    }

    /// The next effect; `None` at the end of the block.
    pub fn next(&mut self) -> Result<Option<Logged>, Malformed> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let effect = if self.run > 0 {
            self.run -= 1;
            self.advance(self.stride)?;
            self.effect.ok_or("a repeat of nothing")?
        } else {
            self.record()?
        };
        if self.left == 0 && (self.offset < self.raw.len() || self.run > 0) {
            return Err("an effect block holds more than its head says");
        }
        if self.left == 0 && self.at != self.head.last_at.0 {
            return Err("an effect block does not end where its head says");
        }
        let time = self.at.wrapping_mul(self.ns_per_step).wrapping_add(self.skew);
        Ok(Some(Logged {
            at: Icount(self.at),
            time: VirtualTime(time),
            hart: self.hart,
            effect,
        }))
    }

    /// Passes over `n` effects; runs in one go.
    pub fn skip(&mut self, mut n: u64) -> Result<(), Malformed> {
        while n > 0 {
            // The last effect is left to `next`, which checks the block's end.
            let quick = self.run.min(n).min(self.left.saturating_sub(1));
            if quick > 0 {
                self.pass_run(quick)?;
                n -= quick;
            } else if self.next()?.is_none() {
                return Err("an effect block ends early");
            } else {
                n -= 1;
            }
        }
        Ok(())
    }

    /// Passes over effects before boundary `at`, as far as whole runs allow; the caller passes the
    /// rest one by one.
    pub fn skip_run_before(&mut self, at: Icount) -> Result<u64, Malformed> {
        let gap = at.0.saturating_sub(self.at.saturating_add(1));
        let fit = gap.checked_div(self.stride).unwrap_or(self.run);
        let n = fit.min(self.run).min(self.left.saturating_sub(1));
        self.pass_run(n)?;
        Ok(n)
    }

    fn pass_run(&mut self, n: u64) -> Result<(), Malformed> {
        let distance = self.stride.checked_mul(n).ok_or("a run leaves the run's end")?;
        self.advance(distance)?;
        self.run -= n;
        self.left -= n;
        Ok(())
    }

    fn advance(&mut self, delta: u64) -> Result<(), Malformed> {
        let at = self.at.checked_add(delta).filter(|&at| at <= self.head.last_at.0);
        self.at = at.ok_or("an effect lies past the end of its block")?;
        Ok(())
    }

    fn record(&mut self) -> Result<Effect, Malformed> {
        // The slice borrows `raw` alone, and the position is written back at the end.
        let raw = std::mem::take(&mut self.raw);
        let mut bytes = Bytes(raw.get(self.offset..).unwrap_or(&[]));
        let result = self.read_record(&mut bytes);
        self.offset = raw.len() - bytes.0.len();
        self.raw = raw;
        result
    }

    fn read_record(&mut self, bytes: &mut Bytes<'_>) -> Result<Effect, Malformed> {
        const ENDS: Malformed = "an effect block ends inside a record";
        let tag = bytes.byte().ok_or(ENDS)?;
        if tag == REPEAT {
            let run = bytes.number().ok_or(ENDS)?;
            self.stride = bytes.number().ok_or(ENDS)?;
            self.run = run.checked_sub(1).ok_or("a run of no effects")?;
            self.advance(self.stride)?;
            return self.effect.ok_or("a repeat of nothing");
        }
        if tag & !(SKEW | HART | OPERATION) != 0 {
            return Err("an unknown record in an effect block");
        }
        let delta = bytes.number().ok_or(ENDS)?;
        self.advance(delta)?;
        if tag & SKEW != 0 {
            self.skew = self.skew.wrapping_add(bytes.number().ok_or(ENDS)?);
        }
        if tag & HART != 0 {
            self.hart = bytes.byte().ok_or(ENDS)?;
        }
        let effect = fields(tag & OPERATION, bytes).ok_or(ENDS)??;
        self.effect = Some(effect);
        Ok(effect)
    }
}

/// The fields of an operation: `None` where the bytes end.
fn fields(operation: u8, bytes: &mut Bytes<'_>) -> Option<Result<Effect, Malformed>> {
    let effect = match operation {
        MMIO_READ | MMIO_WRITE => Effect::Mmio {
            write: operation == MMIO_WRITE,
            addr: bytes.number()?,
            size: bytes.byte()?,
            value: bytes.number()?,
        },
        PORT_READ | PORT_WRITE => Effect::Port {
            write: operation == PORT_WRITE,
            port: bytes.number32()?.try_into().ok()?,
            size: bytes.byte()?,
            value: bytes.number32()?,
        },
        FRAME_OUT => Effect::FrameOut {
            port: bytes.byte()?,
            len: bytes.number32()?.try_into().ok()?,
            digest: fixed64(bytes)?,
        },
        LINE_DOWN | LINE_UP => Effect::Line {
            line: bytes.number32()?,
            level: operation == LINE_UP,
        },
        INTERRUPT => Effect::Interrupt {
            cause: bytes.number()?,
        },
        DMA_READ | DMA_WRITE => {
            let (addr, len) = (bytes.number()?, bytes.number32()?);
            let digest = fixed64(bytes)?;
            Effect::Dma {
                write: operation == DMA_WRITE,
                addr,
                len,
                digest,
            }
        }
        CONSOLE_OUT => Effect::ConsoleOut {
            port: bytes.byte()?,
            byte: bytes.byte()?,
        },
        HART_SWITCH => Effect::HartSwitch { to: bytes.byte()? },
        RESET => Effect::Reset,
        POWER_OFF => Effect::PowerOff {
            code: bytes.number32()?,
        },
        _ => return Some(Err("an unknown effect")),
    };
    Some(Ok(effect))
}

fn fixed64(bytes: &mut Bytes<'_>) -> Option<u64> {
    let mut word = [0; 8];
    for byte in &mut word {
        *byte = bytes.byte()?;
    }
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::samples;
    use proptest::prelude::*;

    fn decode_all(mut decoder: Decoder) -> Vec<Logged> {
        std::iter::from_fn(|| decoder.next().unwrap()).collect()
    }

    proptest! {
        #[test]
        fn blocks_round_trip(ns in 1u64..100, effects in samples::effects(200)) {
            let mut encoder = Encoder::new(ns);
            effects.iter().for_each(|&e| encoder.push(e));
            let closed = encoder.close(7);
            prop_assert_eq!(closed.is_some(), !effects.is_empty());
            if let Some((head, raw)) = closed {
                prop_assert_eq!(head.count, effects.len() as u64);
                let decoder = Decoder::new(ns, head, raw);
                prop_assert_eq!(decode_all(decoder.clone()), effects.clone());
                for n in 0..effects.len() {
                    let mut skipped = decoder.clone();
                    skipped.skip(n as u64).unwrap();
                    prop_assert_eq!(&decode_all(skipped), &effects[n..]);
                }
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(raw in prop::collection::vec(any::<u8>(), 0..100), count in 1u64..1000) {
            let (first_at, last_at) = (Icount(5), Icount(1 << 40));
            let time = VirtualTime(9);
            let head = BlockHead { first_effect: 0, count, first_at, first_time: time, last_at, last_time: time, raw_len: raw.len() };
            let mut decoder = Decoder::new(1, head, raw);
            let mut last = Icount::ZERO;
            while let Ok(Some(logged)) = decoder.next() {
                prop_assert!(logged.at >= last && logged.at <= last_at);
                last = logged.at;
            }
        }
    }

    #[test]
    fn polling_is_one_record_with_exact_positions() {
        let effect = Effect::Mmio {
            write: false,
            addr: 0x1000_0005,
            size: 1,
            value: 0x60,
        };
        let poll = |n: u64| Logged {
            at: Icount(1000 + 17 * n),
            time: VirtualTime(50_000 + 17 * n),
            hart: 0,
            effect,
        };
        let mut encoder = Encoder::new(1);
        (0..1_000_000).for_each(|n| encoder.push(poll(n)));
        let (head, raw) = encoder.close(0).unwrap();
        assert!(raw.len() < 20, "{} bytes", raw.len());
        let mut decoder = Decoder::new(1, head, raw);
        decoder.skip(999_998).unwrap();
        assert_eq!(decode_all(decoder.clone()), [poll(999_998), poll(999_999)]);
        assert_eq!(decoder.skip(3), Err("an effect block ends early"));
    }
}
