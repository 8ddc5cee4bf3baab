//! One x86-64 processor: its state, its helpers and its face to the machine ([`Cpu`]).
//!
//! ```text
//!   slots (RegFile)     general and vector registers, flags, segment bases and limits: what IR ops name
//!   registers           the rest: selectors, descriptor tables, control and debug registers, MSRs, pins
//!   mmu                 page-table walks            segments, far   descriptors, far transfers
//!   gates, syscall      interrupts, IRET, SYSCALL   control, msr, cpuid, ports, fxstate   the instructions on them
//!   state, debug        saved form; registers for debuggers
//! ```
//!
//! **Boundaries.** A step that is the delivery of a debug trap, NMI, INIT or SIPI is announced by [`Cpu::interrupt`] with
//! a cause from [`CAUSE_DEBUG`] on; a smaller cause is the vector of a maskable interrupt. The order is that of
//! SDM 3A table 6-2. What `sti` and a load of SS hold off, they hold off for the one boundary that follows:
//! [`Hart::retire`] counts steps, and a shadow names the count at which it stands. TF and RF count as they
//! were at the boundary before the instruction.
//!
//! What the machine owes a processor beyond the contract of [`Cpu`]: after `restore` and `write_register` all
//! translations are void. While [`Cpu::deliver`] or [`Cpu::take_interrupt`] runs no access is refused for a watchpoint.
//! Data accesses of a helper are made in the space that [`Cpu::data_space`] names *at that access*.

use std::cell::Cell;

use super::bits::*;
use super::mmu::{self, Roots, View};
use super::mode::Mode;
use super::registers::{Activity, CS, Core, DS, ES, FS, GS, Msrs, Pins, SS, Segment, Table};
use super::x87::X87;
use super::{cpuid, debug, disasm, flags, lift, pure, slots, trap};
use crate::Follow;
use crate::{
    Access, Context, Cpu, FloatRules, Layout, Lifted, PhysMem, RegFile, RegisterInfo, SpaceKey, StateError,
    TableChange, Translation, Trap,
};

/// Pin: the local APIC's vector + 1, or 0.
pub const PIN_LOCAL: u32 = 0;
/// Pin: the 8259's vector + 1, or 0.
pub const PIN_EXTERNAL: u32 = 1;
/// Pin: any value but 0 latches a non-maskable interrupt.
pub const PIN_NMI: u32 = 2;
/// Pin: any value but 0 latches INIT.
pub const PIN_INIT: u32 = 3;
/// Pin: SIPI's vector + 1 latches it, if the processor waits for one.
pub const PIN_STARTUP: u32 = 4;
/// Pin: A20M#, address line 20 is masked.
pub const PIN_A20M: u32 = 5;
/// Pin: IGNNE#, floating-point errors are ignored where CR0.NE is 0.
pub const PIN_IGNNE: u32 = 6;

/// [`Cpu::interrupt`]'s cause of a debug trap: a single step, or what became of one before.
pub const CAUSE_DEBUG: u64 = 0x101;
/// The cause of a non-maskable interrupt.
pub const CAUSE_NMI: u64 = 0x102;
/// The cause of INIT.
pub const CAUSE_INIT: u64 = 0x104;
/// The cause of SIPI.
pub const CAUSE_STARTUP: u64 = 0x105;

/// The layout for engines.
pub static LAYOUT: Layout = Layout {
    pc: slots::PC,
    page: slots::PAGE,
    fp_env: slots::MXCSR,
    fp_flags: 0b11_1111,
    fp_control: 1 << 6 | 1 << 15,
    float: FloatRules::Sse,
    pure: &pure::TABLE,
    hot: &[
        slots::RAX,
        slots::RSP,
        slots::RDX,
        slots::RCX,
        slots::RDI,
        slots::RSI,
        slots::RBX,
        slots::RBP,
    ],
    pc_align: 0,
};

/// What distinguishes a processor and doesn't change: part of the machine's configuration, not of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HartConfig {
    /// APIC ID; 0 is the bootstrap processor.
    pub id: u64,
    /// Number of processors.
    pub harts: u32,
    /// Seed of RDRAND and RDSEED.
    pub seed: u64,
}

