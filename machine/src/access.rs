//! Accesses of a running hart that leave the fast path: translation, page crossings, devices, guards and
//! watchpoints. The one place for all of them, whichever engine runs.

use cpu::ir::{Rmw, Size, eval_rmw};
use cpu::{Access, Cpu, Env, Here, Layout, Outcome, RegFile, SpaceKey, Standing, Translation, Trap};

use crate::ram::PAGE;
use crate::stops::Stop;
use crate::system::{Located, System};

/// Why an access was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The guest's own exception.
    Trap(Trap),
    /// A watchpoint wants to stop before it.
    Stop,
}

impl From<Trap> for Refused {
    fn from(trap: Trap) -> Refused {
        Refused::Trap(trap)
    }
}

/// Part of an access, within one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub addr: u64,
    pub len: u64,
    pub place: Place,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Ram,
    Device { index: usize, offset: u64 },
}

/// Translates `len` bytes at `va`, all in one page, for an access; caches the translation.
pub(crate) fn part(cpu: &dyn Cpu, sys: &mut System, va: u64, len: u64, access: Access) -> Result<Part, Trap> {
    // A helper may have changed who accesses (x86: descriptor tables are read as the supervisor).
    let key = sys.own_key(cpu.data_space());
    reselect(cpu, sys);
    if sys.space_key != Some(key) {
        sys.select_space(cpu, key);
    }
    let cached = sys
        .memory
        .data(sys.space)
        .lookup(va)
        .filter(|entry| match access {
            Access::Write => entry.writable(),
            Access::Read | Access::Fetch => entry.read != 0,
        });
    if let Some(entry) = cached {
        let addr = sys.memory.ram().address_of(entry.page()) + va % PAGE;
        return Ok(Part {
            addr,
            len,
            place: Place::Ram,
        });
    }
    let found = walk(cpu, sys, va, access)?;
    if !found.cacheable {
        if cpu.protects(found.addr, len, access) {
            return Err(cpu.access_fault(va, access));
        }
        cpu.accessed(va, len, access);
    }
    match sys.locate(found, len, access) {
        Some(Located::Memory { page, translation }) => {
            reselect(cpu, sys);
            let space = sys.space;
            sys.memory.fill_data(space, va, page, &translation);
            Ok(Part {
                addr: translation.addr,
                len,
                place: Place::Ram,
            })
        }
        Some(Located::Device { index, offset }) => Ok(Part {
            addr: found.addr,
            len,
            place: Place::Device { index, offset },
        }),
        None => Err(cpu.access_fault(va, access)),
    }
}

/// After a walk or a write: bits that it set may have moved the root to another class.
fn reselect(cpu: &dyn Cpu, sys: &mut System) {
    if sys.memory.take_moved() {
        sys.leave = true;
        let key = sys.own_key(cpu.data_space());
        sys.select_space(cpu, key);
    }
}

/// Walks the tables. The A and D bits that it sets are writes of the step, which watchpoints see; they stand
/// before the step can be stopped, so a stop after that isn't at the observe point.
pub(crate) fn walk(cpu: &dyn Cpu, sys: &mut System, va: u64, access: Access) -> Result<Translation, Trap> {
    sys.walks += 1;
    let found = cpu.translate(&mut sys.memory, va, access);
    for entry in sys.memory.take_walk_writes() {
        sys.torn = true;
        sys.watching
            .access(&sys.memory, sys.at, sys.current, entry, 8, true);
    }
    found
}

/// Both parts of an access are translated and checked before a byte moves. A crossing into a device is an
/// access fault: no device has registers across a page boundary.
fn parts(
    cpu: &dyn Cpu,
    sys: &mut System,
    va: u64,
    size: Size,
    access: Access,
) -> Result<(Part, Option<Part>), Refused> {
    let here = (PAGE - va % PAGE).min(size.bytes());
    let first = part(cpu, sys, va, here, access)?;
    let second = if here == size.bytes() {
        None
    } else {
        let next = va.wrapping_add(here);
        let second = part(cpu, sys, next, size.bytes() - here, access)?;
        for (part, va) in [(first, va), (second, next)] {
            if let Place::Device { .. } = part.place {
                return Err(cpu.access_fault(va, access).into());
            }
        }
        Some(second)
    };
    if sys.watching.hit.is_some() {
        return Err(Refused::Stop);
    }
    for part in [Some(first), second].into_iter().flatten() {
        let write = access == Access::Write;
        if let Place::Ram = part.place
            && sys
                .watching
                .access(&sys.memory, sys.at, sys.current, part.addr, part.len, write)
        {
            return Err(Refused::Stop);
        }
    }
    Ok((first, second))
}

