//! I/O ports under IOPL and the TSS' permission bitmap (SDM 1 19.5).

use super::bits::A_P;
use super::hart::Hart;
use super::trap::{self, GP};
use crate::ir::Size;
use crate::{Context, Trap};

impl Hart {
    /// Checks that ports `port..port + size` may be accessed.
    pub(super) fn check_ports(&mut self, cx: &mut dyn Context, port: u16, size: Size) -> Result<(), Trap> {
        let by_level = self.core.cpl <= self.iopl() && !self.vm86();
        if !self.protected() || by_level {
            return Ok(());
        }
        let denied = trap::fault(GP, 0);
        let tr = self.core.tr;
        let wide = tr.attr & 8 != 0;
        if tr.attr & A_P == 0 || !wide || tr.limit < 103 {
            return Err(denied);
        }
        let bitmap = self.system_load(cx, tr.base.wrapping_add(102), Size::B2)?;
        let byte = bitmap + u64::from(port / 8);
        // Two bytes are read, and both must be within the limit.
        if byte + 1 > tr.limit.into() {
            return Err(denied);
        }
        let bits = self.system_load(cx, tr.base.wrapping_add(byte), Size::B2)?;
        let mask = (1 << size.bytes()) - 1;
        if bits >> (port % 8) & mask == 0 {
            Ok(())
        } else {
            Err(denied)
        }
    }

    /// `in`.
    pub(super) fn port_in(&mut self, cx: &mut dyn Context, port: u16, size: Size) -> Result<u64, Trap> {
        self.check_ports(cx, port, size)?;
        self.port_accessed(port, size);
        Ok(cx.port_read(port, size) & size.mask())
    }

    /// `out`.
    pub(super) fn port_out(
        &mut self,
        cx: &mut dyn Context,
        port: u16,
        size: Size,
        value: u64,
    ) -> Result<(), Trap> {
        self.check_ports(cx, port, size)?;
        self.port_accessed(port, size);
        cx.port_write(port, size, value & size.mask());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
