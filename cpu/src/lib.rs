//! What a guest instruction means.
//!
//! ```text
//!   riscv64/  state, decode table, disassembler, lifter, traps, page-table walk   (the same in x86_64/)
//!   ir/       what the lifters say and the engines run
//!   interp    runs the IR as it stands: portable, and the oracle of the JIT
//! ```
//!
//! The crate is safe code that reads no clock and no file. A hart ([`Cpu`]) knows its own registers; all
//! else it asks of the machine through three small traits: [`PhysMem`] for page walks, [`Context`] for
//! helpers, [`Env`] for what IR ops do to the world.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

/// What a [`Context`] of a test has none of: ports, an interrupt controller, bulk steps.
#[cfg(any(test, feature = "test-support"))]
macro_rules! context_without_board {
    () => {
        fn fetch(
            &mut self,
            _: &mut dyn $crate::Cpu,
            _: u64,
            _: $crate::ir::Size,
        ) -> Result<u64, $crate::Trap> {
            unreachable!("not asked for")
        }
        fn semihosting(
            &mut self,
            _: &mut dyn $crate::Cpu,
            _: u64,
            _: u64,
        ) -> Result<Option<u64>, $crate::Trap> {
            unreachable!("no host")
        }
        fn check(
            &mut self,
            _: &mut dyn $crate::Cpu,
            _: u64,
            _: u64,
            _: $crate::Access,
        ) -> Result<(), $crate::Trap> {
            unreachable!("not asked for")
        }
        fn port_read(&mut self, _: u16, _: $crate::ir::Size) -> u64 {
            unreachable!("no ports")
        }
        fn port_write(&mut self, _: u16, _: $crate::ir::Size, _: u64) {
            unreachable!("no ports")
        }
        fn local_read(&mut self, _: u32) -> Option<u64> {
            unreachable!("no interrupt controller")
        }
        fn local_write(&mut self, _: u32, _: u64) -> bool {
            unreachable!("no interrupt controller")
        }
        fn acknowledge(&mut self, _: u32, _: u8) {
            unreachable!("no interrupt controller")
        }
        fn numeric_error(&mut self, _: bool) {
            unreachable!("no chipset")
        }
        fn shutdown(&mut self) {
            unreachable!("no shutdown")
        }
        fn steps_left(&self) -> u64 {
            1
        }
        fn more_steps(&mut self, _: u64) {
            unreachable!("no bulk steps")
        }
        fn copy(&mut self, _: &mut dyn $crate::Cpu, _: [u64; 3], _: $crate::ir::Size, _: bool) -> bool {
            false
        }
        fn fill(&mut self, _: &mut dyn $crate::Cpu, _: u64, _: u64, _: $crate::ir::Size, _: u64) -> bool {
            false
        }
    };
}

#[cfg(any(test, feature = "test-support"))]
pub mod golden;
pub mod interp;
pub mod ir;
pub mod riscv64;
pub mod softfloat;
pub mod x86_64;

use ir::{Block, Rmw, Size, Slot};

/// Number of 64-bit words in a [`RegFile`]. Guests use the low part; slots from [`ENGINE_SLOTS`] on belong
/// to the engine while it runs and are never part of a hart's state.
pub const SLOTS: usize = 512;

/// First slot that belongs to the engine.
pub const ENGINE_SLOTS: usize = 448;

/// The words of hart state that IR ops name: general registers, floating-point registers, the program
/// counter and the floating-point environment.
#[derive(Clone)]
pub struct RegFile(Box<[u64; SLOTS]>);

impl RegFile {
    /// All zero.
    pub fn new() -> RegFile {
        RegFile(Box::new([0; SLOTS]))
    }

    /// The words.
    pub fn words(&self) -> &[u64; SLOTS] {
        &self.0
    }

    /// The words, to be changed; translated code addresses them through this pointer's target, which
    /// doesn't move while the file lives.
    pub fn words_mut(&mut self) -> &mut [u64; SLOTS] {
        &mut self.0
    }
}