/// Checks an access to `len` bytes, in at most two pages, without making it: with its faults and its watchpoints.
pub(crate) fn check(
    cpu: &dyn Cpu,
    sys: &mut System,
    va: u64,
    len: u64,
    access: Access,
) -> Result<(), Refused> {
    let here = (PAGE - va % PAGE).min(len);
    let first = part(cpu, sys, va, here, access)?;
    let second = match len - here {
        0 => None,
        rest => Some(part(cpu, sys, va.wrapping_add(here), rest, access)?),
    };
    if sys.watching.hit.is_some() {
        return Err(Refused::Stop);
    }
    for part in [Some(first), second].into_iter().flatten() {
        let write = access == Access::Write;
        if let Place::Ram = part.place
            && sys
                .watching
                .access(&sys.memory, sys.at, sys.current, part.addr, part.len, write)
        {
            return Err(Refused::Stop);
        }
    }
    Ok(())
}

fn read_part(sys: &mut System, part: Part) -> u64 {
    match part.place {
        Place::Ram => {
            let mut bytes = [0; 8];
            sys.memory
                .ram()
                .read_bytes(part.addr, &mut bytes[..part.len as usize]);
            u64::from_le_bytes(bytes)
        }
        Place::Device { index, offset } => sys.mmio_read(index, part.addr, offset, part.len as u8),
    }
}

pub(crate) fn load(cpu: &dyn Cpu, sys: &mut System, va: u64, size: Size) -> Result<u64, Refused> {
    match parts(cpu, sys, va, size, Access::Read)? {
        (
            Part {
                addr,
                place: Place::Ram,
                ..
            },
            None,
        ) => Ok(sys.memory.ram().read(addr, size)),
        (first, None) => Ok(read_part(sys, first)),
        (first, Some(second)) => Ok(read_part(sys, first) | read_part(sys, second) << (8 * first.len)),
    }
}

pub(crate) fn store(cpu: &dyn Cpu, sys: &mut System, va: u64, size: Size, value: u64) -> Result<(), Refused> {
    match parts(cpu, sys, va, size, Access::Write)? {
        (
            Part {
                addr,
                place: Place::Ram,
                ..
            },
            None,
        ) => {
            if sys
                .memory
                .ram()
                .page_of(addr)
                .is_some_and(|page| sys.memory.ram().is_rom(page))
            {
                return Ok(());
            }
            sys.memory.write(Some(cpu), addr, size, value);
            tohost(sys, addr, size);
            regrant(cpu, sys, va, addr);
        }
        (
            Part {
                addr,
                len,
                place: Place::Device { index, offset },
            },
            None,
        ) => {
            sys.mmio_write(index, addr, offset, len as u8, value);
        }
        (first, Some(second)) => {
            let bytes = value.to_le_bytes();
            let (low, high) = bytes[..size.bytes() as usize].split_at(first.len as usize);
            sys.write_ram(first.addr, low);
            sys.write_ram(second.addr, high);
        }
    }
    if sys.memory.take_leave() {
        sys.leave = true;
    }
    Ok(())
}

/// After a guarded write the page may have lost its guards: let the next write be fast.
pub(crate) fn regrant(cpu: &dyn Cpu, sys: &mut System, va: u64, addr: u64) {
    reselect(cpu, sys);
    if let Some(page) = sys.memory.ram().page_of(addr)
        && sys.memory.guards(page).is_empty()
        && !sys.memory.grant(sys.space, va, page)
        && let Ok(found) = walk(cpu, sys, va, Access::Write)
        && let Some(Located::Memory { translation, .. }) = sys.locate(found, 1, Access::Write)
        && translation.addr == addr
    {
        reselect(cpu, sys);
        let space = sys.space;
        sys.memory.fill_data(space, va, page, &translation);
    }
}

/// HTIF: a store to the `tohost` word asks the host for something.
fn tohost(sys: &mut System, addr: u64, size: Size) {
    if let Some(word) = sys.tohost
        && addr < word + 8
        && word < addr + size.bytes()
    {
        sys.htif(word);
    }
}

