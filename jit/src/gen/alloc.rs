//! Where values are while a block is translated, forward, op by op.
//!
//! A value can be in several places at once: a temporary (general or vector), the home or the memory slot
//! of a guest register that holds the same, a spill word; and constants and page addresses need no place at
//! all. Before a home or slot is overwritten, values that are still needed and live nowhere else are
//! moved. Temporaries are taken from values that have another place first, then from the one that is
//! needed last.

use super::Generator;
use super::integer::cc_of;
use crate::asm::{Alu, Mem, RAX, RCX, RDX, RSP, Reg, Rm, Xmm};
use crate::gen_regs::{HOMES, TEMPS};
use crate::plan::NONE;
use crate::words::{self, SPILLS};
use cpu::ir::{Bin, Op, Un, Width};

/// No value.
const FREE: u16 = u16::MAX;

/// What is known of a value besides its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Nothing,
    Const(u64),
    /// Virtual base of the page plus this.
    Page(i32),
}

/// Places of one value.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub temp: u8,
    pub xmm: u8,
    pub home: u8,
    pub spill: u8,
    pub slot: u16,
    pub known: Known,
}

impl Place {
    const NOWHERE: Place = Place {
        temp: NONE,
        xmm: NONE,
        home: NONE,
        spill: NONE,
        slot: FREE,
        known: Known::Nothing,
    };

    /// Whether the value is somewhere else than in a temporary.
    fn is_backed(&self) -> bool {
        self.home != NONE || self.spill != NONE || self.slot != FREE || self.known != Known::Nothing
    }
}

/// An operand as an instruction takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Reg(Reg),
    Mem(Mem),
    Imm(i32),
}

/// The state of the allocation.
#[derive(Debug)]
pub struct Alloc {
    pub places: Vec<Place>,
    temps: [u16; 16],
    xmms: [u16; 16],
    homes: [u16; 8],
    /// Slots in memory and the values that they hold.
    slots: Vec<(u16, u16)>,
    spills: [u16; SPILLS],
    pinned: u32,
    pinned_xmm: u32,
    /// Set if more values were alive than there are spill words: the code is no good.
    pub overflow: bool,
}

impl Default for Alloc {
    fn default() -> Alloc {
        Alloc {
            places: Vec::new(),
            temps: [FREE; 16],
            xmms: [FREE; 16],
            homes: [FREE; 8],
            slots: Vec::new(),
            spills: [FREE; SPILLS],
            pinned: 0,
            pinned_xmm: 0,
            overflow: false,
        }
    }
}

impl Clone for Alloc {
    fn clone(&self) -> Alloc {
        let mut copy = Alloc::default();
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, from: &Alloc) {
        self.places.clone_from(&from.places);
        self.temps = from.temps;
        self.xmms = from.xmms;
        self.homes = from.homes;
        self.slots.clone_from(&from.slots);
        self.spills = from.spills;
        self.pinned = from.pinned;
        self.pinned_xmm = from.pinned_xmm;
        self.overflow = from.overflow;
    }
}

impl Alloc {
    /// Empty, for that many values.
    pub fn reset(&mut self, values: usize) {
        self.places.clear();
        self.places.resize(values, Place::NOWHERE);
        self.temps = [FREE; 16];
        self.xmms = [FREE; 16];
        self.homes = [FREE; 8];
        self.slots.clear();
        self.spills = [FREE; SPILLS];
        (self.pinned, self.pinned_xmm) = (0, 0);
        self.overflow = false;
    }
}

impl Generator {
    pub fn place(&self, v: u16) -> Place {
        self.alloc.places[usize::from(v)]
    }

    /// Whether a value is used by an op after `self.at`.
    pub fn needed(&self, v: u16) -> bool {
        usize::from(self.last[usize::from(v)]) > self.at + 1
    }

    pub fn pin(&mut self, r: Reg) {
        self.alloc.pinned |= 1 << r.0;
    }

    pub fn unpin(&mut self, r: Reg) {
        self.alloc.pinned &= !(1 << r.0);
    }

