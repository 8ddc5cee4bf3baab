//! The two 8259A interrupt controllers of a PC, the second on input 2 of the first, and their ELCR.
//!
//! An edge-triggered request is the latch set by the rise of its input *and* the input: one that falls before
//! it is acknowledged is gone, and an acknowledgement that finds none answers with input 7, without setting its
//! in-service bit. INT is what an acknowledgement would not find spurious. The inputs' trigger mode is their ELCR bit, or
//! LTIM for all. The second chip's INT is a level on input 2 whatever the mode; ICW3 and SNGL, which tell a chip of its
//! wiring, don't change it. Before ICW1 to ICW4 are through, INT stays low.
//!
//! Source: Intel 8259A data sheet (231468); ELCR: 82371SB data sheet 2.5.1.

use serde::{Deserialize, Serialize};

/// ICW1's mark in a write to the even port, and its bits.
const ICW1: u8 = 1 << 4;
const IC4: u8 = 1 << 0;
const SNGL: u8 = 1 << 1;
const LTIM: u8 = 1 << 3;
/// OCW3's mark.
const OCW3: u8 = 1 << 3;
/// ICW4.
const AEOI: u8 = 1 << 1;
const SFNM: u8 = 1 << 4;
/// The input of the first chip on which the second is.
const CASCADE: u8 = 2;

/// One chip.
#[derive(Clone, Serialize, Deserialize)]
struct Chip {
    step: Step,
    icw1: u8,
    icw4: u8,
    /// ICW2: the vector of input 0.
    base: u8,
    /// Levels of the inputs.
    level: u8,
    /// Rises not yet acknowledged.
    edge: u8,
    isr: u8,
    imr: u8,
    elcr: u8,
    /// The input of the lowest priority.
    lowest: u8,
    rotate_in_aeoi: bool,
    special_mask: bool,
    read_isr: bool,
    /// The next read is a poll.
    poll: bool,
}

/// What the odd port expects.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// Power-on: nothing before ICW1.
    Off,
    Icw2,
    Icw3,
    Icw4,
    Ready,
}

/// The pair.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Pics {
    master: Chip,
    slave: Chip,
}

impl Chip {
    fn new() -> Self {
        Chip {
            step: Step::Off,
            icw1: 0,
            icw4: 0,
            base: 0,
            level: 0,
            edge: 0,
            isr: 0,
            imr: 0,
            elcr: 0,
            lowest: 7,
            rotate_in_aeoi: false,
            special_mask: false,
            read_isr: false,
            poll: false,
        }
    }

    fn triggered_by_level(&self) -> u8 {
        if self.icw1 & LTIM != 0 { 0xff } else { self.elcr }
    }

    fn irr(&self) -> u8 {
        self.level & (self.edge | self.triggered_by_level())
    }

    fn set_input(&mut self, input: u8, level: bool) {
        let bit = 1 << (input & 7);
        if level {
            self.edge |= bit & !self.level;
            self.level |= bit;
        } else {
            self.edge &= !bit;
            self.level &= !bit;
        }
    }

    /// The input of the highest priority among `bits`.
    fn highest(&self, bits: u8) -> Option<u8> {
        let first = self.lowest.wrapping_add(1) & 7;
        let rank = bits.rotate_right(first.into());
        (rank != 0).then(|| (rank.trailing_zeros() as u8 + first) & 7)
    }

    fn rank(&self, input: u8) -> u8 {
        input.wrapping_sub(self.lowest).wrapping_sub(1) & 7
    }

    /// The request for which INT is up, if it is. `nesting` is the input whose own service doesn't block it in
    /// special fully nested mode.
    fn request(&self, nesting: Option<u8>) -> Option<u8> {
        if self.step != Step::Ready {
            return None;
        }
        let input = self.highest(self.irr() & !self.imr)?;
        let blocking = if self.special_mask {
            self.isr & !self.imr
        } else {
            self.isr
        };
        let Some(serving) = self.highest(blocking) else {
            return Some(input);
        };
        let nests = self.icw4 & SFNM != 0 && input == serving && nesting == Some(input);
        (nests || self.rank(input) < self.rank(serving)).then_some(input)
    }

    /// Takes request `input` into service.
    fn serve(&mut self, input: u8) {
        self.edge &= !(1 << input);
        if self.icw4 & AEOI == 0 {
            self.isr |= 1 << input;
        } else if self.rotate_in_aeoi {
            self.lowest = input;
        }
    }

