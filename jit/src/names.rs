//! Names of what stands in host code as a number, for dumps: addresses beside the blocks, slots, exits.

use cpu::ENGINE_SLOTS;

use crate::jit::{ExitKind, ExitRecord, Jit};
use crate::words::{BIAS, JUMPS, TLB};

impl Jit {
    /// The name of the thunk or constant at an address.
    pub fn name(&self, address: u64) -> Option<String> {
        self.thunks().name(address)
    }

    /// The name of the word at a displacement from `rbp`.
    pub fn word_name(&self, displacement: i32) -> Option<String> {
        let bytes = usize::try_from(displacement + BIAS).ok()?;
        let (word, rest) = (bytes / 8, bytes % 8);
        let layout = self.layout();
        let is = |slot: cpu::ir::Slot| usize::from(slot.0) == word;
        let name = match word {
            TLB => "tlb".into(),
            JUMPS => "jumps".into(),
            _ if is(layout.pc) => "pc".into(),
            _ if is(layout.page) => "page".into(),
            _ if is(layout.fp_env) => "fp_env".into(),
            0..ENGINE_SLOTS => format!("s{word}"),
            _ => return None,
        };
        Some(if rest == 0 { name } else { format!("{name}+{rest}") })
    }

    /// What an exit number means: the kind, steps that are given back, the program counter within its page.
    pub fn exit_name(&self, number: u32) -> Option<String> {
        let ExitRecord {
            kind,
            give_back,
            target,
        } = *self.exit(number)?;
        let mut name = match kind {
            ExitKind::Stop => "stop".into(),
            ExitKind::Next => "next".into(),
            ExitKind::Link { .. } => "link".into(),
            ExitKind::Dispatch => "dispatch".into(),
            ExitKind::Trap {
                cause,
                value: Some(value),
            } => format!("trap({cause},{value:#x})"),
            ExitKind::Trap { cause, value: None } => format!("trap({cause},pc)"),
            ExitKind::Tail => "tail".into(),
            ExitKind::Hot => "hot".into(),
        };
        if let Some(target) = target {
            name += &format!(" to {}", cpu::ir::Target(target));
        }
        if give_back > 0 {
            name += &format!(" back {give_back}");
        }
        Some(name)
    }
}
