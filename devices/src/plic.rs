//! Platform-level interrupt controller: gateways, priorities, and a claim register a context.
//!
//! ```text
//!   0x000000 + 4s                priority of source s (0..=7; 0 never interrupts)
//!   0x001000 + 4w                pending bits 32w..
//!   0x002000 + 0x80c + 4w        enable bits 32w.. of context c
//!   0x200000 + 0x1000c           threshold of context c
//!   0x200004 + 0x1000c           claim (read) and complete (write)
//! ```
//!
//! Context 2h is hart h's machine level, 2h + 1 its supervisor level, as on QEMU's `virt` board and
//! SiFive's. A gateway is level-triggered: it passes a request on (sets pending) when its line is
//! up and no earlier request of it is pending or being served. Pending stays though the line
//! falls; only a claim clears it; the completion opens the gateway again.
//!
//! A claim ignores the threshold. A completion of a source that its context hasn't enabled is
//! ignored. Reading the claim register is a side effect; all other reads are not.
//!
//! Source: RISC-V PLIC specification 1.0.0; the offsets are SiFive's (FU540-C000 manual, chapter 10).

use serde::{Deserialize, Serialize};

use crate::{Context, Device, DeviceError, HartPin, Input, InputKind, VirtualTime, state};

/// Size of the register window in bytes (512 harts).
pub const SIZE: u64 = 0x60_0000;

/// Sources, the non-existent source 0 included, on QEMU's `virt` board.
pub const SOURCES: u32 = 96;

const PENDING: u64 = 0x1000;
const ENABLE: u64 = 0x2000;
const ENABLE_STRIDE: u64 = 0x80;
const CONTEXT: u64 = 0x20_0000;
const CONTEXT_STRIDE: u64 = 0x1000;
const WORDS: usize = SOURCES as usize / 32;
/// Implemented bits of a priority or threshold.
const PRIORITY_MASK: u8 = 7;
const VERSION: u8 = 1;

/// One bit a source.
type Bits = [u32; WORDS];

/// The interrupt controller of the board's lines.
pub struct Plic {
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    priority: Vec<u8>,
    /// Levels of the lines.
    level: Bits,
    /// Requests that the gateways passed on.
    pending: Bits,
    /// Claimed and not completed.
    serving: Bits,
    contexts: Vec<Target>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Target {
    enable: Bits,
    threshold: u8,
    /// The pin as last set.
    asserted: bool,
}

#[derive(Clone, Copy)]
enum Register {
    Priority(usize),
    Pending(usize),
    Enable(usize, usize),
    Threshold(usize),
    Claim(usize),
}

impl Plic {
    /// A PLIC with two contexts for each of `harts` harts.
    pub fn new(harts: u32) -> Self {
        let contexts = (u64::from(harts) * 2).min((SIZE - CONTEXT) / CONTEXT_STRIDE) as usize;
        Plic {
            state: State::new(contexts),
        }
    }

    fn decode(&self, offset: u64, size: u8) -> Option<Register> {
        if size != 4 || !offset.is_multiple_of(4) {
            return None;
        }
        let word = |from: u64, words: u64| {
            let word = (offset - from) / 4;
            (word < words).then_some(word as usize)
        };
        let register = match offset {
            0..PENDING => Register::Priority(word(0, u64::from(SOURCES))?),
            PENDING..ENABLE => Register::Pending(word(PENDING, WORDS as u64)?),
            ENABLE..CONTEXT => {
                let context = (offset - ENABLE) / ENABLE_STRIDE;
                let word = word(ENABLE + context * ENABLE_STRIDE, WORDS as u64)?;
                Register::Enable(context as usize, word)
            }
            _ => {
                let context = ((offset - CONTEXT) / CONTEXT_STRIDE) as usize;
                match (offset - CONTEXT) % CONTEXT_STRIDE {
                    0 => Register::Threshold(context),
                    4 => Register::Claim(context),
                    _ => return None,
                }
            }
        };
        let exists = match register {
            Register::Priority(_) | Register::Pending(_) => true,
            Register::Enable(context, _) | Register::Threshold(context) | Register::Claim(context) => {
                context < self.state.contexts.len()
            }
        };
        exists.then_some(register)
    }

    fn claim(&mut self, cx: &mut dyn Context, context: usize) -> u32 {
        let source = self.state.best(context, 0);
        if source != 0 {
            set(&mut self.state.pending, source, false);
            set(&mut self.state.serving, source, true);
            self.update(cx);
        }
        source
    }

    fn complete(&mut self, cx: &mut dyn Context, context: usize, source: u32) {
        if source < SOURCES && get(&self.state.contexts[context].enable, source) {
            set(&mut self.state.serving, source, false);
            self.open_gateway(source);
            self.update(cx);
        }
    }

    fn open_gateway(&mut self, source: u32) {
        if get(&self.state.level, source) && !get(&self.state.serving, source) {
            set(&mut self.state.pending, source, true);
        }
    }