    fn ocw2(&mut self, value: u8) {
        let named = value & 7;
        // An input that is masked in special mask mode isn't found by a non-specific EOI.
        let found = self.highest(if self.special_mask {
            self.isr & !self.imr
        } else {
            self.isr
        });
        let (rotate, specific, eoi) = (value & 0x80 != 0, value & 0x40 != 0, value & 0x20 != 0);
        match (specific, eoi) {
            (false, false) => self.rotate_in_aeoi = rotate,
            (true, false) => {
                if rotate {
                    self.lowest = named;
                }
            }
            (_, true) => {
                if let Some(input) = if specific { Some(named) } else { found } {
                    self.isr &= !(1 << input);
                    if rotate {
                        self.lowest = input;
                    }
                }
            }
        }
    }

    fn write_even(&mut self, value: u8) {
        if value & ICW1 != 0 {
            *self = Chip {
                step: Step::Icw2,
                icw1: value,
                base: self.base,
                level: self.level,
                elcr: self.elcr,
                ..Chip::new()
            };
        } else if value & OCW3 != 0 {
            if value & 0x40 != 0 {
                self.special_mask = value & 0x20 != 0;
            }
            self.poll = value & 4 != 0;
            if value & 2 != 0 {
                self.read_isr = value & 1 != 0;
            }
        } else {
            self.ocw2(value);
        }
    }

    fn write_odd(&mut self, value: u8) {
        match self.step {
            Step::Off => {}
            Step::Ready => self.imr = value,
            Step::Icw2 => {
                self.base = value & 0xf8;
                self.step = if self.icw1 & SNGL == 0 {
                    Step::Icw3
                } else {
                    self.after_icw3()
                };
            }
            Step::Icw3 => self.step = self.after_icw3(),
            Step::Icw4 => {
                self.icw4 = value;
                self.step = Step::Ready;
            }
        }
    }

    fn after_icw3(&self) -> Step {
        if self.icw1 & IC4 != 0 {
            Step::Icw4
        } else {
            Step::Ready
        }
    }

    fn read(&self, odd: bool) -> u8 {
        match (odd, self.read_isr) {
            (true, _) => self.imr,
            (false, true) => self.isr,
            (false, false) => self.irr(),
        }
    }
}

impl Pics {
    pub fn new() -> Self {
        Pics {
            master: Chip::new(),
            slave: Chip::new(),
        }
    }

    /// Lets the second chip's INT through to the first.
    fn settle(&mut self) {
        let level = self.slave.request(None).is_some();
        self.master.set_input(CASCADE, level);
        // A level, whatever the mode: it may stay up over an acknowledgement.
        if level {
            self.master.edge |= 1 << CASCADE;
        }
    }

    /// IRQ `irq` (0 to 15, not 2) changes.
    pub fn set_irq(&mut self, irq: u32, level: bool) {
        match irq {
            2 => {}
            0..8 => self.master.set_input(irq as u8, level),
            _ => self.slave.set_input(irq as u8 & 7, level),
        }
        self.settle();
    }

    /// What an acknowledgement would give now, if INT is up.
    pub fn vector(&self) -> Option<u8> {
        match self.master.request(Some(CASCADE))? {
            CASCADE => Some(self.slave.base | self.slave.request(None).unwrap_or(7)),
            input => Some(self.master.base | input),
        }
    }

    /// The processor's two INTA cycles: takes the request into service and gives its vector, or that of input 7 if there is none.
    pub fn acknowledge(&mut self) -> u8 {
        let input = self.master.request(Some(CASCADE));
        let vector = match input {
            Some(CASCADE) => {
                let slave = self.slave.request(None);
                if let Some(slave) = slave {
                    self.slave.serve(slave);
                }
                self.slave.base | slave.unwrap_or(7)
            }
            _ => self.master.base | input.unwrap_or(7),
        };
        if let Some(input) = input {
            self.master.serve(input);
        }
        self.settle();
        vector
    }

    fn chip(&mut self, slave: bool) -> &mut Chip {
        if slave { &mut self.slave } else { &mut self.master }
    }

    /// Reads the even or odd port of a chip.
    pub fn read(&mut self, slave: bool, odd: bool) -> u8 {
        let nesting = if slave { None } else { Some(CASCADE) };
        let chip = self.chip(slave);
        if !chip.poll {
            return chip.read(odd);
        }
        chip.poll = false;
        let input = chip.request(nesting);
        if let Some(input) = input {
            chip.serve(input);
        }
        self.settle();
        input.map_or(0, |input| 0x80 | input)
    }

    /// Writes the even or odd port of a chip.
    pub fn write(&mut self, slave: bool, odd: bool, value: u8) {
        let chip = self.chip(slave);
        if odd {
            chip.write_odd(value);
        } else {
            chip.write_even(value);
        }
        self.settle();
    }

    /// Reads the ELCR of a chip.
    pub fn elcr(&self, slave: bool) -> u8 {
        if slave { self.slave.elcr } else { self.master.elcr }
    }

