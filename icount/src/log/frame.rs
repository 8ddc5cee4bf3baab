//! The file's head and its frames, and what each kind of frame carries.
//!
//! A frame's head has a checksum of its own, taken with the frame's offset in the file: a damaged
//! length can't make the rest of the file look like a torn tail, and no frame is valid in another
//! place.

use crate::log::codec::{Bytes, put};
use crate::log::effects::BlockHead;
use crate::{BLOCK_SIZE, DebuggerWrite, End, Icount, Input, LOG_VERSION, VirtualTime};

/// The first bytes of every log.
pub const MAGIC: [u8; 8] = *b"TICKBKEV";
/// Bytes of the head of a file that a run begins in (version 1).
pub const FILE_HEAD: usize = 32;
/// Bytes of the head of a file that begins later (version 2).
pub const LATER_HEAD: usize = 72;
/// Bytes of a frame's head.
pub const FRAME_HEAD: usize = 16;
/// The longest payload, so that a hostile length allocates nothing.
pub const MAX_PAYLOAD: usize = 16 << 20;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Input = 1,
    Disk = 2,
    Progress = 3,
    Effects = 4,
    End = 5,
}

impl FrameKind {
    const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Input,
            2 => Self::Disk,
            3 => Self::Progress,
            4 => Self::Effects,
            5 => Self::End,
            _ => return None,
        })
    }
}

/// Where a file of the log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    pub ns_per_step: u64,
    /// The file's number, as in its name.
    pub segment: u32,
    /// What stands before it.
    pub base: Stand,
}

impl Begin {
    /// Where a run begins.
    pub const fn power_on(ns_per_step: u64) -> Self {
        Self {
            ns_per_step,
            segment: 0,
            base: Stand::ZERO,
        }
    }

    /// Bytes of the head.
    pub fn head_len(&self) -> usize {
        if self.segment == 0 && self.base == Stand::ZERO {
            FILE_HEAD
        } else {
            LATER_HEAD
        }
    }
}

/// The file's head, or why it is none.
pub enum FileHead {
    Valid(Begin),
    OtherVersion(u32),
    Invalid,
}

/// Reads a little-endian number at a fixed place of a head.
fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(from) = bytes.get(at..at + N) {
        out.copy_from_slice(from);
    }
    out
}

pub fn encode_file_head(begin: &Begin) -> Vec<u8> {
    let len = begin.head_len();
    let mut head = Vec::with_capacity(len);
    head.extend(MAGIC);
    head.extend(if len == FILE_HEAD { 1u32 } else { LOG_VERSION }.to_le_bytes());
    head.extend((len as u32).to_le_bytes());
    head.extend(begin.ns_per_step.to_le_bytes());
    head.extend(begin.segment.to_le_bytes());
    if len == LATER_HEAD {
        let Stand {
            at,
            time,
            inputs,
            effects,
        } = begin.base;
        head.extend([0; 4]);
        for number in [at.0, time.0, inputs, effects] {
            head.extend(number.to_le_bytes());
        }
        head.extend([0; 4]);
    }
    head.extend(crc32fast::hash(&head).to_le_bytes());
    head
}