/// How a processor begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the reset vector, in real mode (SDM 3A 9.1.4); other than the bootstrap processor: waiting for SIPI.
    Reset,
    /// In protected mode with flat segments (CS 0x10, the others 0x18) and without paging: Linux' 32-bit boot
    /// protocol, multiboot.
    Protected32 {
        /// Where.
        eip: u32,
        /// eax.
        eax: u32,
        /// ebx.
        ebx: u32,
        /// esi.
        esi: u32,
        /// esp.
        esp: u32,
        /// Base and limit of a GDT that describes the segments, for guests that load them anew.
        gdt: (u32, u16),
    },
    /// In 64-bit mode with flat segments (CS 0x10, the others 0x18): Linux' 64-bit boot protocol.
    Long64 {
        /// Where.
        rip: u64,
        /// rsi.
        rsi: u64,
        /// rsp.
        rsp: u64,
        /// Root of page tables that map what is needed.
        cr3: u64,
        /// Base and limit of a GDT that describes the segments.
        gdt: (u64, u16),
    },
}

/// A processor.
pub struct Hart {
    pub(super) config: HartConfig,
    pub(super) regs: RegFile,
    pub(super) core: Core,
    pub(super) x87: X87,
    /// As whom the running helper accesses data.
    pub(super) view: View,
    pub(super) roots: Roots,
    /// Steps that the processor was told of.
    steps: u64,
    /// The value of `steps` at the boundary where maskable interrupts are held off, and that where debug traps
    /// and NMIs are too.
    sti_shadow: u64,
    ss_shadow: u64,
    /// TF and RF at the last boundary.
    boundary_flags: u64,
    /// The last boundary is between two iterations of a string instruction: interrupts save RF (SDM 3B 17.3.1.1).
    pub(super) repeating: bool,
    /// The next one will be.
    repeats: bool,
    /// Breakpoints on data and ports that the running instruction has met (DR6.B0 to B3): #DB when it has retired.
    pub(super) met: Cell<u64>,
    /// Changes with the debug registers while breakpoints on data are armed, so that no translation made before is used.
    pub(super) breakpoint_set: u32,
    /// The block mode but for what EFLAGS, the program counter and the shadow say.
    mode: Mode,
    /// MSRs that don't exist and were accessed, until somebody takes them.
    pub(super) unknown_msrs: Vec<u32>,
    started: Start,
}

const NO_SHADOW: u64 = u64::MAX;

impl Hart {
    /// A processor after power-on.
    pub fn new(config: HartConfig) -> Hart {
        let mut hart = Hart {
            config,
            regs: RegFile::new(),
            core: power_on_core(&config),
            x87: X87::reset(),
            view: View::Current,
            roots: Roots::default(),
            steps: 0,
            sti_shadow: NO_SHADOW,
            ss_shadow: NO_SHADOW,
            boundary_flags: 0,
            repeating: false,
            repeats: false,
            met: Cell::new(0),
            breakpoint_set: 0,
            mode: Mode::empty(),
            unknown_msrs: Vec::new(),
            started: Start::Reset,
        };
        hart.power_on();
        hart
    }

    /// Power-on, and from there to where a loader has it begin; resets begin there again.
    pub fn start(&mut self, start: Start) {
        self.started = start.clone();
        self.breakpoint_set = self.breakpoint_set.wrapping_add(1);
        self.power_on();
        let flat = |selector, attr| Segment {
            selector,
            attr,
            base: 0,
            limit: u32::MAX,
        };
        let data = A_G | A_DB | A_P | A_S | A_RW | A_ACCESSED;
        let code = A_G | A_P | A_S | A_CODE | A_RW | A_ACCESSED;
        match start {
            Start::Reset => {}
            Start::Protected32 {
                eip,
                eax,
                ebx,
                esi,
                esp,
                gdt,
            } => {
                self.core.activity = Activity::Running;
                self.core.cr0 = CR0_PE | CR0_ET;
                self.core.gdtr = Table {
                    base: gdt.0.into(),
                    limit: gdt.1,
                };
                self.set_segment(CS, flat(0x10, code | A_DB));
                for n in [ES, SS, DS, FS, GS] {
                    self.set_segment(n, flat(0x18, data));
                }
                self.regs[slots::RAX] = eax.into();
                self.regs[slots::RBX] = ebx.into();
                self.regs[slots::RSI] = esi.into();
                self.regs[slots::RSP] = esp.into();
                self.regs[slots::PC] = eip.into();
            }
            Start::Long64 {
                rip,
                rsi,
                rsp,
                cr3,
                gdt,
            } => {
                self.core.activity = Activity::Running;
                self.core.cr0 = CR0_PE | CR0_ET | CR0_PG;
                self.core.cr4 = CR4_PAE;
                self.core.efer = EFER_LME | EFER_LMA;
                self.core.cr3 = cr3 & ((1 << PHYS_BITS) - 1);
                self.core.gdtr = Table {
                    base: gdt.0,
                    limit: gdt.1,
                };
                self.set_segment(CS, flat(0x10, code | A_L));
                for n in [ES, SS, DS, FS, GS] {
                    self.set_segment(n, flat(0x18, data));
                }
                self.regs[slots::RSI] = rsi;
                self.regs[slots::RSP] = rsp;
                self.regs[slots::PC] = rip;
            }
        }
        self.refresh();
    }