impl Default for RegFile {
    fn default() -> RegFile {
        RegFile::new()
    }
}

impl std::ops::Index<Slot> for RegFile {
    type Output = u64;
    fn index(&self, slot: Slot) -> &u64 {
        &self.0[slot.0 as usize]
    }
}

impl std::ops::IndexMut<Slot> for RegFile {
    fn index_mut(&mut self, slot: Slot) -> &mut u64 {
        &mut self.0[slot.0 as usize]
    }
}

/// A function of its arguments alone.
pub type PureFn = fn([u64; 4]) -> u64;

/// What floating-point ops do where architectures differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatRules {
    /// NaNs are canonical, conversions saturate, denormals are operands like others (RISC-V).
    Canonical,
    /// As the host's SSE with all exceptions masked: NaNs are handed on (SDM 1 4.8.3.5), conversions yield the
    /// integer indefinite, DENORMAL is raised, and DAZ and FTZ of the environment hold.
    Sse,
}

/// What an engine must know of a guest's slots.
#[derive(Debug)]
pub struct Layout {
    /// The full program counter, valid outside translated code.
    pub pc: Slot,
    /// Virtual base of the page of the running block; set before a block is entered.
    pub page: Slot,
    /// The floating-point environment in MXCSR's layout: sticky flags in bits 0..=5, exception masks set,
    /// rounding control in bits 13..=14.
    pub fp_env: Slot,
    /// Flag bits of `fp_env` that the guest has; the others are cleared when translated code is left
    /// (RISC-V has no DENORMAL).
    pub fp_flags: u32,
    /// Bits of `fp_env` besides rounding control that the guest may set and the host's MXCSR has (x86: DAZ, FTZ).
    pub fp_control: u32,
    /// What floating-point ops do where architectures differ.
    pub float: FloatRules,
    /// The functions that [`ir::Op::Pure`] names.
    pub pure: &'static [PureFn],
    /// Slots by falling dynamic use; an engine keeps the first few in host registers. None is part of a vector.
    pub hot: &'static [Slot],
    /// log2 of the alignment of instructions (RISC-V with C: 1; x86: 0).
    pub pc_align: u8,
}

/// A synchronous exception: values, not errors. Numbers and meaning are the guest's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Cause (RISC-V: mcause's exception code).
    pub cause: u64,
    /// Value (RISC-V: mtval).
    pub value: u64,
}

/// Kinds of memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Instruction fetch.
    Fetch,
    /// Load.
    Read,
    /// Store, AMO, SC: whatever needs the right to write.
    Write,
}

/// Physical memory as a page-table walk sees it.
pub trait PhysMem {
    /// Reads a naturally aligned table entry of `size` bytes; `None` where there is no RAM.
    fn read_entry(&mut self, addr: u64, size: Size) -> Option<u64>;
    /// Writes a table entry (A and D bits); `None` where there is no RAM.
    fn write_entry(&mut self, addr: u64, size: Size, value: u64) -> Option<()>;
}

/// All that a translation depends on besides memory and [`Cpu::protection`]: two harts that have both alike translate
/// alike. Never an ASID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SpaceKey {
    /// Root of the tables with the paging mode (RISC-V: satp without ASID).
    pub root: u64,
    /// Privilege and its modifiers (RISC-V: effective privilege, SUM, MXR).
    pub modifiers: u64,
    /// Physical address of the upper half of the root table, if translations of addresses with bit 63 set depend on
    /// nothing else of the root, and lower addresses are hardly accessed so: such spaces may be shared while the
    /// entries there are equal by value. Else 0. It follows from the others.
    pub upper: u64,
}

/// One table entry that a walk read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStep {
    /// Physical address of the entry.
    pub entry: u64,
    /// log2 of the bytes of virtual address space that the entry covers (12: a leaf table).
    pub shift: u8,
}