    /// After an op: nothing is pinned, and what nobody needs any more is let go.
    pub fn end_op(&mut self) {
        self.alloc.pinned = 0;
        self.alloc.pinned_xmm = 0;
        for r in TEMPS {
            let v = self.alloc.temps[usize::from(r.0)];
            if v != FREE && !self.needed(v) {
                self.release(r);
            }
        }
        for x in 0..16 {
            let v = self.alloc.xmms[x];
            if v != FREE && !self.needed(v) {
                self.alloc.places[usize::from(v)].xmm = NONE;
                self.alloc.xmms[x] = FREE;
            }
        }
    }

    fn release(&mut self, r: Reg) {
        let v = std::mem::replace(&mut self.alloc.temps[usize::from(r.0)], FREE);
        if v != FREE {
            self.alloc.places[usize::from(v)].temp = NONE;
        }
    }

    /// Whether a spill word is in use, by a value that is still needed.
    fn spill_taken(&self, i: usize) -> bool {
        let holder = self.alloc.spills[i];
        holder != FREE && usize::from(self.last[usize::from(holder)]) > self.at
    }

    /// Two spill words side by side, for a vector.
    fn spill_words(&mut self, v: u16) -> u8 {
        for i in 0..SPILLS - 1 {
            if self.spill_taken(i) || self.spill_taken(i + 1) {
                continue;
            }
            for word in [i, i + 1] {
                let holder = std::mem::replace(&mut self.alloc.spills[word], v);
                if holder != FREE {
                    self.alloc.places[usize::from(holder)].spill = NONE;
                }
            }
            self.alloc.places[usize::from(v)].spill = i as u8;
            return i as u8;
        }
        self.alloc.overflow = true;
        0
    }

    fn spill_word(&mut self, v: u16) -> u8 {
        for i in 0..SPILLS {
            let holder = self.alloc.spills[i];
            if holder == FREE || usize::from(self.last[usize::from(holder)]) <= self.at {
                if holder != FREE {
                    self.alloc.places[usize::from(holder)].spill = NONE;
                }
                self.alloc.spills[i] = v;
                self.alloc.places[usize::from(v)].spill = i as u8;
                return i as u8;
            }
        }
        self.alloc.overflow = true;
        0
    }

    /// Frees a temporary, saving its value if it is nowhere else.
    fn evict(&mut self, r: Reg) {
        let v = self.alloc.temps[usize::from(r.0)];
        if v == FREE {
            return;
        }
        if !self.place(v).is_backed() && usize::from(self.last[usize::from(v)]) > self.at {
            let word = self.spill_word(v);
            self.a().store(true, words::spill(word), r);
        }
        self.release(r);
    }

    /// An unused temporary, pinned until the op ends.
    pub fn temp(&mut self) -> Reg {
        let mut best = None;
        let mut best_cost = u32::MAX;
        for r in TEMPS {
            if self.alloc.pinned & 1 << r.0 != 0 {
                continue;
            }
            let v = self.alloc.temps[usize::from(r.0)];
            let cost = if v == FREE {
                0
            } else if self.place(v).is_backed() {
                0x1_0000 - u32::from(self.last[usize::from(v)])
            } else {
                0x3_0000 - u32::from(self.last[usize::from(v)])
            };
            if cost < best_cost {
                (best, best_cost) = (Some(r), cost);
            }
        }
        let Some(r) = best else {
            // Can't happen: no op pins four and asks for one more.
            self.alloc.overflow = true;
            return RAX;
        };
        self.evict(r);
        self.pin(r);
        r
    }

    /// A certain temporary, pinned until the op ends; its value moves away.
    pub fn temp_at(&mut self, r: Reg) {
        let v = self.alloc.temps[usize::from(r.0)];
        self.pin(r);
        if v == FREE {
            return;
        }
        let free = TEMPS
            .into_iter()
            .find(|t| self.alloc.pinned & 1 << t.0 == 0 && self.alloc.temps[usize::from(t.0)] == FREE);
        match free {
            Some(to) if !self.place(v).is_backed() => {
                self.a().mov(true, to, r);
                self.release(r);
                self.alloc.temps[usize::from(to.0)] = v;
                self.alloc.places[usize::from(v)].temp = to.0;
            }
            _ => self.evict(r),
        }
    }

