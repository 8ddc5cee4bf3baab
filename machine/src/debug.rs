//! What a debugger does to a machine: reads without side effects, and writes that are inputs.

use cpu::Cpu;
use icount::{DebuggerWrite, Input};

use crate::error::MachineError;
use crate::machine::Machine;

/// How a debugger names memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// As the given hart's current translation sees it, permissions ignored.
    Virtual(u8),
    /// Physical. RAM beneath a ROM shadow is read as RAM.
    Physical,
}

impl Machine {
    /// The physical address of a virtual one, as a debugger sees it: no A/D bit is set, permissions are ignored.
    pub fn debug_translate(&mut self, hart: u8, addr: u64) -> Option<u64> {
        let cpu = self.harts.get(hart as usize)?;
        let physical = cpu.debug_translate(&mut self.sys.memory, addr)?;
        Some(self.sys.memory.find(physical, false).unwrap_or(physical))
    }

    /// Reads memory for a debugger: no device is touched. `false`: not (all) RAM.
    pub fn debug_read(&mut self, kind: AddressKind, addr: u64, out: &mut [u8]) -> bool {
        let mut done = 0;
        while done < out.len() {
            let va = addr.wrapping_add(done as u64);
            let n = ((4096 - va % 4096) as usize).min(out.len() - done);
            let Some(pa) = self.debug_address(kind, va) else {
                return false;
            };
            if !self.sys.memory.ram().contains(pa, n as u64) {
                return false;
            }
            self.sys.memory.ram().read_bytes(pa, &mut out[done..done + n]);
            done += n;
        }
        true
    }

    fn debug_address(&mut self, kind: AddressKind, addr: u64) -> Option<u64> {
        match kind {
            AddressKind::Virtual(hart) => self.debug_translate(hart, addr),
            AddressKind::Physical => Some(addr),
        }
    }

    /// Writes memory for a debugger, as an input of a live run.
    pub fn debug_write(&mut self, kind: AddressKind, addr: u64, bytes: &[u8]) -> Result<(), MachineError> {
        let mut done = 0;
        while done < bytes.len() {
            let va = addr.wrapping_add(done as u64);
            let n = ((4096 - va % 4096) as usize).min(bytes.len() - done);
            let pa = self
                .debug_address(kind, va)
                .filter(|pa| self.sys.memory.ram().contains(*pa, n as u64));
            let pa = pa.ok_or_else(|| MachineError::Debug(format!("address {va:#x} is not memory")))?;
            let write = DebuggerWrite::Memory {
                addr: pa,
                bytes: bytes[done..done + n].to_vec(),
            };
            self.inject(Input::Debugger(write))?;
            done += n;
        }
        Ok(())
    }

    /// Writes a register for a debugger, as an input of a live run.
    pub fn debug_write_register(
        &mut self,
        hart: u8,
        register: u32,
        bytes: &[u8],
    ) -> Result<(), MachineError> {
        self.inject(Input::Debugger(DebuggerWrite::Register {
            hart,
            register,
            bytes: bytes.to_vec(),
        }))
    }

    /// Hands an input of the user's to the door, which logs it, and then to the machine.
    pub fn inject(&mut self, input: Input) -> Result<(), MachineError> {
        // As at any boundary, deadlines come first: a replay, which gets the input from its log, does the same.
        self.sys.tell_again()?;
        self.deadlines();
        self.fail()?;
        self.sys.door.inject(self.sys.at, self.sys.time(), &input)?;
        self.deliver(input);
        self.apply_pins();
        self.worked = true;
        Ok(())
    }

    /// A debugger's write, after it was logged.
    pub(crate) fn debugger_write(&mut self, write: &DebuggerWrite) {
        match write {
            DebuggerWrite::Memory { addr, bytes } => {
                if self.sys.memory.ram().contains(*addr, bytes.len() as u64) {
                    self.sys.memory.write_bytes(*addr, bytes);
                }
            }
            DebuggerWrite::Register {
                hart,
                register,
                bytes,
            } => {
                if let Some(cpu) = self.harts.get_mut(*hart as usize) {
                    // The gdb side has checked it; a log that says otherwise changes nothing.
                    let _ = cpu.write_register(*register, bytes);
                }
            }
        }
    }

    /// A hart, to be looked at.
    pub fn cpu(&self, hart: u8) -> Option<&dyn Cpu> {
        self.hart(hart)
    }
}