    /// Writes the ELCR of a chip; the inputs that an ISA board fixes (0, 1, 2, 8, 13) stay edge-triggered.
    pub fn set_elcr(&mut self, slave: bool, value: u8) {
        self.chip(slave).elcr = value & if slave { 0xde } else { 0xf8 };
        self.settle();
    }

    /// Whether the chips can be in this state, as far as their arithmetic needs it.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.master.lowest > 7 || self.slave.lowest > 7 {
            return Err("no such 8259 input");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both chips as a BIOS sets them up: vectors 8 and 0x70, nothing masked.
    fn pics() -> Pics {
        let mut pics = Pics::new();
        init(&mut pics, 0x11, 0x01);
        pics
    }

    fn init(pics: &mut Pics, icw1: u8, icw4: u8) {
        for (slave, base, icw3) in [(false, 0x08, 4), (true, 0x70, 2)] {
            pics.write(slave, false, icw1);
            for icw in [base, icw3, icw4] {
                pics.write(slave, true, icw);
            }
        }
    }

    fn pulse(pics: &mut Pics, irq: u32) {
        pics.set_irq(irq, false);
        pics.set_irq(irq, true);
    }

    fn isr(pics: &mut Pics, slave: bool) -> u8 {
        pics.write(slave, false, 0x0b);
        pics.read(slave, false)
    }

    fn irr(pics: &mut Pics, slave: bool) -> u8 {
        pics.write(slave, false, 0x0a);
        pics.read(slave, false)
    }

    #[test]
    fn fully_nested() {
        let mut pics = pics();
        pulse(&mut pics, 5);
        pulse(&mut pics, 3);
        assert_eq!(pics.vector(), Some(0x0b));
        assert_eq!(pics.acknowledge(), 0x0b);
        assert_eq!((isr(&mut pics, false), irr(&mut pics, false)), (1 << 3, 1 << 5));
        assert_eq!(pics.vector(), None); // 5 waits
        pulse(&mut pics, 1);
        assert_eq!(pics.acknowledge(), 0x09); // nests
        pulse(&mut pics, 3);
        pics.write(false, false, 0x20); // EOI of 1
        assert_eq!((isr(&mut pics, false), pics.vector()), (1 << 3, None));
        pics.write(false, false, 0x20);
        assert_eq!(pics.acknowledge(), 0x0b);
        pics.write(false, false, 0x63); // specific
        assert_eq!(pics.acknowledge(), 0x0d);
    }

    #[test]
    fn masks_hold_requests() {
        let mut pics = pics();
        pics.write(false, true, 0xff);
        assert_eq!(pics.read(false, true), 0xff);
        pulse(&mut pics, 4);
        assert_eq!((pics.vector(), irr(&mut pics, false)), (None, 1 << 4));
        pics.write(false, true, 0xef);
        assert_eq!(pics.vector(), Some(0x0c));
    }

    #[test]
    fn cascade() {
        let mut pics = pics();
        pulse(&mut pics, 12);
        pulse(&mut pics, 5);
        assert_eq!(pics.acknowledge(), 0x74); // above input 3
        assert_eq!((isr(&mut pics, false), isr(&mut pics, true)), (4, 1 << 4));
        pulse(&mut pics, 8); // above 12, but its chip is in service
        assert_eq!(pics.vector(), None);
        pics.write(true, false, 0x20);
        pics.write(false, false, 0x20);
        assert_eq!(pics.acknowledge(), 0x70);
        pics.write(true, false, 0x20);
        pics.write(false, false, 0x20);
        assert_eq!(pics.acknowledge(), 0x0d);
    }

    #[test]
    fn special_fully_nested() {
        let mut pics = pics();
        init(&mut pics, 0x11, 0x11);
        pulse(&mut pics, 12);
        assert_eq!(pics.acknowledge(), 0x74);
        pulse(&mut pics, 8);
        assert_eq!(pics.acknowledge(), 0x70);
        pulse(&mut pics, 3);
        assert_eq!(pics.vector(), None);
    }

    #[test]
    fn edges_and_levels() {
        let mut pics = pics();
        pics.set_irq(5, true);
        pics.acknowledge();
        pics.write(false, false, 0x20);
        assert_eq!(pics.vector(), None); // still up, no new edge
        pics.set_elcr(false, 0xff);
        assert_eq!(pics.elcr(false), 0xf8);
        assert_eq!(pics.vector(), Some(0x0d));
        pics.acknowledge();
        pics.write(false, false, 0x20);
        assert_eq!(pics.vector(), Some(0x0d));
        pics.set_irq(5, false);
        assert_eq!(pics.vector(), None);
        pics.set_elcr(true, 0xff);
        assert_eq!(pics.elcr(true), 0xde);
        // LTIM.
        init(&mut pics, 0x19, 0x01);
        pics.set_irq(1, true);
        pics.acknowledge();
        pics.write(false, false, 0x20);
        assert_eq!(pics.vector(), Some(0x09));
    }

