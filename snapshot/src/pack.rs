//! Pack files: append-only sequences of frames, each a group of pages (or of tree nodes) with their ids.
//!
//! ```text
//! file:   8 bytes "TBKPACK\0" | u16 version | 6 bytes zero | frames
//! frame:  4 bytes "TBKF" | u8 kind | u8 codec | u16 count | u32 raw length | u32 stored length
//!         | 32 × count bytes of ids | 16 bytes checksum | stored bytes
//! kinds:  0 pages, raw = count × 4096 bytes; 1 nodes, raw = for each u16 length, then its bytes
//! codecs: 0 none; 1 zstd
//! ```
//!
//! Integers are little-endian. The checksum is the first half of the BLAKE3 of what stands before it in the frame, so
//! an index is rebuilt without reading what is stored; that is checked by the ids (BLAKE3 of each page or node) when
//! it's read. A frame is written by one `write`. Reader and writer are both here.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use icount::open_regular;

use crate::error::{Result, SnapshotError};
use crate::node::MAX_NODE;
use crate::page::{PAGE_SIZE, Page, PageId};

/// The version of the format of packs.
pub(crate) const VERSION: u16 = 1;

/// A pack is closed and the next begun at this size.
pub(crate) const PACK_BYTES: u64 = 256 << 20;

const FILE_MAGIC: [u8; 8] = *b"TBKPACK\0";
const FRAME_MAGIC: [u8; 4] = *b"TBKF";
pub(crate) const FILE_HEAD: u64 = 16;
const FRAME_HEAD: usize = 16;
const CHECKSUM: usize = 16;

/// The most pages or nodes in a frame.
pub(crate) const MAX_COUNT: usize = 256;
const MAX_RAW: usize = MAX_COUNT * PAGE_SIZE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pages,
    Nodes,
}

/// The blocks of a frame, decompressed.
pub(crate) enum Group {
    Pages(Vec<Arc<Page>>),
    Nodes(Vec<Arc<[u8]>>),
}

/// What is to become a frame.
pub(crate) struct Unpacked {
    pub(crate) ids: Vec<PageId>,
    pub(crate) group: Group,
}

impl Unpacked {
    /// The bytes of the frame. Nodes are hashes, which don't compress, so that isn't tried.
    pub(crate) fn pack(
        &self,
        level: i32,
        compressor: &mut Option<zstd::bulk::Compressor<'static>>,
    ) -> Vec<u8> {
        let (kind, raw) = match &self.group {
            Group::Pages(pages) => {
                let mut raw = Vec::with_capacity(pages.len() * PAGE_SIZE);
                pages.iter().for_each(|p| raw.extend_from_slice(&p[..]));
                (0, raw)
            }
            Group::Nodes(nodes) => {
                let mut raw = Vec::with_capacity(nodes.iter().map(|n| n.len() + 2).sum());
                for node in nodes {
                    raw.extend((node.len() as u16).to_le_bytes());
                    raw.extend_from_slice(node);
                }
                (1, raw)
            }
        };
        let packed = if kind == 0 {
            if compressor.is_none() {
                *compressor = zstd::bulk::Compressor::new(level).ok();
            }
            compressor
                .as_mut()
                .and_then(|c| c.compress(&raw).ok())
                .filter(|p| p.len() < raw.len())
        } else {
            None
        };
        let (codec, stored) = packed.as_ref().map_or((0, &raw), |p| (1, p));
        let mut out = Vec::with_capacity(FRAME_HEAD + self.ids.len() * 32 + CHECKSUM + stored.len());
        out.extend(FRAME_MAGIC);
        out.extend([kind, codec]);
        out.extend((self.ids.len() as u16).to_le_bytes());
        out.extend((raw.len() as u32).to_le_bytes());
        out.extend((stored.len() as u32).to_le_bytes());
        self.ids.iter().for_each(|id| out.extend(id.0));
        let checksum = blake3::hash(&out);
        out.extend(&checksum.as_bytes()[..CHECKSUM]);
        out.extend_from_slice(stored);
        out
    }
}

/// The header of a pack file.
pub(crate) fn file_head() -> [u8; FILE_HEAD as usize] {
    let mut head = [0; FILE_HEAD as usize];
    head[..8].copy_from_slice(&FILE_MAGIC);
    head[8..10].copy_from_slice(&VERSION.to_le_bytes());
    head
}

/// A frame's header, checked.
pub(crate) struct FrameHead {
    pub(crate) kind: Kind,
    packed: bool,
    /// Bytes of its blocks, unpacked.
    pub(crate) raw: usize,
    stored: usize,
    pub(crate) ids: Vec<PageId>,
}

impl FrameHead {
    /// Bytes of the whole frame.
    pub(crate) fn len(&self) -> u64 {
        (self.stored_at() + self.stored) as u64
    }

    fn stored_at(&self) -> usize {
        FRAME_HEAD + self.ids.len() * 32 + CHECKSUM
    }
}

/// An open pack file.
pub(crate) struct Pack {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
}