    /// Brings the harts' pins up to date.
    fn update(&mut self, cx: &mut dyn Context) {
        for context in 0..self.state.contexts.len() {
            let threshold = self.state.contexts[context].threshold;
            let asserted = self.state.best(context, threshold) != 0;
            let target = &mut self.state.contexts[context];
            if target.asserted != asserted {
                target.asserted = asserted;
                let pin = if context % 2 == 0 {
                    HartPin::MachineExternal
                } else {
                    HartPin::SupervisorExternal
                };
                cx.set_hart_pin(context as u32 / 2, pin, asserted.into());
            }
        }
    }
}

impl State {
    fn new(contexts: usize) -> Self {
        State {
            priority: vec![0; SOURCES as usize],
            level: [0; WORDS],
            pending: [0; WORDS],
            serving: [0; WORDS],
            contexts: vec![
                Target {
                    enable: [0; WORDS],
                    threshold: 0,
                    asserted: false,
                };
                contexts
            ],
        }
    }

    /// The pending, enabled source of the greatest priority above `threshold`; the lowest number
    /// among equals; 0 if there is none.
    fn best(&self, context: usize, threshold: u8) -> u32 {
        let (mut best, mut best_priority) = (0, threshold);
        for word in 0..WORDS {
            let mut bits = self.pending[word] & self.contexts[context].enable[word];
            while bits != 0 {
                let source = word as u32 * 32 + bits.trailing_zeros();
                let priority = self.priority[source as usize];
                if priority > best_priority {
                    (best, best_priority) = (source, priority);
                }
                bits &= bits - 1;
            }
        }
        best
    }

    /// Whether a PLIC of `contexts` contexts can be in this state.
    fn check(&self, contexts: usize) -> Result<(), &'static str> {
        if self.contexts.len() != contexts {
            return Err("another number of contexts");
        }
        if self.priority.len() != SOURCES as usize {
            return Err("another number of sources");
        }
        let thresholds = self.contexts.iter().map(|target| &target.threshold);
        if self.priority.iter().chain(thresholds).any(|&p| p > PRIORITY_MASK) {
            return Err("a priority above 7");
        }
        Ok(())
    }
}

fn get(bits: &Bits, source: u32) -> bool {
    bits[source as usize / 32] >> (source % 32) & 1 != 0
}

fn set(bits: &mut Bits, source: u32, value: bool) {
    let word = &mut bits[source as usize / 32];
    let bit = 1 << (source % 32);
    if value {
        *word |= bit;
    } else {
        *word &= !bit;
    }
}

impl Device for Plic {
    fn name(&self) -> &'static str {
        "plic"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        let value = match self.decode(offset, size) {
            Some(Register::Priority(source)) => u32::from(self.state.priority[source]),
            Some(Register::Pending(word)) => self.state.pending[word],
            Some(Register::Enable(context, word)) => self.state.contexts[context].enable[word],
            Some(Register::Threshold(context)) => u32::from(self.state.contexts[context].threshold),
            Some(Register::Claim(context)) => self.claim(cx, context),
            None => 0,
        };
        u64::from(value)
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        let value = value as u32;
        match self.decode(offset, size) {
            // Source 0 doesn't exist.
            Some(Register::Priority(0) | Register::Pending(_)) | None => return,
            Some(Register::Priority(source)) => {
                self.state.priority[source] = value as u8 & PRIORITY_MASK;
            }
            Some(Register::Enable(context, word)) => {
                let exist = if word == 0 { !1 } else { !0 };
                self.state.contexts[context].enable[word] = value & exist;
            }
            Some(Register::Threshold(context)) => {
                self.state.contexts[context].threshold = value as u8 & PRIORITY_MASK;
            }
            Some(Register::Claim(context)) => return self.complete(cx, context, value),
        }
        self.update(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _cx: &mut dyn Context) {}

    fn line_changed(&mut self, cx: &mut dyn Context, line: u32, level: bool) {
        if line == 0 || line >= SOURCES {
            return;
        }
        set(&mut self.state.level, line, level);
        self.open_gateway(line);
        self.update(cx);
    }