    #[test]
    fn a_request_that_is_gone_is_spurious() {
        let mut pics = pics();
        pulse(&mut pics, 5);
        pics.set_irq(5, false);
        assert_eq!(pics.vector(), None);
        assert_eq!(pics.acknowledge(), 0x0f);
        assert_eq!(isr(&mut pics, false), 0);
        // The second chip's input 7 while the first one holds the cascade.
        pulse(&mut pics, 9);
        pics.slave.set_input(1, false); // between the two INTA cycles
        assert_eq!(pics.acknowledge(), 0x77);
        assert_eq!((isr(&mut pics, false), isr(&mut pics, true)), (4, 0));
    }

    #[test]
    fn rotation() {
        let mut pics = pics();
        for irq in [0, 4, 6] {
            pulse(&mut pics, irq);
        }
        assert_eq!(pics.acknowledge(), 0x08);
        pics.write(false, false, 0xa0); // rotate on non-specific EOI: 0 becomes the lowest
        pulse(&mut pics, 0);
        assert_eq!(pics.acknowledge(), 0x0c);
        pics.write(false, false, 0xe4); // rotate on specific EOI of 4
        assert_eq!(pics.acknowledge(), 0x0e);
        pics.write(false, false, 0x20);
        assert_eq!(pics.acknowledge(), 0x08);
        pics.write(false, false, 0x20);
        pics.write(false, false, 0xc5); // set priority: 6 is the highest
        for irq in [0, 6] {
            pulse(&mut pics, irq);
        }
        assert_eq!(pics.acknowledge(), 0x0e);
    }

    #[test]
    fn automatic_eoi() {
        let mut pics = pics();
        init(&mut pics, 0x11, 0x03);
        pics.write(false, false, 0x80); // rotate in automatic EOI
        for irq in [1, 4] {
            pulse(&mut pics, irq);
        }
        assert_eq!((pics.acknowledge(), isr(&mut pics, false)), (0x09, 0));
        pulse(&mut pics, 1);
        assert_eq!(pics.acknowledge(), 0x0c); // 1 is the lowest now
        pics.write(false, false, 0x00);
    }

    #[test]
    fn special_mask() {
        let mut pics = pics();
        pulse(&mut pics, 3);
        pics.acknowledge();
        pulse(&mut pics, 6);
        assert_eq!(pics.vector(), None);
        pics.write(false, true, 1 << 3);
        assert_eq!(pics.vector(), None);
        pics.write(false, false, 0x68);
        assert_eq!(pics.acknowledge(), 0x0e);
        // A non-specific EOI passes over the masked one.
        pics.write(false, false, 0x20);
        pics.write(false, false, 0x20);
        assert_eq!(isr(&mut pics, false), 1 << 3);
        pics.write(false, false, 0x48);
        pics.write(false, false, 0x20);
        assert_eq!(isr(&mut pics, false), 0);
    }

    #[test]
    fn poll() {
        let mut pics = pics();
        pics.write(false, false, 0x0c);
        assert_eq!(pics.read(false, false), 0);
        pulse(&mut pics, 6);
        pics.write(false, false, 0x0c);
        assert_eq!(pics.read(false, true), 0x86);
        assert_eq!(isr(&mut pics, false), 1 << 6);
        pulse(&mut pics, 10);
        pics.write(false, false, 0x0c);
        assert_eq!(pics.read(false, false), 0x82);
        pics.write(true, false, 0x0c);
        assert_eq!(pics.read(true, false), 0x82);
    }

    #[test]
    fn initialisation() {
        let mut pics = Pics::new();
        pulse(&mut pics, 1);
        assert_eq!(pics.vector(), None);
        pics.write(false, false, 0x11);
        pics.write(false, true, 0x27); // only the upper five bits
        pics.write(false, true, 4);
        assert_eq!(pics.vector(), None);
        pics.write(false, true, 1);
        assert_eq!(pics.vector(), None); // ICW1 cleared the edge
        pulse(&mut pics, 1);
        assert_eq!(pics.vector(), Some(0x21));
        // Without ICW4 its functions are off.
        pics.write(false, true, 0xff);
        pics.write(false, false, 0x10);
        pics.write(false, true, 0x40);
        pics.write(false, true, 4);
        assert_eq!(pics.read(false, true), 0);
        pulse(&mut pics, 2);
        pulse(&mut pics, 0);
        assert_eq!(pics.acknowledge(), 0x40);
    }
}