    /// An unused vector register, pinned until the op ends.
    pub fn temp_xmm(&mut self) -> Xmm {
        let mut best = None;
        let mut best_cost = u32::MAX;
        for x in 0..16u8 {
            if self.alloc.pinned_xmm & 1 << x != 0 {
                continue;
            }
            let v = self.alloc.xmms[usize::from(x)];
            let cost = if v == FREE {
                0
            } else if self.place(v).is_backed() {
                0x1_0000 - u32::from(self.last[usize::from(v)])
            } else {
                0x3_0000 - u32::from(self.last[usize::from(v)])
            };
            if cost < best_cost {
                (best, best_cost) = (Some(x), cost);
            }
        }
        let Some(x) = best else {
            self.alloc.overflow = true;
            return Xmm(0);
        };
        let v = self.alloc.xmms[usize::from(x)];
        if v != FREE {
            if !self.place(v).is_backed() && usize::from(self.last[usize::from(v)]) > self.at {
                if self.is_vector(v) {
                    let word = self.spill_words(v);
                    self.a().vstore(words::spill(word), Xmm(x));
                } else {
                    let word = self.spill_word(v);
                    self.a().fstore(true, words::spill(word), Xmm(x));
                }
            }
            self.alloc.places[usize::from(v)].xmm = NONE;
            self.alloc.xmms[usize::from(x)] = FREE;
        }
        self.alloc.pinned_xmm |= 1 << x;
        Xmm(x)
    }

    /// Whether any vector register holds something that is still needed.
    pub fn vectors_alive(&self) -> bool {
        self.alloc
            .xmms
            .iter()
            .any(|v| *v != FREE && usize::from(self.last[usize::from(*v)]) > self.at)
    }

    /// Where a value can be read without being loaded.
    pub fn memory(&self, v: u16) -> Option<Mem> {
        let p = self.place(v);
        if p.spill != NONE {
            Some(words::spill(p.spill))
        } else if p.slot != FREE {
            Some(words::word(usize::from(p.slot)))
        } else {
            None
        }
    }

    /// The register in which a value is already.
    pub fn in_reg(&self, v: u16) -> Option<Reg> {
        let p = self.place(v);
        if p.temp != NONE {
            Some(Reg(p.temp))
        } else if p.home != NONE {
            Some(HOMES[usize::from(p.home)])
        } else {
            None
        }
    }

    /// A register that holds the value, pinned.
    pub fn reg(&mut self, v: u16) -> Reg {
        if let Some(r) = self.in_reg(v) {
            self.pin(r);
            return r;
        }
        let r = self.temp();
        self.fetch(r, v);
        self.alloc.temps[usize::from(r.0)] = v;
        self.alloc.places[usize::from(v)].temp = r.0;
        r
    }

    /// Copies a value into a register; changes no flags, unless it is a page address.
    pub fn fetch(&mut self, to: Reg, v: u16) {
        if let Some(r) = self.in_reg(v) {
            self.a().mov(true, to, r);
            return;
        }
        match self.place(v).known {
            Known::Const(c) => self.a().mov_imm(to, c),
            Known::Page(offset) => self.page_address(to, offset),
            Known::Nothing => match self.memory(v) {
                Some(m) => self.a().load(true, to, m),
                None => {
                    let xmm = self.place(v).xmm;
                    // Code with too many values alive isn't used.
                    debug_assert!(
                        xmm != NONE || self.alloc.overflow,
                        "v{v} is nowhere at op {}",
                        self.at
                    );
                    self.a().reg_from_xmm(true, to, Xmm(xmm));
                }
            },
        }
    }

    /// Loads the page's base plus an offset; changes no flags.
    pub fn page_address(&mut self, to: Reg, offset: i32) {
        let page = words::word(usize::from(self.layout.page.0));
        self.a().load(true, to, page);
        if offset != 0 {
            self.a().lea(to, Mem::new(to, offset));
        }
    }