    fn accepts(&self, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let contexts = self.state.contexts.len();
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| state.check(contexts))?;
        Ok(())
    }

    /// The lines' levels go too: the devices that hold them up are reset with the board.
    fn reset(&mut self, cx: &mut dyn Context) {
        let old = &self.state.contexts;
        let mut new = State::new(old.len());
        for (new, old) in new.contexts.iter_mut().zip(old) {
            new.asserted = old.asserted;
        }
        self.state = new;
        self.update(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Effect, Fake};

    const MEIP: HartPin = HartPin::MachineExternal;
    const SEIP: HartPin = HartPin::SupervisorExternal;

    /// Source 10 at priority 1 and source 33 at 2, both enabled in hart 0's contexts.
    fn plic() -> (Plic, Fake) {
        let (mut plic, mut cx) = (Plic::new(2), Fake::new());
        plic.write(&mut cx, 4 * 10, 4, 1);
        plic.write(&mut cx, 4 * 33, 4, 2);
        for context in 0..2 {
            plic.write(&mut cx, 0x2000 + 0x80 * context, 4, 1 << 10);
            plic.write(&mut cx, 0x2004 + 0x80 * context, 4, 1 << 1);
        }
        assert!(cx.effects.is_empty());
        (plic, cx)
    }

    #[test]
    fn gateway_passes_one_request_until_completion() {
        let (mut plic, mut cx) = plic();
        plic.line_changed(&mut cx, 10, true);
        assert_eq!(cx.take(), [Effect::Pin(0, MEIP, 1), Effect::Pin(0, SEIP, 1)]);
        assert_eq!(plic.read(&mut cx, 0x1000, 4), 1 << 10);
        assert_eq!(plic.read(&mut cx, 0x20_1004, 4), 10);
        assert_eq!(cx.take(), [Effect::Pin(0, MEIP, 0), Effect::Pin(0, SEIP, 0)]);
        // While it is served the line may do what it likes.
        plic.line_changed(&mut cx, 10, false);
        plic.line_changed(&mut cx, 10, true);
        assert_eq!(plic.read(&mut cx, 0x1000, 4), 0);
        assert_eq!(plic.read(&mut cx, 0x20_1004, 4), 0);
        assert!(cx.effects.is_empty());
        // Still up at completion: again.
        plic.write(&mut cx, 0x20_1004, 4, 10);
        assert_eq!(cx.take(), [Effect::Pin(0, MEIP, 1), Effect::Pin(0, SEIP, 1)]);
        assert_eq!(plic.read(&mut cx, 0x20_0004, 4), 10);
        plic.line_changed(&mut cx, 10, false);
        plic.write(&mut cx, 0x20_0004, 4, 10);
        assert_eq!(plic.read(&mut cx, 0x1000, 4), 0);
    }

    #[test]
    fn pending_outlives_the_line() {
        let (mut plic, mut cx) = plic();
        plic.line_changed(&mut cx, 10, true);
        plic.line_changed(&mut cx, 10, false);
        assert_eq!(plic.read(&mut cx, 0x20_0004, 4), 10);
        plic.write(&mut cx, 0x20_0004, 4, 10);
        assert_eq!(plic.read(&mut cx, 0x20_0004, 4), 0);
    }

    #[test]
    fn the_greatest_priority_then_the_lowest_number() {
        let (mut plic, mut cx) = plic();
        plic.line_changed(&mut cx, 10, true);
        plic.line_changed(&mut cx, 33, true);
        assert_eq!(plic.read(&mut cx, 0x20_0004, 4), 33);
        assert_eq!(plic.read(&mut cx, 0x20_0004, 4), 10);
        plic.write(&mut cx, 0x20_0004, 4, 33);
        plic.write(&mut cx, 0x20_0004, 4, 10);
        plic.write(&mut cx, 4 * 33, 4, 1);
        assert_eq!(plic.read(&mut cx, 0x20_0004, 4), 10);
    }

    #[test]
    fn the_threshold_masks_the_pin_but_not_the_claim() {
        let (mut plic, mut cx) = plic();
        plic.write(&mut cx, 0x20_0000, 4, 1);
        plic.line_changed(&mut cx, 10, true);
        assert_eq!(cx.take(), [Effect::Pin(0, SEIP, 1)]);
        assert_eq!(plic.read(&mut cx, 0x20_0004, 4), 10);
    }

    #[test]
    fn completion_of_what_is_not_enabled_is_ignored() {
        let (mut plic, mut cx) = plic();
        plic.line_changed(&mut cx, 10, true);
        assert_eq!(plic.read(&mut cx, 0x20_0004, 4), 10);
        cx.take();
        plic.write(&mut cx, 0x20_2004, 4, 10); // hart 1
        plic.write(&mut cx, 0x20_0004, 4, 11);
        plic.write(&mut cx, 0x20_0004, 4, 0xffff_ffff);
        assert!(cx.effects.is_empty());
        plic.write(&mut cx, 0x20_0004, 4, 10);
        assert_eq!(cx.take().len(), 2);
    }

    #[test]
    fn registers_are_warl() {
        let (mut plic, mut cx) = plic();
        plic.write(&mut cx, 0, 4, 7);
        plic.write(&mut cx, 4, 4, 0xff);
        plic.write(&mut cx, 0x2000, 4, 0xffff_ffff);
        plic.write(&mut cx, 0x1000, 4, 0xffff_ffff);
        plic.write(&mut cx, 4 * 96, 4, 7);
        plic.write(&mut cx, 0x200c, 4, 0xffff_ffff);
        assert_eq!(plic.read(&mut cx, 0, 4), 0);
        assert_eq!(plic.read(&mut cx, 4, 4), 7);
        assert_eq!(plic.read(&mut cx, 0x2000, 4), 0xffff_fffe);
        assert_eq!(plic.read(&mut cx, 0x1000, 4), 0);
        assert_eq!(plic.read(&mut cx, 4 * 96, 4), 0);
        assert_eq!(plic.read(&mut cx, 0x200c, 4), 0);
        assert_eq!(plic.read(&mut cx, 0x20_0004, 8), 0);
        assert_eq!(plic.read(&mut cx, SIZE - 4, 4), 0);
    }
}