    fn power_on(&mut self) {
        // In place: engines hold the address of the words.
        self.regs.words_mut()[..slots::END as usize].fill(0);
        self.core = power_on_core(&self.config);
        self.x87 = X87::reset();
        self.regs[slots::MXCSR] = MXCSR_MASKS;
        self.begin_at_reset_vector();
    }

    /// What power-on and INIT have in common (SDM 3A table 9-1).
    fn begin_at_reset_vector(&mut self) {
        for n in 0..16 {
            self.regs[slots::gpr(n)] = 0;
        }
        self.regs[slots::RDX] = cpuid::SIGNATURE;
        self.set_eflags(0);
        let data = A_P | A_S | A_RW | A_ACCESSED;
        for n in [ES, SS, DS, FS, GS] {
            self.set_segment(n, Segment::real(0, data));
        }
        let code = Segment {
            base: 0xffff_0000,
            ..Segment::real(0xf000, data | A_CODE)
        };
        self.set_segment(CS, code);
        self.regs[slots::PC] = 0xffff_fff0;
        self.view = View::Current;
        self.sti_shadow = NO_SHADOW;
        self.ss_shadow = NO_SHADOW;
        self.repeating = false;
        self.repeats = false;
        self.refresh();
    }

    /// INIT: as power-on, but caches, floating point, MSRs and the time-stamp counter stay.
    fn init(&mut self) {
        let old = std::mem::replace(&mut self.core, power_on_core(&self.config));
        let core = &mut self.core;
        core.cr0 |= old.cr0 & (CR0_CD | CR0_NW);
        core.msrs = old.msrs;
        core.xcr0 = old.xcr0;
        core.mxcsr_masks = old.mxcsr_masks;
        core.random = old.random;
        core.pins = Pins {
            nmi: false,
            init: false,
            ..old.pins
        };
        self.begin_at_reset_vector();
    }

    fn startup(&mut self, vector: u8) {
        self.core.pins.startup = 0;
        self.core.activity = Activity::Running;
        let code = self.segment(CS);
        let segment = Segment {
            attr: code.attr,
            ..Segment::real(u16::from(vector) << 8, 0)
        };
        self.set_segment(CS, segment);
        self.regs[slots::PC] = segment.base;
    }

    /// Segment register `n`.
    pub(super) fn segment(&self, n: u8) -> Segment {
        Segment {
            selector: self.core.selectors[usize::from(n)],
            attr: self.core.attrs[usize::from(n)],
            base: self.regs[slots::base(n)],
            limit: self.regs[slots::limit(n)] as u32,
        }
    }

    /// Sets segment register `n`; 64-bit code has base 0.
    pub(super) fn set_segment(&mut self, n: u8, segment: Segment) {
        self.core.selectors[usize::from(n)] = segment.selector;
        self.core.attrs[usize::from(n)] = segment.attr;
        let long = n == CS && self.core.efer & EFER_LMA != 0 && segment.attr & A_L != 0;
        self.regs[slots::base(n)] = if long { 0 } else { segment.base };
        self.regs[slots::limit(n)] = segment.limit.into();
    }

    /// EFLAGS as the architecture has them.
    pub(super) fn eflags(&self) -> u64 {
        let r = &self.regs;
        r[slots::EFLAGS] | flags::arithmetic(r[slots::CC_OP], r[slots::CC_DST], r[slots::CC_SRC])
    }