    /// A vector register that holds the value, pinned.
    pub fn xmm(&mut self, v: u16) -> Xmm {
        let p = self.place(v);
        if p.xmm != NONE {
            self.alloc.pinned_xmm |= 1 << p.xmm;
            return Xmm(p.xmm);
        }
        let x = self.temp_xmm();
        if let Some(m) = self.memory(v) {
            if self.is_vector(v) {
                self.a().vload(x, m);
            } else {
                self.a().fload(true, x, m);
            }
        } else if let Some(r) = self.in_reg(v) {
            self.a().xmm_from_reg(true, x, r);
        } else {
            let r = self.reg(v);
            self.a().xmm_from_reg(true, x, r);
        }
        self.alloc.xmms[usize::from(x.0)] = v;
        self.alloc.places[usize::from(v)].xmm = x.0;
        x
    }

    /// The value as a source operand of 64 bits; in a register, pinned, if it is worth loading.
    pub fn operand(&mut self, v: u16) -> Operand {
        if let Some(c) = self.constant(v)
            && let Ok(imm) = i32::try_from(c as i64)
        {
            return Operand::Imm(imm);
        }
        self.rm(v)
    }

    /// As [`Generator::operand`], of which only the low 32 bits count.
    pub fn operand32(&mut self, v: u16) -> Operand {
        match self.constant(v) {
            Some(c) => Operand::Imm(c as i32),
            None => self.rm(v),
        }
    }

    /// As [`Generator::operand`], but never an immediate.
    pub fn rm(&mut self, v: u16) -> Operand {
        if self.in_reg(v).is_none()
            && self.constant(v).is_none()
            && !self.needed(v)
            && let Some(m) = self.memory(v)
        {
            return Operand::Mem(m);
        }
        Operand::Reg(self.reg(v))
    }

    pub fn constant(&self, v: u16) -> Option<u64> {
        match self.place(v).known {
            Known::Const(c) => Some(c),
            Known::Page(_) | Known::Nothing => None,
        }
    }

    /// The home that the hint of op `at` names, if its old value isn't needed after the op.
    pub fn hinted(&self) -> Option<u8> {
        let home = self.plan.hint[self.at];
        if home == NONE {
            return None;
        }
        let old = self.alloc.homes[usize::from(home)];
        (old == FREE || !self.needed(old) || self.has_other(old)).then_some(home)
    }

    /// Whether a value is somewhere else than in its home.
    fn has_other(&self, v: u16) -> bool {
        let p = self.place(v);
        p.temp != NONE || p.xmm != NONE || Place { home: NONE, ..p }.is_backed()
    }

    /// A register for the result of the op: its home if it may go there, the temporary of a value of
    /// `reuse` that dies with the op, or another temporary. It may be a register of an operand; the
    /// operands' places are as before until [`Generator::define`].
    pub fn dest(&mut self, reuse: &[u16]) -> Reg {
        if let Some(home) = self.hinted() {
            return HOMES[usize::from(home)];
        }
        for v in reuse {
            let p = self.place(*v);
            if p.temp != NONE && !self.needed(*v) {
                return Reg(p.temp);
            }
        }
        self.temp()
    }

    /// The result of op `at` is in `r`, which is its home by hint, or a temporary.
    pub fn define(&mut self, r: Reg) {
        let v = self.at as u16;
        if let Some(home) = HOMES.iter().position(|h| *h == r) {
            let old = std::mem::replace(&mut self.alloc.homes[home], v);
            if old != FREE {
                self.alloc.places[usize::from(old)].home = NONE;
            }
            self.alloc.places[usize::from(v)].home = home as u8;
        } else {
            let old = std::mem::replace(&mut self.alloc.temps[usize::from(r.0)], v);
            if old != FREE {
                self.alloc.places[usize::from(old)].temp = NONE;
            }
            self.alloc.places[usize::from(v)].temp = r.0;
        }
    }

    /// Value `v` (a result, or a host address) is in vector register `x`.
    pub fn define_xmm(&mut self, x: Xmm) {
        let v = self.at as u16;
        let old = std::mem::replace(&mut self.alloc.xmms[usize::from(x.0)], v);
        if old != FREE {
            self.alloc.places[usize::from(old)].xmm = NONE;
        }
        self.alloc.places[usize::from(v)].xmm = x.0;
    }