impl Pack {
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let mut file = open_regular(&path).map_err(SnapshotError::io("open pack", &path))?;
        let mut head = [0; FILE_HEAD as usize];
        if file.read_exact(&mut head).is_err() || head[..8] != FILE_MAGIC {
            return Err(SnapshotError::damaged(
                &path,
                0,
                "it doesn't begin as a pack file",
            ));
        }
        let found = u16::from_le_bytes([head[8], head[9]]);
        if found != VERSION {
            return Err(SnapshotError::Version {
                path,
                found,
                known: VERSION,
            });
        }
        Ok(Self { file, path })
    }

    pub(crate) fn size(&self) -> Result<u64> {
        Ok(self
            .file
            .metadata()
            .map_err(SnapshotError::io("read the size of", &self.path))?
            .len())
    }

    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        match self.file.read_exact_at(&mut bytes, at) {
            Ok(()) => Ok(bytes),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Err(SnapshotError::damaged(
                &self.path,
                at,
                "the file ends in the middle of a frame",
            )),
            Err(e) => Err(SnapshotError::io("read", &self.path)(e)),
        }
    }

    /// Reads and checks the header of the frame at `at`.
    pub(crate) fn frame_head(&self, at: u64) -> Result<FrameHead> {
        let damaged = |what: &str| SnapshotError::damaged(&self.path, at, what);
        // Usually all of it at once.
        let mut first = [0; FRAME_HEAD + 64 * 32 + CHECKSUM];
        let got = self
            .file
            .read_at(&mut first, at)
            .map_err(SnapshotError::io("read", &self.path))?;
        let Some((head, rest)) = first[..got].split_at_checked(FRAME_HEAD) else {
            return Err(damaged("the file ends in the middle of a frame"));
        };
        let count = usize::from(u16::from_le_bytes([head[6], head[7]]));
        let raw = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let stored = u32::from_le_bytes([head[12], head[13], head[14], head[15]]) as usize;
        if head[..4] != FRAME_MAGIC {
            return Err(damaged("no frame begins here"));
        }
        let (kind, fits) = match head[4] {
            0 => (Kind::Pages, raw == count * PAGE_SIZE),
            1 => (Kind::Nodes, raw <= count * (MAX_NODE + 2)),
            _ => return Err(damaged("the frame is of an unknown kind")),
        };
        if head[5] > 1 || count == 0 || count > MAX_COUNT || !fits || raw > MAX_RAW || stored > raw {
            return Err(damaged("the frame's header is impossible"));
        }
        let more;
        let rest = match rest.get(..count * 32 + CHECKSUM) {
            Some(rest) => rest,
            None => {
                more = self.read(at + FRAME_HEAD as u64, count * 32 + CHECKSUM)?;
                &more
            }
        };
        let (ids, checksum) = rest.split_at(count * 32);
        let mut hasher = blake3::Hasher::new();
        hasher.update(head).update(ids);
        if hasher.finalize().as_bytes()[..CHECKSUM] != *checksum {
            return Err(damaged("the frame's header fails its checksum"));
        }
        let ids = ids
            .chunks_exact(32)
            .map(|c| PageId(std::array::from_fn(|i| c[i])))
            .collect();
        Ok(FrameHead {
            kind,
            packed: head[5] == 1,
            raw,
            stored,
            ids,
        })
    }

    /// Reads the frame at `at`. The ids are not checked against the blocks here: the reader of a block does.
    pub(crate) fn group(&self, at: u64) -> Result<Group> {
        let damaged = |what: &str| SnapshotError::damaged(&self.path, at, what);
        let head = self.frame_head(at)?;
        let mut raw = self.read(at + head.stored_at() as u64, head.stored)?;
        if head.packed {
            raw = decompress(&raw, head.raw).map_err(|_| damaged("the frame doesn't decompress"))?;
        }
        if raw.len() != head.raw {
            return Err(damaged("the frame is shorter than it says"));
        }
        let group = match head.kind {
            Kind::Pages => {
                let pages = raw.as_chunks::<PAGE_SIZE>().0;
                Group::Pages(pages.iter().map(|p| Arc::new(*p)).collect())
            }
            Kind::Nodes => {
                let mut rest = raw.as_slice();
                let mut nodes = Vec::with_capacity(head.ids.len());
                while let Some((len, more)) = rest.split_first_chunk() {
                    let Some((node, more)) = more.split_at_checked(u16::from_le_bytes(*len).into()) else {
                        return Err(damaged("a node reaches past the frame"));
                    };
                    nodes.push(Arc::from(node));
                    rest = more;
                }
                Group::Nodes(nodes)
            }
        };
        Ok(group)
    }
}

/// Decompresses what takes at most `most` bytes. The context, which is dear, is a thread's.
fn decompress(packed: &[u8], most: usize) -> std::io::Result<Vec<u8>> {
    thread_local! {
        static CONTEXT: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(zstd::bulk::Decompressor::new()?),
        };
        context.decompress(packed, most)
    })
}

/// The path of pack `n` in `dir`.
pub(crate) fn pack_path(dir: &Path, n: u32) -> PathBuf {
    dir.join(format!("{n:04}.pack"))
}
