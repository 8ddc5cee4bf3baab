//! Saving and restoring a whole machine (DESIGN laws 6 and 8).
//!
//! The state is a tree of pages (RAM by page number; drive blocks above [`DRIVES`]) and one canonical byte
//! string of everything else. Saving observes only. Restoring compares pages, so that code and translations
//! of those that don't differ survive.

use std::collections::BTreeSet;
use std::sync::Arc;

use icount::{Clock, Icount};
use serde::{Deserialize, Serialize};
use snapshot::{
    Behind, Edit, PageId, PageRef, PageSource, Root, Spares, Tree, Written, ZERO_PAGE, whole_root,
};

use crate::error::MachineError;
use crate::machine::Machine;
use crate::schedule::Schedule;
use crate::shadow::Granules;

/// Tree keys of drive blocks: `DRIVES | drive << 32 | block`.
pub const DRIVES: u64 = 1 << 43;

/// Pages that a restore reads at a time: 16 MiB.
const TOGETHER: usize = 4096;

/// Version of [`Saved`]; another one is refused.
const VERSION: u8 = 2;

/// Everything but pages.
#[derive(Serialize, Deserialize)]
struct Saved {
    at: Icount,
    clock: Clock,
    current: u8,
    schedule: Schedule,
    end_slice: bool,
    power: Option<Option<u32>>,
    lines: Vec<u64>,
    local_windows: Vec<Option<u64>>,
    shadow: Option<Granules>,
    harts: Vec<Vec<u8>>,
    devices: Vec<Vec<u8>>,
    /// Drive blocks that are known, since an all-zero one has no page.
    blocks: Vec<(u8, u64)>,
}

/// A machine's state in memory.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Position.
    pub at: Icount,
    /// Pages.
    pub tree: Tree,
    /// Everything else.
    pub state: Arc<Vec<u8>>,
}

impl Snapshot {
    /// The root of the whole state.
    pub fn root(&self) -> Root {
        whole_root(self.tree.root(), &self.state)
    }
}

/// Pages as of the last snapshot taken or restored.
pub(crate) enum Base {
    Here(Tree),
    /// Changes are only handed over: the recorder keeps the tree, and no copies of pages stay here.
    Recorder(Written),
}

impl Default for Base {
    fn default() -> Base {
        Base::Here(Tree::new())
    }
}

impl Base {
    /// The tree. The recorder's is waited for, and stands here from now on.
    fn here(&mut self) -> Result<&mut Tree, MachineError> {
        if let Base::Recorder(written) = self {
            *self = Base::Here(written.tree()?);
        }
        match self {
            Base::Here(tree) => Ok(tree),
            Base::Recorder(_) => Err(MachineError::State("its pages are elsewhere".into())),
        }
    }
}

fn drive_key(drive: u8, block: u64) -> u64 {
    DRIVES | u64::from(drive) << 32 | block
}

/// What changed, and pages that did and are copied behind.
pub(crate) type Changes = (Vec<Edit>, Option<Box<dyn Behind>>);

impl Machine {
    /// Pages that changed since the last call, as edits of a tree, in order. A snapshot's page-diff.
    fn take_edits(&mut self) -> Vec<Edit> {
        let dirty = self.sys.memory.take_dirty();
        let ram = self.sys.memory.ram();
        let mut spares = self.spares.take(dirty.len());
        let mut edits: Vec<Edit> = dirty
            .into_iter()
            .map(|page| {
                let copy = PageRef::filled(spares.pop(), |bytes| ram.copy_page(page.into(), bytes));
                (page.into(), copy)
            })
            .collect();
        edits.extend(self.take_blocks());
        edits
    }

    fn take_blocks(&mut self) -> impl Iterator<Item = Edit> {
        let blocks = self.sys.disks.take_dirty().into_iter();
        blocks.map(|((drive, block), bytes)| (drive_key(drive, block), bytes.and_then(PageRef::of)))
    }

    /// How many pages the next snapshot has.
    pub fn changed_pages(&self) -> u64 {
        (self.sys.memory.dirty().len() + self.sys.disks.dirty().count()) as u64
    }

    /// Memory for copies of pages comes from here, where whoever gets the copies gives it back.
    pub fn set_spares(&mut self, spares: Spares) {
        self.spares = spares;
    }