    /// Value `v`, which is no op's, is in temporary `r`.
    pub fn define_extra(&mut self, v: u16, r: Reg) {
        self.alloc.temps[usize::from(r.0)] = v;
        self.alloc.places[usize::from(v)].temp = r.0;
    }

    /// Op `at` yields something that needs no place.
    pub fn define_known(&mut self, known: Known) {
        self.alloc.places[self.at].known = known;
    }

    /// Op `at` reads a slot with a home.
    pub fn alias_home(&mut self, home: u8) {
        let v = self.at as u16;
        let old = self.alloc.homes[usize::from(home)];
        if old != FREE && self.needed(old) {
            let r = self.temp();
            self.a().mov(true, r, HOMES[usize::from(home)]);
            self.define(r);
            return;
        }
        if old != FREE {
            self.alloc.places[usize::from(old)].home = NONE;
        }
        self.alloc.homes[usize::from(home)] = v;
        self.alloc.places[usize::from(v)].home = home;
    }

    /// Op `at` reads a slot in memory.
    pub fn alias_slot(&mut self, slot: u16) {
        let v = self.at as u16;
        self.alloc.slots.push((slot, v));
        self.alloc.places[usize::from(v)].slot = slot;
    }

    /// Before a home is overwritten.
    pub fn leave_home(&mut self, home: u8) {
        let old = std::mem::replace(&mut self.alloc.homes[usize::from(home)], FREE);
        if old == FREE {
            return;
        }
        if self.needed(old) && !self.has_other(old) {
            let r = self.temp();
            self.a().mov(true, r, HOMES[usize::from(home)]);
            self.alloc.temps[usize::from(r.0)] = old;
            self.alloc.places[usize::from(old)].temp = r.0;
        }
        self.alloc.places[usize::from(old)].home = NONE;
    }

    /// Before a slot in memory is overwritten, which may be part of a vector's.
    pub fn leave_slot(&mut self, slot: u16) {
        let mut i = 0;
        while i < self.alloc.slots.len() {
            let (s, v) = self.alloc.slots[i];
            if s != slot && !(s == slot & !1 && self.is_vector(v)) {
                i += 1;
                continue;
            }
            self.alloc.slots.swap_remove(i);
            let p = self.place(v);
            let other = p.temp != NONE
                || p.xmm != NONE
                || p.home != NONE
                || p.spill != NONE
                || p.known != Known::Nothing;
            if self.needed(v) && !other {
                let m = words::word(usize::from(s));
                if self.is_float(v) || self.is_vector(v) {
                    let x = self.temp_xmm();
                    if self.is_vector(v) {
                        self.a().vload(x, m);
                    } else {
                        self.a().fload(true, x, m);
                    }
                    self.alloc.xmms[usize::from(x.0)] = v;
                    self.alloc.places[usize::from(v)].xmm = x.0;
                    self.alloc.pinned_xmm &= !(1 << x.0);
                } else {
                    let r = self.temp();
                    self.a().load(true, r, m);
                    self.alloc.temps[usize::from(r.0)] = v;
                    self.alloc.places[usize::from(v)].temp = r.0;
                    self.unpin(r);
                }
            }
            self.alloc.places[usize::from(v)].slot = FREE;
        }
    }

    /// Before something may change every slot: values that are still needed live in temporaries and spill
    /// words only. Operands that were fetched stay where they are.
    pub fn leave_slots(&mut self) {
        let pinned = self.alloc.pinned;
        for home in 0..HOMES.len() as u8 {
            self.leave_home(home);
            self.alloc.pinned = pinned;
        }
        while let Some(&(slot, _)) = self.alloc.slots.first() {
            self.leave_slot(slot);
        }
    }