    /// Sets EFLAGS; bits that don't exist are ignored.
    pub(super) fn set_eflags(&mut self, value: u64) {
        self.regs[slots::EFLAGS] = value & EFLAGS_OTHER | ALWAYS;
        self.regs[slots::CC_OP] = flags::cc(flags::Kind::Flags, 0);
        self.regs[slots::CC_DST] = 0;
        self.regs[slots::CC_SRC] = value & flags::ARITHMETIC;
    }

    /// IOPL.
    pub(super) fn iopl(&self) -> u8 {
        (self.regs[slots::EFLAGS] >> 12 & 3) as u8
    }

    /// Virtual-8086 mode.
    pub(super) fn vm86(&self) -> bool {
        self.regs[slots::EFLAGS] & VM != 0
    }

    /// Protected mode, virtual-8086 mode included.
    pub(super) fn protected(&self) -> bool {
        self.core.cr0 & CR0_PE != 0
    }

    /// IA-32e mode, compatibility mode included.
    pub(super) fn long_mode(&self) -> bool {
        self.core.efer & EFER_LMA != 0
    }

    /// 64-bit mode.
    pub(super) fn code64(&self) -> bool {
        self.long_mode() && self.core.attrs[usize::from(CS)] & A_L != 0
    }

    /// The instruction pointer that linear address `pc` is.
    pub(super) fn ip_of(&self, pc: u64) -> u64 {
        if self.code64() {
            pc
        } else {
            pc.wrapping_sub(self.regs[slots::base(CS)]) & 0xffff_ffff
        }
    }

    /// Goes on at instruction pointer `ip` of the present code segment.
    pub(super) fn set_ip(&mut self, ip: u64) {
        self.regs[slots::PC] = if self.code64() {
            ip
        } else {
            ip.wrapping_add(self.regs[slots::base(CS)]) & 0xffff_ffff
        };
    }

    /// Interrupts are held off at the boundary after the running instruction (`sti`).
    pub(super) fn shadow_sti(&mut self) {
        self.sti_shadow = self.steps + 1;
    }

    /// Interrupts, NMIs and debug traps likewise (a load of SS).
    pub(super) fn shadow_ss(&mut self) {
        self.ss_shadow = self.steps + 1;
    }

    /// Which shadow lies on this boundary: of `sti`, of SS.
    pub(super) fn shadows(&self) -> (bool, bool) {
        (self.sti_shadow == self.steps, self.ss_shadow == self.steps)
    }

    pub(super) fn set_shadows(&mut self, (sti, ss): (bool, bool)) {
        self.sti_shadow = if sti { self.steps } else { NO_SHADOW };
        self.ss_shadow = if ss { self.steps } else { NO_SHADOW };
    }

    /// The running instruction is no single step, whatever TF was (software interrupts).
    pub(super) fn no_single_step(&mut self) {
        self.boundary_flags &= !TF;
    }

    /// Whether RF keeps instruction breakpoints off.
    pub(super) fn resumes(&self) -> bool {
        self.regs[slots::EFLAGS] & RF != 0
    }

    /// RF stays as the running instruction has set it, for the next one.
    pub(super) fn keep_resume(&mut self) {
        self.boundary_flags &= !RF;
    }

