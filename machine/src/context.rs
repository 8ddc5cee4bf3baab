//! What helpers of a hart may ask of the machine ([`cpu::Context`]).

use cpu::ir::Size;
use cpu::{Access, Context, Cpu, Trap};
use devices::Power;

use crate::access::{Part, Place, Refused, check, load, part, regrant, store, walk};
use crate::config::OnShutdown;
use crate::memory::Guards;
use crate::ram::PAGE;
use crate::system::{Located, System};
use crate::wiring::Local;

impl Context for System {
    fn now(&self) -> u64 {
        self.time().0
    }

    fn load(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap> {
        load(cpu, self, addr, size).or_else(|refused| self.refuse(refused))
    }

    fn store(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size, value: u64) -> Result<(), Trap> {
        store(cpu, self, addr, size, value).or_else(|refused| self.refuse(refused))
    }

    fn store_zeros(&mut self, cpu: &mut dyn Cpu, addr: u64, len: u64) -> Result<(), Trap> {
        const ZEROS: [u8; 256] = [0; 256];
        let (
            Some(zeros),
            Part {
                addr: pa,
                place: Place::Ram,
                ..
            },
        ) = (
            ZEROS.get(..len as usize),
            part(cpu, self, addr, len, Access::Write)?,
        )
        else {
            return Err(cpu.access_fault(addr, Access::Write));
        };
        if self
            .watching
            .access(&self.memory, self.at, self.current, pa, len, true)
        {
            return self.refuse(Refused::Stop);
        }
        self.memory.write_bytes(pa, zeros);
        regrant(cpu, self, addr, pa);
        self.leave |= self.memory.take_leave();
        Ok(())
    }

    fn translate(&mut self, cpu: &mut dyn Cpu, addr: u64, access: Access) -> Result<u64, Trap> {
        Ok(part(cpu, self, addr, 1, access)?.addr)
    }

    fn is_ram(&self, addr: u64) -> bool {
        self.memory.ram().page_of(addr).is_some()
    }

    fn protection_changed(&mut self, cpu: &dyn Cpu) {
        self.protections[usize::from(self.current)] = cpu.protection();
        self.compare_maps();
    }

    fn end_slice(&mut self) {
        self.end_slice = true;
        self.leave = true;
    }

    fn fetch(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap> {
        let found = walk(cpu, self, addr, Access::Fetch)?;
        let len = size.bytes();
        let denied = !found.cacheable && cpu.protects(found.addr, len, Access::Fetch);
        match self.locate(found, len, Access::Fetch) {
            Some(Located::Memory { translation, .. }) if !denied && addr % PAGE + len <= PAGE => {
                self.memory.note_unwatched(translation.addr, len);
                Ok(self.memory.ram().read(translation.addr, size))
            }
            _ => Err(cpu.access_fault(addr, Access::Fetch)),
        }
    }

    fn semihosting(&mut self, cpu: &mut dyn Cpu, op: u64, parameter: u64) -> Result<Option<u64>, Trap> {
        self.answer(cpu, op, parameter)
            .or_else(|refused| self.refuse(refused))
    }

    fn check(&mut self, cpu: &mut dyn Cpu, addr: u64, len: u64, access: Access) -> Result<(), Trap> {
        check(cpu, self, addr, len, access).or_else(|refused| self.refuse(refused))
    }

    fn port_read(&mut self, port: u16, size: Size) -> u64 {
        self.pio_read(port, size.bytes() as u8).into()
    }

    fn port_write(&mut self, port: u16, size: Size, value: u64) {
        self.pio_write(port, size.bytes() as u8, value as u32);
    }

    fn local_read(&mut self, register: u32) -> Option<u64> {
        let local = self.wiring.local?;
        let offset = (local.register)(register)?;
        if (local.faults)(self.local_register(local, local.base), register, None) {
            return None;
        }
        let value = self.with_device(local.device, |d, cx| d.read(cx, offset, 8));
        self.after_device();
        value
    }

    fn local_write(&mut self, register: u32, value: u64) -> bool {
        let Some(local) = self.wiring.local else {
            return false;
        };
        let Some(offset) = (local.register)(register) else {
            return false;
        };
        if (local.faults)(self.local_register(local, local.base), register, Some(value)) {
            return false;
        }
        self.with_device(local.device, |d, cx| d.write(cx, offset, 8, value));
        self.after_device();
        true
    }

    fn acknowledge(&mut self, pin: u32, vector: u8) {
        if let Some(local) = self.wiring.local {
            let offset = (local.acknowledge)(pin);
            self.with_device(local.device, |d, cx| d.write(cx, offset, 1, vector.into()));
            self.after_device();
        }
    }

    fn numeric_error(&mut self, level: bool) {
        if let Some((device, offset)) = self.wiring.numeric_error {
            self.with_device(device, |d, cx| d.write(cx, offset, 1, level.into()));
            self.after_device();
        }
    }

    fn shutdown(&mut self) {
        self.shut_down = true;
        self.power = Some(match self.on_shutdown {
            OnShutdown::Reset => Power::Reset,
            OnShutdown::Stop => Power::Off { code: 1 },
        });
        self.leave = true;
    }

    fn steps_left(&self) -> u64 {
        self.left
    }

    fn more_steps(&mut self, steps: u64) {
        assert!(steps < self.left, "more steps than the budget has");
        self.more_steps = steps;
    }

    fn copy(&mut self, cpu: &mut dyn Cpu, [to, from, len]: [u64; 3], size: Size, down: bool) -> bool {
        let (Ok(source), Ok(target)) = (
            part(cpu, self, from, len, Access::Read),
            part(cpu, self, to, len, Access::Write),
        ) else {
            return false;
        };
        // How far the target lies ahead in the direction of the copy. By less than all: elements are written before they
        // are read, a pattern that spreads.
        let above = target.addr.wrapping_sub(source.addr);
        let ahead = if down { above.wrapping_neg() } else { above };
        if !self.is_plain(source) || !self.is_plain(target) || (1..len).contains(&ahead) {
            return false;
        }
        // Behind by less than an element: each read sees what was written.
        if (1..size.bytes()).contains(&ahead.wrapping_neg()) {
            return false;
        }
        let mut bytes = [0; PAGE as usize];
        let bytes = &mut bytes[..len as usize];
        self.memory.ram().read_bytes(source.addr, bytes);
        self.memory.write_bytes(target.addr, bytes);
        regrant(cpu, self, to, target.addr);
        self.leave |= self.memory.take_leave();
        true
    }

    fn fill(&mut self, cpu: &mut dyn Cpu, to: u64, count: u64, size: Size, value: u64) -> bool {
        let len = count * size.bytes();
        let Ok(target) = part(cpu, self, to, len, Access::Write) else {
            return false;
        };
        if !self.is_plain(target) {
            return false;
        }
        let mut bytes = [0; PAGE as usize];
        let element = value.to_le_bytes();
        for chunk in bytes[..len as usize].chunks_exact_mut(size.bytes() as usize) {
            chunk.copy_from_slice(&element[..chunk.len()]);
        }
        self.memory.write_bytes(target.addr, &bytes[..len as usize]);
        regrant(cpu, self, to, target.addr);
        self.leave |= self.memory.take_leave();
        true
    }
}

impl System {
    fn local_register(&mut self, local: Local, register: u32) -> u64 {
        (local.register)(register)
            .and_then(|offset| self.with_device(local.device, |d, cx| d.read(cx, offset, 8)))
            .unwrap_or(0)
    }

    /// Whether a part is RAM on which nobody looks at single accesses.
    fn is_plain(&self, part: Part) -> bool {
        let page = self.memory.ram().page_of(part.addr);
        matches!(part.place, Place::Ram)
            && page.is_some_and(|page| {
                !self.memory.ram().is_rom(page)
                    && !self.memory.guards(page).intersects(Guards::WATCH | Guards::HTIF)
            })
    }
}