/// The greatest depth of a walk.
pub const MAX_LEVELS: usize = 5;

/// What a walk found for one page of 4096 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Translation {
    /// Physical address of the first byte asked for.
    pub addr: u64,
    /// Reads of this page succeed now without a further change of the tables.
    pub read: bool,
    /// Writes likewise (W and D).
    pub write: bool,
    /// Fetches likewise.
    pub fetch: bool,
    /// May be cached for the whole page: false where a protection region is finer than a page.
    pub cacheable: bool,
    /// The entries read, root first; unused ones have `shift` 0.
    pub path: [TableStep; MAX_LEVELS],
}

/// What a store to a page table means for translations made from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// An invalid entry was filled or one was widened: a miss or a permission miss walks again.
    Nothing,
    /// Translations made through the entry are void.
    Drop,
}

/// What a helper may ask of the machine.
pub trait Context {
    /// Virtual time at the executing step, in ns.
    fn now(&self) -> u64;
    /// Steps made before the executing one by this hart's engine that [`Cpu::retire`] has yet to be told
    /// of are told before a helper runs; so `minstret` is exact inside one.
    fn load(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap>;
    /// Stores to virtual memory.
    fn store(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size, value: u64) -> Result<(), Trap>;
    /// Stores `len` zeros, all within one page (Zicboz).
    fn store_zeros(&mut self, cpu: &mut dyn Cpu, addr: u64, len: u64) -> Result<(), Trap>;
    /// Translates a virtual address for an access within one page: the physical address;
    /// faults as the access would.
    fn translate(&mut self, cpu: &mut dyn Cpu, addr: u64, access: Access) -> Result<u64, Trap>;
    /// Whether the physical address is RAM (LR/SC and Zicboz ask).
    fn is_ram(&self, addr: u64) -> bool;
    /// The hart's physical protection, [`Cpu::protection`], changed: all translations are void.
    fn protection_changed(&mut self, cpu: &dyn Cpu);
    /// The hart gives up the rest of its slice (`pause`).
    fn end_slice(&mut self);
    /// Reads instruction bytes, all within one page, as a fetch would: for helpers that look at what stands around
    /// their instruction.
    fn fetch(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap>;
    /// Semihosting: asks the machine for what a host would do. `None`: not now, the hart is to ask again. Its trap is none
    /// of the guest's, but that of [`Context::check`] when a watchpoint stops it.
    fn semihosting(&mut self, cpu: &mut dyn Cpu, op: u64, parameter: u64) -> Result<Option<u64>, Trap>;
    /// Checks an access to `len` bytes (at most two pages) with all that it would raise, watchpoints too: those made
    /// by the same helper afterwards can't fail there. A helper that stores more than once checks all first.
    fn check(&mut self, cpu: &mut dyn Cpu, addr: u64, len: u64, access: Access) -> Result<(), Trap>;
    /// Reads an I/O port; all ones where nothing is.
    fn port_read(&mut self, port: u16, size: Size) -> u64;
    /// Writes an I/O port.
    fn port_write(&mut self, port: u16, size: Size, value: u64);
    /// Reads a register of the hart's own interrupt controller (x86: by the number of its x2APIC MSR, SDM 3A 11.12;
    /// 0x1b is the APIC base; [`x86_64::CR8`] is none of these); `None` where that is #GP.
    fn local_read(&mut self, register: u32) -> Option<u64>;
    /// Writes one; `false` where that is #GP.
    fn local_write(&mut self, register: u32, value: u64) -> bool;
    /// The hart takes the interrupt that an interrupt controller shows at its pin.
    fn acknowledge(&mut self, pin: u32, vector: u8);
    /// Drives the hart's output for floating-point errors (x86: FERR#).
    fn numeric_error(&mut self, level: bool);
    /// The hart can't go on (x86: triple fault).
    fn shutdown(&mut self);
    /// Steps that may be made before the next thing is due, the executing one included.
    fn steps_left(&self) -> u64;
    /// The helper makes `steps` steps more than the one that it is: at most [`Context::steps_left`] - 1, with nothing
    /// observable between them but memory.
    fn more_steps(&mut self, steps: u64);
    /// Copies `len` bytes, in elements of `size`, as that many steps would, forward or (`down`) from the last element to the
    /// first: both ranges within a page. The addresses are those of the first bytes: target, source.
    /// `false`, and nothing is done, where it must be made one by one (devices, watchpoints, faults to come,
    /// overlap that a block copy would get wrong).
    fn copy(&mut self, cpu: &mut dyn Cpu, to_from_len: [u64; 3], size: Size, down: bool) -> bool;
    /// Stores `count` times the low bytes of `value` from `to` on, within a page; as [`Context::copy`].
    fn fill(&mut self, cpu: &mut dyn Cpu, to: u64, count: u64, size: Size, value: u64) -> bool;
}

/// What [`Cpu::lift`] made.
#[derive(Clone, Debug)]
pub enum Lifted {
    /// A block.
    Block(Block),
    /// The first instruction goes on on the next page, whose bytes are wanted too.
    NeedsNextPage,
}

/// A register as debuggers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterInfo {
    /// Name as in gdb's target descriptions.
    pub name: &'static str,
    /// Number in gdb's remote protocol.
    pub number: u32,
    /// Width in bits.
    pub bits: u32,
}

/// How a hart stands at a boundary, for whoever decides whether it goes on.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// An interrupt is to be taken, or the hart waits.
    pub stops: bool,
    /// [`Cpu::deadline`].
    pub deadline: Option<u64>,
    /// [`Cpu::data_space`].
    pub data: SpaceKey,
    /// [`Cpu::fetch_space`].
    pub fetch: SpaceKey,
    /// [`Cpu::block_mode`].
    pub mode: u64,
}