    /// Takes the numbers of MSRs that don't exist and were accessed.
    pub fn take_unknown_msrs(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.unknown_msrs)
    }

    /// Makes what is derived from the state follow it; called after whatever may have changed it.
    pub(super) fn refresh(&mut self) {
        self.view = View::Current;
        self.met.set(0);
        self.boundary_flags = self.regs[slots::EFLAGS] & (TF | RF);
        self.remode();
    }

    /// Whether the mode, but for what EFLAGS, the program counter and the shadow say, has these bits.
    pub(super) fn has_mode(&self, bits: Mode) -> bool {
        self.mode.contains(bits)
    }

    fn remode(&mut self) {
        let core = &self.core;
        let mut mode = Mode::empty().with_cpl(core.cpl);
        let long = self.code64();
        mode.set(Mode::LONG, long);
        mode.set(Mode::BIG, !long && core.attrs[usize::from(CS)] & A_DB != 0);
        mode.set(Mode::PROTECTED, self.protected() && !self.vm86());
        mode.set(Mode::VM86, self.vm86());
        // In long mode it says nothing, and SS may be null.
        mode.set(Mode::STACK32, !long && core.attrs[usize::from(SS)] & A_DB != 0);
        let flat = |n: u8| {
            let attr = core.attrs[usize::from(n)];
            let data = attr & (A_P | A_S | A_CODE | A_RW | A_DC) == A_P | A_S | A_RW;
            self.regs[slots::base(n)] == 0 && self.regs[slots::limit(n)] == 0xffff_ffff && data
        };
        mode.set(
            Mode::FLAT_CS,
            long || self.regs[slots::base(CS)] == 0 && self.regs[slots::limit(CS)] == 0xffff_ffff,
        );
        mode.set(Mode::FLAT_SS, long || flat(SS));
        mode.set(Mode::FLAT_DS, long || flat(DS));
        mode.set(Mode::FLAT_ES, long || flat(ES));
        let em_or_ts = core.cr0 & (CR0_EM | CR0_TS) != 0;
        mode.set(Mode::NO_X87, em_or_ts);
        mode.set(Mode::NO_SSE, core.cr0 & CR0_EM != 0 || core.cr4 & CR4_OSFXSR == 0);
        mode.set(Mode::TS, core.cr0 & CR0_TS != 0);
        mode.set(Mode::SSE_UNMASKED, core.mxcsr_masks != MXCSR_MASKS);
        mode.set(Mode::MP, core.cr0 & CR0_MP != 0);
        let (code, data) = self.breakpoints_armed();
        mode.set(Mode::CODE_BREAKPOINTS, code);
        mode.set(Mode::DATA_BREAKPOINTS, data);
        mode.set(Mode::UMIP, core.cr4 & CR4_UMIP != 0);
        mode.set(Mode::TSD, core.cr4 & CR4_TSD != 0);
        mode.set(Mode::FSGSBASE, core.cr4 & CR4_FSGSBASE != 0);
        mode.set(Mode::LONE, self.config.harts == 1);
        mode.set(Mode::OSXSAVE, core.cr4 & CR4_OSXSAVE != 0);
        self.mode = mode;
    }

    fn maskable(&self) -> Option<(u32, u8)> {
        let pins = &self.core.pins;
        [(PIN_LOCAL, pins.local), (PIN_EXTERNAL, pins.external)]
            .into_iter()
            .find_map(|(pin, value)| Some((pin, u8::try_from(value.checked_sub(1)?).ok()?)))
    }
}

