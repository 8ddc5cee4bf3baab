//! CPUID: one fixed model, at the level x86-64-v2, with what operating systems need to find their way without
//! measuring anything (SDM 2A CPUID).
//!
//! Choices: the time-stamp counter counts virtual time at 1 GHz, and says so (leaf 0x15); caches and topology are
//! plausible and mean nothing; IA32_ARCH_CAPABILITIES denies every speculation bug, so that kernels don't work around
//! them; there is no VME, no PCID (address spaces keep their translations anyway), no performance counter.

use super::bits::*;
use super::hart::Hart;
use super::msr::APIC_BASE;
use super::slots;
use crate::Context;

/// Family, model and stepping: 6, 0x2c, 1.
pub const SIGNATURE: u64 = 0x206c1;

const MAX_BASIC: u32 = 0x16;
const MAX_EXTENDED: u32 = 0x8000_0008;
const HYPERVISOR: u32 = 0x4000_0000;
const MAX_HYPERVISOR: u32 = 0x4000_0010;
/// Frequency of the time-stamp counter and of the local APIC's timer.
const KHZ: u32 = 1_000_000;

const BRAND: &[u8; 48] = b"tickback x86-64 virtual processor\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// eax, ebx, ecx, edx.
pub type Leaf = [u32; 4];

fn word(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .take(4)
        .rev()
        .fold(0, |word, byte| word << 8 | u32::from(*byte))
}

const fn bits(numbers: &[u32]) -> u32 {
    let mut word = 0;
    let mut i = 0;
    while i < numbers.len() {
        word |= 1 << numbers[i];
        i += 1;
    }
    word
}

/// Leaf 1 EDX: fpu de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clfsh mmx fxsr sse sse2.
const FEATURES_EDX: u32 = bits(&[
    0, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 19, 23, 24, 25, 26,
]);
/// Leaf 1 ECX: sse3 pclmulqdq ssse3 cx16 sse4.1 sse4.2 x2apic movbe-less popcnt tsc-deadline aes xsave rdrand
/// hypervisor.
const FEATURES_ECX: u32 = bits(&[0, 1, 9, 13, 19, 20, 21, 23, 24, 25, 26, 30, 31]);
/// Leaf 7 EBX: fsgsbase tsc-adjust smep invpcid rdseed smap.
const FEATURES_7_EBX: u32 = bits(&[0, 1, 7, 10, 18, 20]);
/// Leaf 7 ECX: umip.
const FEATURES_7_ECX: u32 = bits(&[2]);
/// Leaf 7 EDX: ibrs/ibpb, arch-capabilities.
const FEATURES_7_EDX: u32 = bits(&[26, 29]);
/// Leaf 7, subleaf 2 EDX: bhi-ctrl, so that kernels set a bit of IA32_SPEC_CTRL where they would run loops.
const FEATURES_7_2_EDX: u32 = bits(&[4]);
/// Leaf 0x80000001 EDX: syscall nx pdpe1gb rdtscp lm.
const FEATURES_EXT_EDX: u32 = bits(&[11, 20, 26, 27, 29]);

/// Leaf 1, EDX: there is a local APIC.
const EDX_APIC: u32 = 1 << 9;
/// IA32_APIC_BASE: the local APIC is enabled.
const APIC_ENABLED: u64 = 1 << 11;

impl Hart {
    /// What `leaf` and `subleaf` yield.
    pub(super) fn cpuid(&self, leaf: u32, subleaf: u32) -> Leaf {
        match leaf {
            HYPERVISOR..=0x4fff_ffff => self.hypervisor_leaf(leaf.min(MAX_HYPERVISOR)),
            0x8000_0000..=MAX_EXTENDED => extended_leaf(leaf),
            // What lies beyond yields the highest basic leaf.
            _ => self.basic_leaf(leaf.min(MAX_BASIC), subleaf),
        }
    }

    fn basic_leaf(&self, leaf: u32, subleaf: u32) -> Leaf {
        let id = self.config.id as u32;
        let harts = self.config.harts.max(1);
        match leaf {
            0 => [MAX_BASIC, word(b"Genu"), word(b"ntel"), word(b"ineI")],
            1 => {
                let smp = if harts > 1 { 1 << 28 } else { 0 };
                let osxsave = if self.core.cr4 & CR4_OSXSAVE != 0 {
                    1 << 27
                } else {
                    0
                };
                let ebx = (id & 0xff) << 24 | harts.min(255) << 16 | 8 << 8;
                [SIGNATURE as u32, ebx, FEATURES_ECX | osxsave, FEATURES_EDX | smp]
            }
            // Caches: see leaf 4. No prefetch hint.
            2 => [0x00ff_ff01, 0, 0, 0],
            4 => self.cache(subleaf),
            // The local APIC's timer always runs.
            6 => [1 << 2, 0, 0, 0],
            7 if subleaf == 0 => [2, FEATURES_7_EBX, FEATURES_7_ECX, FEATURES_7_EDX],
            7 if subleaf == 2 => [0, 0, 0, FEATURES_7_2_EDX],
            0xb => {
                let shift = harts.next_power_of_two().trailing_zeros();
                match subleaf {
                    // Threads: one a core.
                    0 => [0, 1, 1 << 8, id],
                    1 => [shift, harts, 2 << 8 | 1, id],
                    _ => [0, 0, subleaf & 0xff, id],
                }
            }
            0xd => match subleaf {
                0 => [3, 576, 576, 0],
                // xsaveopt, xgetbv with ecx = 1.
                1 => [5, 576, 0, 0],
                _ => [0; 4],
            },
            0x15 => [1, 1, KHZ * 1000, 0],
            0x16 => [KHZ / 1000, KHZ / 1000, 100, 0],
            _ => [0; 4],
        }
    }