/// The trap that a helper gets where a watchpoint wants to stop; [`Running::call`] sees through it.
const STOPPED: Trap = Trap {
    cause: u64::MAX,
    value: 0,
};

impl System {
    pub(crate) fn refuse<T>(&mut self, refused: Refused) -> Result<T, Trap> {
        Err(match refused {
            Refused::Trap(trap) => trap,
            Refused::Stop => STOPPED,
        })
    }
}

/// A hart while an engine runs it.
pub(crate) struct Running<'a> {
    pub cpu: &'a mut dyn Cpu,
    pub sys: &'a mut System,
    /// `sys.at` plus the budget that was left then: constant, so that any `left` tells the position.
    pub end: u64,
    /// Budget left when the hart was last told what it retired.
    pub told: u64,
    /// The hart's deadline that the budget was made for.
    pub deadline: Option<u64>,
    pub layout: &'static Layout,
}

impl Running<'_> {
    fn arrive(&mut self, here: Here) {
        self.sys.torn = false;
        self.sys.at = icount::Icount(self.end - here.left);
    }

    /// Tells the hart of the instructions retired until `left` was left.
    pub fn retire(&mut self, left: u64) {
        let steps = self.told - left;
        self.told = left;
        self.cpu.retire(steps, steps);
    }

    /// Whether the run loop has something to do at this boundary, before the budget is used up.
    pub fn boundary_matters(&mut self) -> bool {
        let standing = self.cpu.stand(0);
        self.stops(&standing)
    }

    fn stops(&self, standing: &Standing) -> bool {
        standing.stops || standing.deadline != self.deadline || self.sys.end_slice || self.sys.boundary_due()
    }

    /// Puts the translations of the spaces and the mode that the hart is in in front of translated code. Yields the code
    /// space and the block mode.
    pub fn select_spaces(&mut self) -> (usize, u64) {
        let standing = self.cpu.stand(0);
        (self.select(&standing), standing.mode)
    }

    /// As the hart stands. A shared code space serves the upper half, the root's own the lower one: code comes from one to
    /// the other by way of the loop alone, so the pc slot knows the half even where it isn't set at a block's end. (Where a
    /// change of mode leaves it wrong, what follows isn't found in that jump cache, and the loop asks anew.)
    fn select(&mut self, standing: &Standing) -> usize {
        let align = self.layout.pc_align;
        self.sys.memory.take_moved();
        let (data, fetch) = (self.sys.own_key(standing.data), self.sys.own_key(standing.fetch));
        let fetch = match self.cpu.pc() >> 63 {
            0 => SpaceKey { upper: 0, ..fetch },
            _ => fetch,
        };
        let wanted = (data, fetch, standing.mode);
        let (space, code) = self.sys.memory.spaces(self.cpu, wanted, align);
        self.sys.space = space;
        self.sys.space_key = Some(data);
        let regs = self.cpu.regs_mut();
        jit::tlb::set_data(regs, self.sys.memory.data(self.sys.space));
        jit::tlb::set_jumps(regs, self.sys.memory.code(code));
        code
    }

    /// Delivers an exception of the instruction at `pc`: one step. All before it is retired.
    pub fn deliver(&mut self, trap: Trap, pc: u64) {
        self.cpu.deliver(self.sys, trap, pc);
        self.told -= 1;
        self.cpu.retire(0, 1);
        self.sys.at.0 += 1;
    }

    /// Whether translated code may go on at this boundary, in the mode and the spaces that the hart is in now.
    /// `steps` more are retired.
    fn go_on(&mut self, steps: u64) -> Outcome {
        let standing = self.cpu.stand(steps);
        if self.stops(&standing) {
            return Outcome::Leave;
        }
        self.select(&standing);
        Outcome::Done
    }

    fn done(&mut self) -> Outcome {
        if std::mem::take(&mut self.sys.leave) {
            Outcome::Leave
        } else {
            Outcome::Done
        }
    }

    fn refused(&mut self, refused: Refused) -> Outcome {
        self.sys.trap = match refused {
            Refused::Trap(trap) if trap != STOPPED => Some(trap),
            Refused::Trap(_) | Refused::Stop => None,
        };
        Outcome::Stop
    }
}