    /// As [`Machine::take_edits`], and the base tree follows.
    pub fn take_edits_into_base(&mut self) -> Result<Vec<Edit>, MachineError> {
        self.base.here()?;
        let edits = self.take_edits();
        self.base.here()?.extend(&edits)?;
        Ok(edits)
    }

    /// The base is `written`, of which nothing is written yet: the machine is at power-on.
    pub(crate) fn recorded_from_power_on(&mut self, written: &Written) {
        self.base = Base::Recorder(written.clone());
    }

    /// What changed since `written`, which the caller extends with it: that tree, as it is then, is the base from now on. Pages of
    /// memory may be left to be copied behind.
    pub(crate) fn changes_since(&mut self, written: &Written) -> Result<Changes, MachineError> {
        let changes = match &self.base {
            // Nobody took changes in between.
            Base::Recorder(_) => {
                let behind = self.sys.memory.take_behind(&self.spares);
                let behind: Box<dyn Behind> = Box::new(behind);
                (self.take_blocks().collect(), Some(behind))
            }
            Base::Here(_) => {
                self.take_edits_into_base()?;
                let mut edits = Vec::new();
                written
                    .tree()?
                    .diff::<MachineError>(self.base.here()?, |key, _, page| {
                        edits.push((key, page.cloned()));
                        Ok(())
                    })?;
                (edits, None)
            }
        };
        self.base = Base::Recorder(written.clone());
        Ok(changes)
    }

    /// Everything but pages, canonically.
    pub fn save_state(&self) -> Result<Vec<u8>, MachineError> {
        let saved = Saved {
            at: self.sys.at,
            clock: self.sys.clock,
            current: self.sys.current,
            schedule: self.schedule.clone(),
            end_slice: self.sys.end_slice,
            power: self.sys.power.map(|p| match p {
                devices::Power::Off { code } => Some(code),
                devices::Power::Reset => None,
            }),
            lines: self.sys.lines.clone(),
            local_windows: self.sys.local_windows.clone(),
            shadow: self.sys.memory.shadow(),
            harts: self.harts.iter().map(|cpu| cpu.save()).collect(),
            devices: self
                .sys
                .devices
                .iter()
                .filter_map(|m| Some(m.device.as_ref()?.save()))
                .collect(),
            blocks: self.sys.disks.known(),
        };
        let mut bytes = vec![VERSION];
        bytes.extend(postcard::to_stdvec(&saved).map_err(|e| MachineError::State(e.to_string()))?);
        Ok(bytes)
    }

    /// The state here. The tree shares what did not change since the last one.
    pub fn save(&mut self) -> Result<Snapshot, MachineError> {
        self.take_edits_into_base()?;
        Ok(Snapshot {
            at: self.sys.at,
            tree: self.base.here()?.clone(),
            state: Arc::new(self.save_state()?),
        })
    }

    /// Brings the machine to a saved state, in time proportional to the difference. The door is not moved.
    /// On an error the machine's state is unspecified, and it must be restored again before it runs.
    pub fn restore(&mut self, snapshot: &Snapshot, source: &dyn PageSource) -> Result<(), MachineError> {
        let saved = decode(&snapshot.state)?;
        let mut keys: BTreeSet<u64> = self.sys.memory.dirty().iter().map(|p| u64::from(*p)).collect();
        keys.extend(
            self.sys
                .disks
                .dirty()
                .map(|(drive, block)| drive_key(drive, block)),
        );
        self.base
            .here()?
            .diff::<MachineError>(&snapshot.tree, |key, _, _| {
                keys.insert(key);
                Ok(())
            })?;
        let known: BTreeSet<(u8, u64)> = saved.blocks.iter().copied().collect();
        let keys: Vec<u64> = keys.into_iter().collect();
        for keys in keys.chunks(TOGETHER) {
            self.restore_pages(snapshot, source, keys, &known)?;
        }
        self.sys.disks.retain(&known);
        self.sys.disks.clear_dirty();
        self.sys.memory.take_dirty();
        self.base = Base::Here(snapshot.tree.clone());
        self.restore_state(saved)
    }