/// Where a path goes on behind a terminal; see [`Cpu::lift_path`].
pub type Follow<'a> = &'a mut dyn FnMut(&ir::Terminal) -> Option<u16>;

/// One hart (vCPU): the guest's registers and rules.
pub trait Cpu: Send {
    /// Which slots are what.
    fn layout(&self) -> &'static Layout;
    /// The slots.
    fn regs(&self) -> &RegFile;
    /// The slots, to be changed.
    fn regs_mut(&mut self) -> &mut RegFile;
    /// The program counter (outside translated code).
    fn pc(&self) -> u64 {
        self.regs()[self.layout().pc]
    }
    /// The slots that are kept as what made them (x86: the flags), and what they amount to: only that is state, and what is in
    /// them depends on how the code before was cut into blocks.
    fn lazy(&self) -> (std::ops::Range<usize>, u64);
    /// All that lifting depends on besides the bytes: privilege where it decides legality, FP state, ...
    fn block_mode(&self) -> u64;
    /// The key of fetch translations now.
    fn fetch_space(&self) -> SpaceKey;
    /// The key of data translations now.
    fn data_space(&self) -> SpaceKey;
    /// Walks the page tables for `addr` as the hart stands (data accesses with MPRV and the like), setting A and D as the
    /// architecture says.
    fn translate(&self, mem: &mut dyn PhysMem, addr: u64, access: Access) -> Result<Translation, Trap>;
    /// What physical protection depends on (RISC-V: the PMP entries that match anything); empty where there is none.
    fn protection(&self) -> Vec<u64>;
    /// Whether physical protection (RISC-V: PMP) denies an access to `size` bytes from physical address `addr`
    /// on, which lie in one page. [`Cpu::translate`] knows no size; whoever uses a translation that isn't
    /// `cacheable` asks this too and raises [`Cpu::access_fault`].
    fn protects(&self, addr: u64, size: u64, access: Access) -> bool;
    /// Data at virtual address `addr` is accessed, `size` bytes in one page: for the guest's own breakpoints on data. Told
    /// where the translation isn't `cacheable`, before the access is made; it may still fault or be stopped.
    fn accessed(&self, addr: u64, size: u64, access: Access);
    /// Walks without any side effect and ignoring permissions, as a debugger does; `None`: not mapped.
    fn debug_translate(&self, mem: &mut dyn PhysMem, addr: u64) -> Option<u64>;
    /// Judges a store to a table entry (old and new value, and what the entry covers).
    fn table_change(&self, shift: u8, old: u64, new: u64) -> TableChange;
    /// The trap of an access to where nothing is.
    fn access_fault(&self, addr: u64, access: Access) -> Trap;
    /// The trap of an access that isn't aligned where it must be.
    fn misaligned(&self, addr: u64, access: Access) -> Trap;
    /// Translates instructions from `offset` of a page on. `next` is the following page's content, given
    /// only after `NeedsNextPage`. Reads no byte outside; ends before an instruction that straddles unless
    /// it is the first.
    fn lift(&self, mode: u64, offset: u16, page: &[u8; 4096], next: Option<&[u8; 4096]>) -> Lifted;
    /// As [`Cpu::lift`], of a path through several blocks: where one ends in a jump or a branch, `follow` is asked at which
    /// offset of the page the path goes on, if it does.
    fn lift_path(&self, mode: u64, offset: u16, page: &[u8; 4096], follow: Follow) -> Lifted;
    /// Runs helper `helper` of an [`ir::Op::Call`]. `pc` is the address of the instruction.
    fn call(&mut self, cx: &mut dyn Context, helper: u16, args: [u64; 3], pc: u64) -> Result<u64, Trap>;
    /// Delivers an exception raised by the instruction at `pc`; sets the program counter to the handler.
    fn deliver(&mut self, cx: &mut dyn Context, trap: Trap, pc: u64);
    /// The interrupt that would be taken at this boundary, if any (pending and enabled).
    fn interrupt(&self) -> Option<u64>;
    /// Takes it: one step.
    fn take_interrupt(&mut self, cx: &mut dyn Context, cause: u64);
    /// Whether the hart waits (WFI) and nothing has woken it.
    fn waiting(&self) -> bool;
    /// Sets an input pin (numbers and values are the guest's, 0 is low); wakes a waiting hart if that is a wake event.
    fn set_pin(&mut self, pin: u32, value: u32);
    /// When [`Cpu::tick`] must be called next (Sstc), in ns of virtual time.
    fn deadline(&self) -> Option<u64>;
    /// A deadline of the hart may be due.
    fn tick(&mut self, now: u64);
    /// `retired` instructions were retired, in `steps` steps, since last told.
    fn retire(&mut self, retired: u64, steps: u64);
    /// [`Cpu::retire`], and all that is asked at a boundary, in one call.
    fn stand(&mut self, steps: u64) -> Standing {
        self.retire(steps, steps);
        Standing {
            stops: self.interrupt().is_some() || self.waiting(),
            deadline: self.deadline(),
            data: self.data_space(),
            fetch: self.fetch_space(),
            mode: self.block_mode(),
        }
    }
    /// The hart loses its turn (reservations die).
    fn switched_away(&mut self);
    /// A device wrote to physical memory (reservations on it die).
    fn dma_wrote(&mut self, addr: u64, len: u64);
    /// Power-on state, starting at `pc`.
    fn reset(&mut self, pc: u64);
    /// The whole state in a canonical, versioned form.
    fn save(&self) -> Vec<u8>;
    /// Restores what [`Cpu::save`] made; an error says what is wrong and leaves the hart unchanged.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), StateError>;
    /// Registers for debuggers, by number.
    fn registers(&self) -> &[RegisterInfo];
    /// Little-endian bytes of register `number`; no side effects.
    fn read_register(&self, number: u32) -> Option<Vec<u8>>;
    /// Writes a register, as far as the architecture lets a debugger.
    fn write_register(&mut self, number: u32, bytes: &[u8]) -> Result<(), StateError>;
    /// Whether the architecture reports data breakpoints after the access (x86: a trap), not before it.
    fn watch_after(&self) -> bool;
    /// gdb's target description.
    fn target_xml(&self) -> String;
    /// Text and length of the instruction at the start of `bytes`, at address `pc`.
    fn disassemble(&self, pc: u64, bytes: &[u8]) -> (String, usize);
}

