//! The functions that a PC of the i440FX and PIIX3 has on its board.
//!
//! Each is configuration registers and nothing else: what they control is either always on here or other
//! devices' business. Registers that firmware or drivers are known to write keep what is written; all others
//! read as zero.
//!
//! - 00:00.0, the 82441FX host bridge. Its PAM registers say what the ROM shadow is ([`shadow`]); SMRAM is state without
//!   effect: there is no system management mode.
//! - 00:01.0, the 82371SB ISA bridge. Its PIRQ route control registers do route ([`super::routing`]).
//! - 00:01.1, the 82371SB IDE. Its ports are [`crate::Ide`]'s, wherever the guest enables them or not;
//!   without one its bus master is always idle. Its IDETIM registers have it decode from power-on.
//! - 00:01.3, the 82371AB power management. Its registers are at port 0x600 for good, its SCI is IRQ 9; the
//!   registers are the ACPI device's. APMC_EN is set as if system management mode were set up already, which
//!   keeps firmware from trying.
//!
//! Source: Intel 290549 (82441FX) 3.2; Intel 290550 (82371SB) 2.2 and 2.3; Intel 290562 (82371AB) 7.1.

use icount::VirtualTime;

use super::{Bar, Config, Function, Identity};
use crate::{Context, DeviceError, Input, InputKind, Shadow, state};

const INTEL: u16 = 0x8086;
/// What QEMU's boards carry, and guests therefore know.
const SUBSYSTEM: (u16, u16) = (0x1af4, 0x1100);
const VERSION: u8 = 1;

/// Offset of the first of the four PIRQ route control registers.
pub(super) const PIRQ_ROUTE: u8 = 0x60;
/// First port of the power management registers.
pub const PM_BASE: u16 = 0x600;
/// IRQ of the system control interrupt.
pub const SCI_IRQ: u8 = 9;

/// A function that is its configuration space and nothing else.
pub(super) struct Fixed {
    name: &'static str,
    config: fn() -> Config,
}

fn identity(device: u16, revision: u8, class: [u8; 3]) -> Identity {
    Identity {
        vendor: INTEL,
        device,
        revision,
        class,
        subsystem: SUBSYSTEM,
    }
}

/// PAM0 to PAM6.
pub(super) type Pam = [u8; 7];
const PAM: u8 = 0x59;
/// The bits that they have: reads and writes of each part are RAM's.
const PAM_ALL: Pam = [0x30, 0x33, 0x33, 0x33, 0x33, 0x33, 0x33];

/// The parts of the ROM shadow, as PAM registers have them: first address, length, what is there.
pub(super) fn shadow(pam: Pam) -> [(u64, u64, Shadow); 13] {
    let part = |addr, len, bits: u8| {
        let rights = Shadow {
            read: bits & 1 != 0,
            write: bits & 2 != 0,
        };
        (addr, len, rights)
    };
    std::array::from_fn(|i| match i {
        0 => part(0xf_0000, 0x1_0000, pam[0] >> 4),
        _ => {
            let register = pam[i.div_ceil(2)];
            let bits = if i % 2 == 1 { register } else { register >> 4 };
            part(0xc_0000 + 0x4000 * (i as u64 - 1), 0x4000, bits)
        }
    })
}

/// The PAM registers of the host bridge.
pub(super) fn pam(config: &Config) -> Pam {
    std::array::from_fn(|i| config.byte(PAM + i as u8))
}

fn host_bridge(pam: Pam) -> Config {
    let mut config = Config::new(identity(0x1237, 2, [6, 0, 0]));
    config.field(PAM, &pam, &PAM_ALL);
    // SMRAM: the compatible space at 0xa0000, closed.
    config.field(0x72, &[0x02], &[0x78]);
    config
}

/// After power-on reads and writes of the shadow aren't RAM's.
pub(super) const HOST_BRIDGE: Fixed = Fixed {
    name: "i440FX",
    config: || host_bridge([0; 7]),
};

/// As firmware leaves it that has all of the shadow in RAM.
pub(super) const SHADOWED_HOST_BRIDGE: Fixed = Fixed {
    name: "i440FX",
    config: || host_bridge(PAM_ALL),
};

pub(super) const ISA_BRIDGE: Fixed = Fixed {
    name: "PIIX3",
    config: || {
        let mut config = Config::new(identity(0x7000, 0, [6, 1, 0]));
        config.multi_function();
        // XBCS.
        config.field(0x4e, &[0x03, 0x00], &[0xff, 0x01]);
        // PIRQRCA to PIRQRCD: not routed.
        config.field(PIRQ_ROUTE, &[0x80; 4], &[0x8f; 4]);
        config
    },
};

pub(super) const IDE: Fixed = Fixed {
    name: "PIIX3-IDE",
    config: || {
        let mut config = Config::new(identity(0x7010, 0, [1, 1, 0x80]));
        config.bar(4, Bar::Io(16));
        // IDETIM of both channels: decoding, as firmware sets it up and drivers ask, since kernels are started
        // without firmware too.
        config.field(0x40, &[0, 0x80, 0, 0x80], &[0xff; 4]);
        config
    },
};

pub(super) const POWER_MANAGEMENT: Fixed = Fixed {
    name: "PIIX4-PM",
    config: || {
        let mut config = Config::new(identity(0x7113, 3, [6, 0x80, 0]));
        config.interrupt_pin(1);
        config.field(0x3c, &[SCI_IRQ], &[0xff]);
        config.field(0x40, &(u32::from(PM_BASE) | 1).to_le_bytes(), &[]);
        // DEVACTB: APMC_EN.
        config.field(0x58, &[0, 0, 0, 2], &[0xff; 4]);
        // PMREGMISC: PMIOSE.
        config.field(0x80, &[0], &[1]);
        config
    },
};

impl Function for Fixed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn config(&self) -> Config {
        (self.config)()
    }

    fn config_reading(&mut self, _cx: &mut dyn Context, _config: &mut Config, _offset: u8, _size: u8) {}

    fn config_written(&mut self, _cx: &mut dyn Context, _config: &mut Config, _offset: u8, _size: u8) {}

    /// An idle bus master reads as zero.
    fn bar_read(
        &mut self,
        _cx: &mut dyn Context,
        _config: &mut Config,
        _bar: u8,
        _offset: u64,
        _size: u8,
    ) -> u64 {
        0
    }

    fn bar_write(
        &mut self,
        _cx: &mut dyn Context,
        _config: &mut Config,
        _bar: u8,
        _offset: u64,
        _size: u8,
        _value: u64,
    ) {
    }

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _cx: &mut dyn Context, _config: &mut Config) {}

    fn accepts(&self, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _config: &mut Config, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        state::restore(self.name, VERSION, bytes, |(): &()| Ok(()))
    }

    fn reset(&mut self) {}
}