/// The registers at power-on, but for what slots hold.
fn power_on_core(config: &HartConfig) -> Core {
    let system = |attr| Segment {
        selector: 0,
        attr,
        base: 0,
        limit: 0xffff,
    };
    let table = Table {
        base: 0,
        limit: 0xffff,
    };
    Core {
        selectors: [0; 6],
        attrs: [0; 6],
        cpl: 0,
        gdtr: table,
        idtr: table,
        ldtr: system(A_P | 2),
        tr: system(A_P | 11),
        cr0: CR0_CD | CR0_NW | CR0_ET,
        cr2: 0,
        cr3: 0,
        cr4: 0,
        efer: 0,
        xcr0: 1,
        pdptes: [0; 4],
        dr: [0; 4],
        dr6: DR6_FIXED,
        dr7: DR7_FIXED,
        msrs: Msrs::reset(),
        mxcsr_masks: MXCSR_MASKS,
        activity: if config.id == 0 {
            Activity::Running
        } else {
            Activity::WaitForSipi
        },
        nmi_blocked: false,
        pending_debug: 0,
        pins: Pins {
            local: 0,
            external: 0,
            nmi: false,
            init: false,
            startup: 0,
            a20: true,
            ferr: false,
            ignne: false,
        },
        random: config.seed ^ config.id.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

impl Cpu for Hart {
    fn layout(&self) -> &'static Layout {
        &LAYOUT
    }

    fn regs(&self) -> &RegFile {
        &self.regs
    }

    fn regs_mut(&mut self) -> &mut RegFile {
        &mut self.regs
    }

    fn block_mode(&self) -> u64 {
        let flags = self.regs[slots::EFLAGS];
        let pc = self.regs[slots::PC];
        let mut mode = self.mode;
        const MARGIN: u64 = 1 << 20;
        mode.set(
            Mode::EDGE,
            !mode.contains(Mode::LONG) && pc.wrapping_add(MARGIN) & 0xffff_ffff < 2 * MARGIN,
        );
        mode.set(Mode::TRACE, flags & TF != 0);
        mode.set(
            Mode::SHADOW,
            self.sti_shadow == self.steps || self.ss_shadow == self.steps,
        );
        mode.set(Mode::IO_PRIVILEGE, self.iopl() >= self.core.cpl);
        mode.set(
            Mode::ALIGNMENT,
            flags & AC != 0 && self.core.cr0 & CR0_AM != 0 && self.core.cpl == 3,
        );
        mode.bits()
    }

    fn lazy(&self) -> (std::ops::Range<usize>, u64) {
        let slots = usize::from(slots::CC_OP.0)..usize::from(slots::EFLAGS.0) + 1;
        (slots, self.eflags())
    }

    fn fetch_space(&self) -> SpaceKey {
        self.space(Access::Fetch)
    }

    fn data_space(&self) -> SpaceKey {
        self.space(Access::Read)
    }

    fn translate(&self, mem: &mut dyn PhysMem, addr: u64, access: Access) -> Result<Translation, Trap> {
        self.walk(mem, addr, access)
    }

    fn accessed(&self, addr: u64, size: u64, access: Access) {
        self.data_accessed(addr, size, access);
    }

    fn protection(&self) -> Vec<u64> {
        Vec::new()
    }

    fn protects(&self, _addr: u64, _size: u64, _access: Access) -> bool {
        false
    }

    fn debug_translate(&self, mem: &mut dyn PhysMem, addr: u64) -> Option<u64> {
        self.debug_walk(mem, addr)
    }

    fn table_change(&self, _shift: u8, old: u64, new: u64) -> TableChange {
        mmu::table_change(old, new)
    }

    fn access_fault(&self, _addr: u64, _access: Access) -> Trap {
        trap::fault(trap::GP, 0)
    }

    fn misaligned(&self, _addr: u64, _access: Access) -> Trap {
        trap::fault(trap::GP, 0)
    }

    fn lift(&self, mode: u64, offset: u16, page: &[u8; 4096], next: Option<&[u8; 4096]>) -> Lifted {
        lift::lift(mode, offset, page, next)
    }

    fn lift_path(&self, mode: u64, offset: u16, page: &[u8; 4096], follow: Follow) -> Lifted {
        lift::lift_path(mode, offset, page, None, follow)
    }

    fn call(&mut self, cx: &mut dyn Context, helper: u16, args: [u64; 3], pc: u64) -> Result<u64, Trap> {
        let result = self.help(cx, helper, args, pc);
        self.view = View::Current;
        if self.core.pins.ferr {
            self.withdraw_error(cx);
        }
        self.repeats = helper == super::helper::STRING && result.is_ok() && self.regs[slots::PC] == pc;
        if super::helper::may_change_mode(helper) {
            self.remode();
        }
        result
    }

    fn deliver(&mut self, cx: &mut dyn Context, trap: Trap, pc: u64) {
        if trap::vector(trap.cause) == trap::MF && self.core.cr0 & CR0_NE == 0 {
            self.freeze(cx, pc);
        } else {
            let trap = self.name_stack_fault(cx, trap, pc);
            self.deliver_exception(cx, trap, pc);
        }
        self.refresh();
    }

    fn interrupt(&self) -> Option<u64> {
        let core = &self.core;
        match core.activity {
            Activity::WaitForSipi => return (core.pins.startup != 0).then_some(CAUSE_STARTUP),
            _ if core.pins.init => return Some(CAUSE_INIT),
            Activity::Running | Activity::Halted | Activity::Frozen | Activity::Shutdown => {}
        }
        let (sti, ss) = self.shadows();
        if core.pending_debug != 0 && !ss {
            return Some(CAUSE_DEBUG);
        }
        if core.pins.nmi && !core.nmi_blocked && !ss {
            return Some(CAUSE_NMI);
        }
        let enabled = self.regs[slots::EFLAGS] & IF != 0 && !sti && !ss;
        match self.maskable() {
            Some((_, vector)) if enabled && core.activity != Activity::Shutdown => Some(vector.into()),
            _ => None,
        }
    }

    fn take_interrupt(&mut self, cx: &mut dyn Context, cause: u64) {
        if !matches!(cause, CAUSE_INIT | CAUSE_STARTUP) {
            self.core.activity = Activity::Running;
        }
        match cause {
            CAUSE_INIT => {
                self.init();
            }
            CAUSE_STARTUP => {
                let vector = self.core.pins.startup.saturating_sub(1) as u8;
                self.startup(vector);
            }
            CAUSE_DEBUG => {
                let conditions = std::mem::take(&mut self.core.pending_debug);
                let trap = Trap {
                    cause: trap::cause(trap::DB),
                    value: conditions,
                };
                self.deliver_trap(cx, trap);
            }
            CAUSE_NMI => {
                self.core.pins.nmi = false;
                self.core.nmi_blocked = true;
                self.deliver_interrupt(cx, trap::NMI);
            }
            _ => {
                if let Some((pin, vector)) = self.maskable() {
                    cx.acknowledge(pin, vector);
                    self.deliver_interrupt(cx, vector);
                }
            }
        }
        self.refresh();
    }

    fn waiting(&self) -> bool {
        self.core.activity != Activity::Running && self.interrupt().is_none()
    }

    fn set_pin(&mut self, pin: u32, value: u32) {
        let vector = value.min(256) as u16;
        let waits = self.core.activity == Activity::WaitForSipi;
        let pins = &mut self.core.pins;
        match pin {
            PIN_LOCAL => pins.local = vector,
            PIN_EXTERNAL => pins.external = vector,
            PIN_NMI => pins.nmi |= value != 0,
            // A processor that waits for SIPI is in INIT's state already.
            PIN_INIT => pins.init |= value != 0 && !waits,
            // Others ignore it; one that INIT is about to stop gets it after INIT.
            PIN_STARTUP if value != 0 && (waits || pins.init) => pins.startup = vector,
            PIN_A20M => pins.a20 = value == 0,
            PIN_IGNNE => {
                pins.ignne = value != 0;
                if pins.ignne && self.core.activity == Activity::Frozen {
                    self.core.activity = Activity::Running;
                }
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<u64> {
        None
    }

    fn tick(&mut self, _now: u64) {}

    fn retire(&mut self, retired: u64, steps: u64) {
        if steps == 0 {
            return;
        }
        // What faulted or was interrupted has met nothing: it will be made again.
        let met = self.met.take();
        if retired != 0 {
            self.core.pending_debug |= met;
            if self.boundary_flags & TF != 0 {
                self.core.pending_debug |= DR6_BS;
            }
            if self.boundary_flags & RF != 0 {
                self.regs[slots::EFLAGS] &= !RF;
            }
        }
        self.steps += steps;
        self.repeating = std::mem::take(&mut self.repeats) && retired != 0;
        self.boundary_flags = self.regs[slots::EFLAGS] & (TF | RF);
        if self.ss_shadow == self.steps {
            // A single step over a load of SS is lost (SDM 3A 6.8.3).
            self.core.pending_debug &= !DR6_BS;
        }
    }

    fn switched_away(&mut self) {}

    fn dma_wrote(&mut self, _addr: u64, _len: u64) {}

    fn reset(&mut self, _pc: u64) {
        self.start(self.started.clone());
    }

    fn save(&self) -> Vec<u8> {
        self.save_state()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.restore_state(bytes)
    }

    fn registers(&self) -> &[RegisterInfo] {
        debug::registers()
    }

    fn read_register(&self, number: u32) -> Option<Vec<u8>> {
        self.debug_read(number)
    }

    fn write_register(&mut self, number: u32, bytes: &[u8]) -> Result<(), StateError> {
        self.debug_write(number, bytes)?;
        self.refresh();
        Ok(())
    }

    fn watch_after(&self) -> bool {
        true
    }

    fn target_xml(&self) -> String {
        debug::target_xml()
    }

    fn disassemble(&self, pc: u64, bytes: &[u8]) -> (String, usize) {
        disasm::disassemble(self.mode.code_bits(), self.ip_of(pc), bytes)
    }
}

#[cfg(test)]
mod tests;