    /// Puts back these pages, as far as they differ.
    fn restore_pages(
        &mut self,
        snapshot: &Snapshot,
        source: &dyn PageSource,
        keys: &[u64],
        known: &BTreeSet<(u8, u64)>,
    ) -> Result<(), MachineError> {
        let leaves: Vec<Option<Arc<PageRef>>> = keys
            .iter()
            .map(|key| snapshot.tree.get(*key).map(Option::<&_>::cloned))
            .collect::<Result<_, _>>()?;
        // Those that are on disk only are read together.
        let elsewhere = |leaf: &Option<Arc<PageRef>>| {
            let leaf = leaf.as_ref()?;
            leaf.bytes().is_none().then(|| leaf.id())
        };
        let ids: Vec<PageId> = leaves.iter().filter_map(elsewhere).collect();
        let mut read = source.pages(&ids)?.into_iter();
        for (&key, leaf) in keys.iter().zip(&leaves) {
            let page = match leaf.as_ref().map(|leaf| leaf.bytes()) {
                Some(Some(bytes)) => Some(Arc::clone(bytes)),
                Some(None) => read.next(),
                None => None,
            };
            if key & DRIVES != 0 {
                let (drive, block) = ((key >> 32) as u8, key & u64::from(u32::MAX));
                let page = page.unwrap_or_else(|| Arc::new(ZERO_PAGE));
                self.sys
                    .disks
                    .restore(drive, block, known.contains(&(drive, block)).then_some(page));
            } else {
                let bytes = page.as_deref().unwrap_or(&ZERO_PAGE);
                self.sys
                    .memory
                    .restore_page(key, bytes)
                    .map_err(MachineError::State)?;
            }
        }
        Ok(())
    }

    fn restore_state(&mut self, saved: Saved) -> Result<(), MachineError> {
        let wrong = |what: &str| MachineError::State(what.to_owned());
        if saved.harts.len() != self.harts.len() || usize::from(saved.current) >= self.harts.len() {
            return Err(wrong("it has another number of harts"));
        }
        if saved.devices.len() != self.sys.devices.len() || saved.lines.len() != self.sys.lines.len() {
            return Err(wrong("it has other devices"));
        }
        let devices = self.sys.devices.len();
        let unknown = |holders: &u64| devices < 64 && holders >> devices != 0;
        if saved.local_windows.len() != self.harts.len()
            || saved.shadow.is_some() != self.sys.memory.shadow().is_some()
            || saved.lines.iter().any(unknown)
        {
            return Err(wrong("it is of another board"));
        }
        for (cpu, bytes) in self.harts.iter_mut().zip(&saved.harts) {
            cpu.restore(bytes)
                .map_err(|e| MachineError::State(e.to_string()))?;
        }
        for (mapped, bytes) in self.sys.devices.iter_mut().zip(&saved.devices) {
            if let Some(device) = &mut mapped.device {
                device
                    .restore(bytes)
                    .map_err(|e| MachineError::State(e.to_string()))?;
            }
        }
        self.sys.at = saved.at;
        self.sys.clock = saved.clock;
        self.sys.current = saved.current;
        self.schedule = saved.schedule;
        self.ended = None;
        self.sys.end_slice = saved.end_slice;
        self.sys.power = saved.power.map(|p| match p {
            Some(code) => devices::Power::Off { code },
            None => devices::Power::Reset,
        });
        self.sys.lines = saved.lines;
        self.sys.set_local_windows(saved.local_windows);
        self.sys.set_protections(&self.harts);
        if let Some(granules) = saved.shadow {
            self.sys.memory.set_shadow(granules);
        }
        self.sys.forget_step();
        self.worked = false;
        Ok(())
    }

    /// The root of the state here: equal roots mean equal machines.
    pub fn root(&mut self) -> Result<Root, MachineError> {
        Ok(self.save()?.root())
    }
}

fn decode(bytes: &[u8]) -> Result<Saved, MachineError> {
    let wrong = |what: &str| MachineError::State(what.to_owned());
    let (version, rest) = bytes.split_first().ok_or_else(|| wrong("it is empty"))?;
    if *version != VERSION {
        return Err(MachineError::State(format!(
            "it has version {version}, this program knows {VERSION}"
        )));
    }
    let (saved, rest) = postcard::take_from_bytes(rest).map_err(|e| MachineError::State(e.to_string()))?;
    if !rest.is_empty() {
        return Err(wrong("bytes are left over"));
    }
    Ok(saved)
}