    fn cache(&self, subleaf: u32) -> Leaf {
        let cores = self.config.harts.clamp(1, 64) - 1;
        // Type, level, KiB, ways, whether shared by all.
        let (kind, level, kib, ways, shared) = match subleaf {
            0 => (1, 1, 32, 8, false),
            1 => (2, 1, 32, 4, false),
            2 => (3, 2, 256, 8, false),
            3 => (3, 3, 8192, 16, true),
            _ => return [0; 4],
        };
        let sharing = if shared { cores } else { 0 };
        let sets: u32 = kib * 1024 / 64 / ways;
        [
            kind | level << 5 | 1 << 8 | sharing << 14 | cores << 26,
            63 | (ways - 1) << 22,
            sets - 1,
            0,
        ]
    }

    fn hypervisor_leaf(&self, leaf: u32) -> Leaf {
        match leaf {
            HYPERVISOR => [MAX_HYPERVISOR, word(b"TICK"), word(b"BACK"), word(b"    ")],
            MAX_HYPERVISOR => [KHZ, KHZ, 0, 0],
            _ => [0; 4],
        }
    }

    /// `cpuid`: eax, ebx, ecx, edx, whole registers.
    pub(super) fn cpuid_instruction(&mut self, cx: &mut dyn Context) {
        let r = &self.regs;
        let number = r[slots::RAX] as u32;
        let mut leaf = self.cpuid(number, r[slots::RCX] as u32);
        // A local APIC that IA32_APIC_BASE switches off isn't reported (SDM 3A 11.4.3).
        if number == 1
            && cx
                .local_read(APIC_BASE)
                .is_some_and(|base| base & APIC_ENABLED == 0)
        {
            leaf[3] &= !EDX_APIC;
        }
        let registers = [slots::RAX, slots::RBX, slots::RCX, slots::RDX];
        for (slot, value) in registers.into_iter().zip(leaf) {
            self.regs[slot] = value.into();
        }
    }
}

fn extended_leaf(leaf: u32) -> Leaf {
    match leaf {
        0x8000_0000 => [MAX_EXTENDED, 0, 0, 0],
        // lahf.
        0x8000_0001 => [0, 0, 1, FEATURES_EXT_EDX],
        0x8000_0002..=0x8000_0004 => {
            let at = (leaf - 0x8000_0002) as usize * 16;
            std::array::from_fn(|i| word(&BRAND[at + 4 * i..]))
        }
        // The second-level cache, as leaf 4 has it.
        0x8000_0006 => [0, 0, 256 << 16 | 6 << 12 | 64, 0],
        // Invariant time-stamp counter.
        0x8000_0007 => [0, 0, 0, 1 << 8],
        0x8000_0008 => [PHYS_BITS | 48 << 8, 0, 0, 0],
        _ => [0; 4],
    }
}

#[cfg(test)]
mod tests {
    use super::super::hart::HartConfig;
    use super::*;

    #[test]
    fn the_model_says_what_it_is() {
        let hart = Hart::new(HartConfig {
            id: 1,
            harts: 3,
            seed: 0,
        });
        let [max, b, c, d] = hart.cpuid(0, 0);
        let vendor: Vec<u8> = [b, d, c].iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!((max, vendor.as_slice()), (0x16, &b"GenuineIntel"[..]));
        assert_eq!(hart.cpuid(1, 0)[1], 1 << 24 | 3 << 16 | 0x800);
        assert_eq!(
            hart.cpuid(0xb, 1),
            [2, 3, 0x201, 1],
            "two bits of the APIC ID for three"
        );
        assert_eq!(hart.cpuid(0xffff_ffff, 0), hart.cpuid(0x16, 0));
        assert_eq!(hart.cpuid(0x8000_0009, 0), hart.cpuid(0x16, 0));
        let brand: Vec<u8> = (2..5)
            .flat_map(|n| hart.cpuid(0x8000_0000 + n, 0))
            .flat_map(u32::to_le_bytes)
            .collect();
        assert!(brand.starts_with(b"tickback x86-64 virtual processor\0"));
    }
}