    /// Stores a value into a slot with a home.
    pub fn set_home(&mut self, home: u8, v: u16) {
        if self.place(v).home == home {
            return;
        }
        self.leave_home(home);
        let to = HOMES[usize::from(home)];
        let float = self.place(v).xmm;
        if self.in_reg(v).is_none() && float != NONE {
            self.a().reg_from_xmm(true, to, Xmm(float));
        } else {
            self.fetch(to, v);
        }
        let p = self.place(v);
        if p.home == NONE && self.needed(v) {
            self.alloc.homes[usize::from(home)] = v;
            self.alloc.places[usize::from(v)].home = home;
            if p.temp != NONE {
                self.release(Reg(p.temp));
            }
        }
    }

    /// Stores a value into a slot in memory.
    pub fn set_slot(&mut self, slot: u16, v: u16) {
        if self.place(v).slot == slot {
            return;
        }
        self.leave_slot(slot);
        let m = words::word(usize::from(slot));
        let p = self.place(v);
        if p.xmm != NONE {
            self.a().fstore(true, m, Xmm(p.xmm));
        } else if self.is_float(v) && self.in_reg(v).is_none() {
            let x = self.xmm(v);
            self.a().fstore(true, m, x);
        } else {
            let stored = match self.constant(v) {
                Some(c) => self.in_reg(v).is_none() && self.a().store_imm(8, m, c),
                None => false,
            };
            if !stored {
                let r = self.reg(v);
                self.a().store(true, m, r);
            }
        }
        if self.place(v).slot == FREE && self.needed(v) {
            self.alloc.slots.push((slot, v));
            self.alloc.places[usize::from(v)].slot = slot;
        }
    }

    /// Stores a value, wherever it is, into a slot in memory, and notes nothing.
    pub fn store_only(&mut self, slot: u16, v: u16) {
        let m = words::word(usize::from(slot));
        let p = self.place(v);
        if self.is_late(usize::from(v)) {
            self.a().push_reg(RCX);
            self.a().push_reg(RAX);
            self.make_late(v);
            self.a().store(true, m, RAX);
            self.a().pop_reg(RAX);
            return self.a().pop_reg(RCX);
        }
        if let Some(r) = self.in_reg(v) {
            return self.a().store(true, m, r);
        }
        if p.xmm != NONE {
            return self.a().fstore(true, m, Xmm(p.xmm));
        }
        if let Known::Const(c) = p.known
            && self.a().store_imm(8, m, c)
        {
            return;
        }
        if p.slot == slot && p.spill == NONE {
            return;
        }
        // Through a register that is put back; spill words move away meanwhile.
        self.a().push_reg(RAX);
        match (p.known, self.memory(v)) {
            (Known::Const(c), _) => self.a().mov_imm(RAX, c),
            (Known::Page(offset), _) => self.page_address(RAX, offset),
            (Known::Nothing, Some(from)) => {
                let up = if from.base == RSP { 8 } else { 0 };
                self.a().load(true, RAX, Mem::new(from.base, from.disp + up));
            }
            (Known::Nothing, None) => {
                debug_assert!(self.alloc.overflow, "v{v} is nowhere at op {}", self.at);
            }
        }
        self.a().store(true, m, RAX);
        self.a().pop_reg(RAX);
    }

    /// Makes a value in rax that only exits need. rax and rcx are on the stack.
    fn make_late(&mut self, v: u16) {
        match self.ops[usize::from(v)] {
            Op::Bin(bin, width, a, b) => {
                let op = match bin {
                    Bin::Add => Alu::Add,
                    Bin::Sub => Alu::Sub,
                    Bin::And => Alu::And,
                    Bin::Or => Alu::Or,
                    _ => Alu::Xor,
                };
                self.fetch_late(RAX, a.0);
                self.fetch_late(RCX, b.0);
                self.a().alu(width == Width::W64, op, RAX, RCX.into());
            }
            Op::Cmp(cond, width, a, b) => {
                self.fetch_late(RAX, a.0);
                self.fetch_late(RCX, b.0);
                self.a().alu(width == Width::W64, Alu::Cmp, RAX, RCX.into());
                self.a().setcc(cc_of(cond), RAX);
                self.a().extend_from(1, false, RAX, RAX.into());
            }
            Op::Un(un, a) => {
                self.fetch_late(RAX, a.0);
                let (bytes, signed) = match un {
                    Un::Sext8 => (1, true),
                    Un::Sext16 => (2, true),
                    Un::Sext32 => (4, true),
                    Un::Zext8 => (1, false),
                    Un::Zext16 => (2, false),
                    Un::Zext32 => (4, false),
                    _ => return self.a().not(true, RAX),
                };
                self.a().extend_from(bytes, signed, RAX, RAX.into());
            }
            _ => unreachable!("no exit makes it"),
        }
    }