/// Where in a block an op stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// Offset of the instruction in its page (the page slot holds the base).
    pub offset: u16,
    /// Steps of the engine's budget that were left before this instruction.
    pub left: u64,
}

/// How an access or a helper ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done; go on.
    Done,
    /// Done; leave the block right after this instruction: what is due, the guards or the map changed.
    Leave,
    /// Not done: leave the block before this instruction commits. The environment remembers why (a trap to
    /// be delivered, or a stop).
    Stop,
}

/// What IR ops do to the world; the machine implements it, engines call it.
pub trait Env {
    /// Loads, zero-extended.
    fn load(&mut self, here: Here, addr: u64, size: Size) -> (Outcome, u64);
    /// Stores the low bytes.
    fn store(&mut self, here: Here, addr: u64, size: Size, value: u64) -> Outcome;
    /// Atomic read-modify-write: the old value, zero-extended. Misaligned: the guest's misaligned or access fault.
    fn rmw(&mut self, here: Here, op: Rmw, addr: u64, size: Size, value: u64) -> (Outcome, u64);
    /// Runs a helper of the running hart.
    fn call(&mut self, here: Here, helper: u16, args: [u64; 3]) -> (Outcome, u64);
    /// The block's last instruction, after which mode, interrupts or map may have changed, is done but for its `Set`s, and
    /// `left` steps are left. [`Outcome::Done`]: the run loop has nothing to do at this boundary, and the engine may go on
    /// in the mode and the spaces that the hart is in now; else it leaves ([`Exit::Dispatch`]), which is always right.
    /// With it the steps that its helper made besides its own ([`Context::more_steps`]), which an engine that goes on takes off its
    /// budget; one that leaves has nothing to do with them.
    fn boundary(&mut self, left: u64) -> (Outcome, u64) {
        let _ = left;
        (Outcome::Leave, 0)
    }
    /// The block's last instruction raises a constant exception. [`Outcome::Stop`]: it isn't delivered, as with
    /// [`Env::raise`]. Else it is, in one step: [`Outcome::Done`] as of [`Env::boundary`], or the engine leaves.
    fn trap(&mut self, here: Here, trap: Trap) -> Outcome {
        self.raise(here, trap)
    }
    /// The running hart's slots.
    fn regs(&mut self) -> &mut RegFile;
    /// Checks an access to `len` bytes, at most two pages, with all that it would raise.
    fn check(&mut self, here: Here, addr: u64, len: u64, write: bool) -> Outcome;
    /// The instruction raises an exception: [`Outcome::Stop`].
    fn raise(&mut self, here: Here, trap: Trap) -> Outcome;
    /// Whether to stop before the instruction `here` (asked only at page offsets that were named as
    /// breakpoints when the block was translated).
    fn breakpoint(&mut self, here: Here) -> bool;
}

/// How an engine came back to the run loop. The pc slot is set in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The budget is used up.
    Budget,
    /// The block at the pc slot is not translated or not linked; nothing else needs to be looked at.
    Next,
    /// Interrupts, mode or map may have changed.
    Dispatch,
    /// [`Outcome::Stop`]: pc is that of the instruction, which is not counted.
    Stop,
    /// A constant trap of the instruction at pc, which is not counted.
    Trap(Trap),
    /// A breakpoint stands at pc.
    Breakpoint,
}

/// Saved state that doesn't fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hart state: {0}")]
pub struct StateError(pub String);