/// Reads a head from the first bytes of a file, as many as there are.
pub fn decode_file_head(bytes: &[u8]) -> FileHead {
    if bytes.len() < 12 || bytes[..8] != MAGIC {
        return FileHead::Invalid;
    }
    let len = match u32::from_le_bytes(word(bytes, 8)) {
        1 => FILE_HEAD,
        LOG_VERSION => LATER_HEAD,
        version => return FileHead::OtherVersion(version),
    };
    let Some(head) = bytes.get(..len) else {
        return FileHead::Invalid;
    };
    let number = |at| u64::from_le_bytes(word(head, at));
    let mut begin = Begin::power_on(number(16));
    let mut zeros = head[24..28].to_vec();
    if len == LATER_HEAD {
        begin.segment = u32::from_le_bytes(word(head, 24));
        begin.base = Stand {
            at: Icount(number(32)),
            time: VirtualTime(number(40)),
            inputs: number(48),
            effects: number(56),
        };
        zeros = [&head[28..32], &head[64..68]].concat();
    }
    let sound = u32::from_le_bytes(word(head, 12)) as usize == len
        && zeros.iter().all(|byte| *byte == 0)
        && begin.ns_per_step > 0
        && begin.head_len() == len
        && u32::from_le_bytes(word(head, len - 4)) == crc32fast::hash(&head[..len - 4]);
    if sound {
        FileHead::Valid(begin)
    } else {
        FileHead::Invalid
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameHead {
    pub kind: FrameKind,
    pub len: usize,
    pub sum: u32,
}

fn head_sum(offset: u64, head: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&offset.to_le_bytes());
    hasher.update(head);
    hasher.finalize()
}

/// A whole frame for this place of the file, to be written at once.
pub fn encode_frame(kind: FrameKind, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_HEAD + payload.len());
    frame.extend_from_slice(&[kind as u8, 0, 0, 0]);
    frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    frame.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let sum = head_sum(offset, &frame);
    frame.extend_from_slice(&sum.to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The frame's head, if it is one for this place.
pub fn decode_frame_head(offset: u64, head: &[u8]) -> Option<FrameHead> {
    let kind = FrameKind::of(*head.first()?)?;
    if head.len() < FRAME_HEAD || head[1..4] != [0; 3] {
        return None;
    }
    if u32::from_le_bytes(word(head, 12)) != head_sum(offset, &head[..12]) {
        return None;
    }
    let len = u32::from_le_bytes(word(head, 4)) as usize;
    let sum = u32::from_le_bytes(word(head, 8));
    (len <= MAX_PAYLOAD).then_some(FrameHead { kind, len, sum })
}

/// Where an input, mark or end stands: all these frames begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    pub at: Icount,
    pub time: VirtualTime,
    /// Delivered inputs before it.
    pub inputs: u64,
    /// Effects before it.
    pub effects: u64,
}

impl Stand {
    /// Before everything.
    pub const ZERO: Self = Self {
        at: Icount::ZERO,
        time: VirtualTime::ZERO,
        inputs: 0,
        effects: 0,
    };

    fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.at.0);
        put(out, self.time.0);
        put(out, self.inputs);
        put(out, self.effects);
    }

    fn decode(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self {
            at: Icount(bytes.number()?),
            time: VirtualTime(bytes.number()?),
            inputs: bytes.number()?,
            effects: bytes.number()?,
        })
    }
}

/// What a frame says, as far as the index needs it.
pub enum Frame {
    Input(Stand),
    Disk(Stand, u8, u64),
    Progress(Stand),
    Effects(BlockHead),
    End(Stand, End),
}

/// Reads and checks a payload, whose checksum was right. `None` if it is malformed.
pub fn decode_frame(kind: FrameKind, payload: &[u8]) -> Option<Frame> {
    let bytes = &mut Bytes(payload);
    Some(match kind {
        FrameKind::Input => {
            let stand = Stand::decode(bytes)?;
            decode_input_fields(bytes)?;
            Frame::Input(stand)
        }
        FrameKind::Disk => {
            let (stand, drive, block) = (Stand::decode(bytes)?, bytes.byte()?, bytes.number()?);
            let coding = bytes.byte()?;
            let len = bytes.rest().len();
            let sound = match coding {
                ZEROS => len == 0,
                RAW => len == BLOCK_SIZE,
                ZSTD => len > 0 && len < BLOCK_SIZE,
                _ => false,
            };
            sound.then_some(Frame::Disk(stand, drive, block))?
        }
        FrameKind::Progress => {
            let stand = Stand::decode(bytes)?;
            bytes.is_empty().then_some(Frame::Progress(stand))?
        }
        FrameKind::Effects => {
            let head = BlockHead::decode(bytes)?;
            let sound = match bytes.byte()? {
                RAW => bytes.0.len() == head.raw_len,
                ZSTD => true,
                _ => false,
            };
            sound.then_some(Frame::Effects(head))?
        }
        FrameKind::End => {
            let stand = Stand::decode(bytes)?;
            let end = match bytes.byte()? {
                0 => End::Stopped,
                1 => End::PowerOff(bytes.number32()?),
                2 => End::WaitsForever,
                _ => return None,
            };
            bytes.is_empty().then_some(Frame::End(stand, end))?
        }
    })
}

const CONSOLE: u8 = 0;
const DEBUGGER_MEMORY: u8 = 1;
const DEBUGGER_REGISTER: u8 = 2;
const RESET: u8 = 3;
const KEY: u8 = 4;
const FRAME: u8 = 5;

/// The payload of an input frame. A disk block is content and has a frame of its own: an empty
/// one here.
pub fn encode_input(stand: &Stand, input: &Input) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    stand.encode(&mut out);
    match input {
        Input::Console { port, byte } => out.extend_from_slice(&[CONSOLE, *port, *byte]),
        Input::Key { code, down } => {
            out.extend_from_slice(&[KEY, u8::from(*down)]);
            out.extend_from_slice(&code.to_le_bytes());
        }
        Input::Frame { port, data } => {
            out.extend_from_slice(&[FRAME, *port]);
            out.extend_from_slice(data);
        }
        Input::Debugger(DebuggerWrite::Memory { addr, bytes }) => {
            out.push(DEBUGGER_MEMORY);
            put(&mut out, *addr);
            out.extend_from_slice(bytes);
        }
        Input::Debugger(DebuggerWrite::Register {
            hart,
            register,
            bytes,
        }) => {
            out.extend_from_slice(&[DEBUGGER_REGISTER, *hart]);
            put(&mut out, (*register).into());
            out.extend_from_slice(bytes);
        }
        Input::Reset => out.push(RESET),
        Input::DiskBlock { .. } => return None,
    }
    Some(out)
}