    /// Copies an operand for [`Generator::make_late`]: what was in rax and rcx is on the stack.
    fn fetch_late(&mut self, to: Reg, v: u16) {
        match (self.in_reg(v), self.place(v).known, self.memory(v)) {
            (Some(RAX), ..) => self.a().load(true, to, Mem::new(RSP, 0)),
            (Some(RCX), ..) => self.a().load(true, to, Mem::new(RSP, 8)),
            (Some(r), ..) => self.a().mov(true, to, r),
            (None, Known::Const(c), _) => self.a().mov_imm(to, c),
            (None, Known::Page(offset), _) => self.page_address(to, offset),
            (None, Known::Nothing, Some(m)) => {
                let up = if m.base == RSP { 16 } else { 0 };
                self.a().load(true, to, Mem::new(m.base, m.disp + up));
            }
            (None, Known::Nothing, None) => {
                let x = self.place(v).xmm;
                debug_assert!(
                    x != NONE || self.alloc.overflow,
                    "v{v} is nowhere at op {}",
                    self.at
                );
                self.a().reg_from_xmm(true, to, Xmm(x & 15));
            }
        }
    }

    /// Stores a vector into two slots in memory.
    pub fn set_vector(&mut self, slot: u16, v: u16) {
        if self.place(v).slot == slot {
            return;
        }
        self.leave_slot(slot);
        self.leave_slot(slot + 1);
        let x = self.xmm(v);
        self.a().vstore(words::word(usize::from(slot)), x);
        if self.place(v).slot == FREE && self.needed(v) {
            self.alloc.slots.push((slot, v));
            self.alloc.places[usize::from(v)].slot = slot;
        }
    }

    /// Pushes a value; the stack pointer moves, so that spill words must not be used until it is back.
    /// The value is in a register, or a constant of 32 bits.
    pub fn push_operand(&mut self, operand: Operand) {
        match operand {
            Operand::Reg(r) => self.a().push_reg(r),
            Operand::Imm(imm) => self.a().push_imm(imm),
            Operand::Mem(m) => self.a().push_mem(m),
        }
    }

    /// `dst = dst op operand`.
    pub fn alu(&mut self, w: bool, op: Alu, dst: Reg, operand: Operand) {
        match operand {
            Operand::Reg(r) => self.a().alu(w, op, dst, r.into()),
            Operand::Mem(m) => self.a().alu(w, op, dst, m.into()),
            Operand::Imm(imm) => self.a().alu_imm(w, op, dst.into(), imm),
        }
    }

    /// Copies an operand; changes no flags.
    pub fn mov_operand(&mut self, w: bool, dst: Reg, operand: Operand) {
        match operand {
            Operand::Reg(r) => self.a().mov(w, dst, r),
            Operand::Mem(m) => self.a().load(w, dst, m),
            Operand::Imm(imm) if w => self.a().mov_imm(dst, imm as i64 as u64),
            Operand::Imm(imm) => self.a().mov_imm(dst, u64::from(imm as u32)),
        }
    }

    /// An operand that isn't an immediate, as ModRM has it.
    pub fn as_rm(&mut self, operand: Operand) -> Rm {
        match operand {
            Operand::Reg(r) => r.into(),
            Operand::Mem(m) => m.into(),
            Operand::Imm(imm) => {
                let r = self.temp();
                self.a().mov_imm(r, imm as i64 as u64);
                r.into()
            }
        }
    }
}

/// What division and long multiplication use.
pub const DIVIDEND: (Reg, Reg) = (RAX, RDX);
/// Shift counts.
pub const COUNT: Reg = RCX;