impl Env for Running<'_> {
    fn load(&mut self, here: Here, addr: u64, size: Size) -> (Outcome, u64) {
        self.arrive(here);
        match load(self.cpu, self.sys, addr, size) {
            Ok(value) => (self.done(), value),
            Err(refused) => (self.refused(refused), 0),
        }
    }

    fn store(&mut self, here: Here, addr: u64, size: Size, value: u64) -> Outcome {
        self.arrive(here);
        match store(self.cpu, self.sys, addr, size, value) {
            Ok(()) => self.done(),
            Err(refused) => self.refused(refused),
        }
    }

    fn rmw(&mut self, here: Here, op: Rmw, addr: u64, size: Size, value: u64) -> (Outcome, u64) {
        self.arrive(here);
        if !addr.is_multiple_of(size.bytes()) {
            let trap = self.cpu.misaligned(addr, Access::Write);
            return (self.refused(trap.into()), 0);
        }
        let result =
            parts(self.cpu, self.sys, addr, size, Access::Write).and_then(|(part, _)| match part.place {
                // Atomics are for memory alone (PMA: AMONone).
                Place::Device { .. } => Err(self.cpu.access_fault(addr, Access::Write).into()),
                Place::Ram => Ok(part.addr),
            });
        // A read-write access hits read watchpoints too.
        let result = result.and_then(|pa| {
            let len = size.bytes();
            let stop =
                self.sys
                    .watching
                    .access(&self.sys.memory, self.sys.at, self.sys.current, pa, len, false);
            if stop { Err(Refused::Stop) } else { Ok(pa) }
        });
        match result {
            Ok(pa) => {
                let old = self.sys.memory.ram().read(pa, size);
                let new = eval_rmw(op, size, old, value);
                match store(self.cpu, self.sys, addr, size, new) {
                    Ok(()) => (self.done(), old),
                    Err(refused) => (self.refused(refused), 0),
                }
            }
            Err(refused) => (self.refused(refused), 0),
        }
    }

    fn call(&mut self, here: Here, helper: u16, args: [u64; 3]) -> (Outcome, u64) {
        self.arrive(here);
        self.retire(here.left);
        self.sys.left = here.left;
        let pc = self.cpu.regs()[self.layout.page].wrapping_add(u64::from(here.offset));
        match self.cpu.call(self.sys, helper, args, pc) {
            Ok(value) => (self.done(), value),
            Err(trap) => (self.refused(trap.into()), 0),
        }
    }

    fn boundary(&mut self, left: u64) -> (Outcome, u64) {
        if self.sys.memory.take_leave() || self.sys.leave {
            return (Outcome::Leave, 0);
        }
        let more = self.sys.more_steps;
        let left = left - more;
        let steps = self.told - left;
        self.told = left;
        let outcome = self.go_on(steps);
        if outcome == Outcome::Done {
            self.sys.more_steps = 0;
        }
        (outcome, more)
    }

    fn trap(&mut self, here: Here, trap: Trap) -> Outcome {
        self.arrive(here);
        self.retire(here.left);
        let pc = self.cpu.regs()[self.layout.page].wrapping_add(here.offset.into());
        self.deliver(trap, pc);
        if self.sys.memory.take_leave() || self.sys.leave {
            return Outcome::Leave;
        }
        self.go_on(0)
    }

    fn regs(&mut self) -> &mut RegFile {
        self.cpu.regs_mut()
    }

    fn check(&mut self, here: Here, addr: u64, len: u64, write: bool) -> Outcome {
        self.arrive(here);
        let access = if write { Access::Write } else { Access::Read };
        match check(self.cpu, self.sys, addr, len, access) {
            Ok(()) => self.done(),
            Err(refused) => self.refused(refused),
        }
    }

    fn raise(&mut self, here: Here, trap: Trap) -> Outcome {
        self.arrive(here);
        self.refused(trap.into())
    }

    fn breakpoint(&mut self, here: Here) -> bool {
        let addr = self.cpu.regs()[self.layout.page].wrapping_add(u64::from(here.offset));
        if self.sys.watching.breakpoints.binary_search(&addr).is_err() {
            return false;
        }
        self.arrive(here);
        let hart = self.sys.current;
        self.sys
            .watching
            .found(self.sys.at, Stop::Breakpoint { addr, hart })
    }
}