/// The input of an input frame.
pub fn decode_input(payload: &[u8]) -> Option<Input> {
    let bytes = &mut Bytes(payload);
    Stand::decode(bytes)?;
    decode_input_fields(bytes)
}

fn decode_input_fields(bytes: &mut Bytes<'_>) -> Option<Input> {
    let input = match bytes.byte()? {
        CONSOLE => Input::Console {
            port: bytes.byte()?,
            byte: bytes.byte()?,
        },
        KEY => {
            let down = match bytes.byte()? {
                0 => false,
                1 => true,
                _ => return None,
            };
            let code = u16::from_le_bytes([bytes.byte()?, bytes.byte()?]);
            Input::Key { code, down }
        }
        FRAME => Input::Frame {
            port: bytes.byte()?,
            data: bytes.rest().to_vec(),
        },
        DEBUGGER_MEMORY => {
            let (addr, bytes) = (bytes.number()?, bytes.rest().to_vec());
            Input::Debugger(DebuggerWrite::Memory { addr, bytes })
        }
        DEBUGGER_REGISTER => {
            let (hart, register) = (bytes.byte()?, bytes.number32()?);
            let bytes = bytes.rest().to_vec();
            Input::Debugger(DebuggerWrite::Register {
                hart,
                register,
                bytes,
            })
        }
        RESET => Input::Reset,
        _ => return None,
    };
    bytes.is_empty().then_some(input)
}

/// How content is stored: nothing (all zeros), as it is, or as a zstd frame.
const ZEROS: u8 = 0;
const RAW: u8 = 1;
const ZSTD: u8 = 2;

/// The payload of a disk block's frame. `packed` is its zstd form, if there is one.
pub fn encode_disk(stand: &Stand, drive: u8, block: u64, data: &[u8], packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    stand.encode(&mut out);
    out.push(drive);
    put(&mut out, block);
    if data.iter().all(|&byte| byte == 0) {
        out.push(ZEROS);
    } else if packed.is_empty() || packed.len() >= data.len() {
        out.push(RAW);
        out.extend_from_slice(data);
    } else {
        out.push(ZSTD);
        out.extend_from_slice(packed);
    }
    out
}

/// The drive, block and content of a disk block's frame.
pub fn decode_disk(payload: &[u8]) -> Option<(u8, u64, Vec<u8>)> {
    let bytes = &mut Bytes(payload);
    Stand::decode(bytes)?;
    let (drive, block) = (bytes.byte()?, bytes.number()?);
    let data = match bytes.byte()? {
        ZEROS => vec![0; BLOCK_SIZE],
        RAW => bytes.rest().to_vec(),
        ZSTD => zstd::bulk::decompress(bytes.rest(), BLOCK_SIZE).ok()?,
        _ => return None,
    };
    (data.len() == BLOCK_SIZE).then_some((drive, block, data))
}

/// The payload of a progress mark.
pub fn encode_progress(stand: &Stand) -> Vec<u8> {
    let mut out = Vec::new();
    stand.encode(&mut out);
    out
}

/// The payload of the end.
pub fn encode_end(stand: &Stand, end: End) -> Vec<u8> {
    let mut out = encode_progress(stand);
    match end {
        End::Stopped => out.push(0),
        End::PowerOff(code) => {
            out.push(1);
            put(&mut out, code.into());
        }
        End::WaitsForever => out.push(2),
    }
    out
}

/// The payload of an effect block. `packed` is the zstd form of `raw`, if there is one.
pub fn encode_block(head: &BlockHead, raw: &[u8], packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    head.encode(&mut out);
    if packed.is_empty() || packed.len() >= raw.len() {
        out.push(RAW);
        out.extend_from_slice(raw);
    } else {
        out.push(ZSTD);
        out.extend_from_slice(packed);
    }
    out
}

/// The records of an effect block.
pub fn decode_block(payload: &[u8]) -> Option<(BlockHead, Vec<u8>)> {
    let bytes = &mut Bytes(payload);
    let head = BlockHead::decode(bytes)?;
    let raw = match bytes.byte()? {
        RAW => bytes.rest().to_vec(),
        ZSTD => zstd::bulk::decompress(bytes.rest(), head.raw_len).ok()?,
        _ => return None,
    };
    (raw.len() == head.raw_len).then_some((head, raw))
}
