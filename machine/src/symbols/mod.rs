//! The symbols of a running Linux kernel, found in its own memory (kallsyms): distribution kernels are stripped, and
//! where KASLR has put them only they know.
//!
//! ```text
//!   all of RAM --"0\01\02\0..."--> token tables --> the tables around --> symbols --> do page tables map them so?
//!                                  kallsyms.rs                                        here
//! ```
//!
//! The tables hold addresses as the kernel has relocated them. They are taken if the page tables of some hart put the
//! tables themselves where they were found: other copies (a boot loader's, another kernel's) are not. At a moment at which
//! no hart maps the kernel (firmware runs, or a process whose tables leave it out), the kernel's banner must stand
//! in memory at the same distance from the tables, and [`KernelSymbols::mapped`] says that this was all.
//!
//! Knows of guests only how to read memory ([`GuestMemory`]). Modules' symbols are not in these tables.
//!
//! [`KernelSymbols::to_elf`] makes the file for debuggers.

mod elf;
mod kallsyms;
#[cfg(test)]
mod tests;

use crate::machine::Machine;
use crate::ram::PAGE;
pub use elf::ElfMachine;
use kallsyms::{DIGITS, Effort, Tokens};

/// How a kernel names itself, at `linux_banner`.
const BANNER: &[u8] = b"Linux version ";
/// The longest banner.
const LONGEST_BANNER: usize = 512;
/// Bytes around a token table in which the other tables are: some 10^6 symbols.
const AROUND: u64 = 16 << 20;
/// Bytes around the digits in which the whole token table and its index are.
const NEAR: u64 = 160 << 10;
/// Bytes read at once.
const CHUNK: u64 = 1 << 20;
/// A kernel's image is not longer.
const LONGEST_IMAGE: u64 = 1 << 30;

/// What a symbol names, by the letter that `nm` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(u8);

impl Kind {
    /// The kind of that letter; capital: known outside of its file.
    pub fn of(letter: char) -> Option<Kind> {
        let letter = u8::try_from(letter).ok()?;
        letter.is_ascii_alphabetic().then_some(Kind(letter))
    }

    /// Its letter.
    pub fn letter(self) -> char {
        self.0.into()
    }
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// Virtual address, as running.
    pub address: u64,
    /// Kind.
    pub kind: Kind,
    /// The address is the place of a variable in the area of each CPU.
    pub per_cpu: bool,
    /// Name.
    pub name: Box<str>,
}

/// All symbols of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbols {
    /// By ascending address.
    pub symbols: Vec<KernelSymbol>,
    /// How the kernel names itself (`Linux version ...`), if that was found.
    pub banner: Option<String>,
    /// Whether the page tables of a hart show that the kernel is where its tables say.
    pub mapped: bool,
}

/// A machine's memory as the search needs it.
pub trait GuestMemory {
    /// Stretches of memory: physical address and length.
    fn stretches(&self) -> Vec<(u64, u64)>;
    /// Reads at a physical address; `false`: not all of it is memory.
    fn read(&self, addr: u64, out: &mut [u8]) -> bool;
    /// Physical addresses of a virtual one: as each hart that maps it does.
    fn translate(&mut self, addr: u64) -> Vec<u64>;
}

impl GuestMemory for Machine {
    fn stretches(&self) -> Vec<(u64, u64)> {
        self.sys.memory.ram().stretches().collect()
    }

    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        let there = self.sys.memory.ram().contains(addr, out.len() as u64);
        if there {
            self.sys.memory.ram().read_bytes(addr, out);
        }
        there
    }

    fn translate(&mut self, addr: u64) -> Vec<u64> {
        (0..self.hart_count())
            .filter_map(|hart| self.debug_translate(hart, addr))
            .collect()
    }
}

impl KernelSymbols {
    /// Finds the symbols of the kernel that runs in this memory. `None`: there are none, or none that are where they say.
    pub fn find(memory: &mut dyn GuestMemory) -> Option<KernelSymbols> {
        let mut effort = Effort::ENOUGH;
        let mut unmapped = None;
        for (base, len) in memory.stretches() {
            let mut from = base;
            let end = base.saturating_add(len);
            while from < end {
                // Digits that lie across the end of a chunk are found in the next.
                let chunk = read(memory, from, (CHUNK + DIGITS.len() as u64 - 1).min(end - from))?;
                for digits in memchr::memmem::find_iter(&chunk, DIGITS) {
                    effort.places -= 1;
                    match at(memory, (base, end), from + digits as u64, &mut effort) {
                        Some(found) if found.mapped => return Some(found),
                        Some(found) => unmapped = unmapped.or(Some(found)),
                        None => {}
                    }
                    if effort.tables == 0 || effort.places == 0 {
                        return unmapped;
                    }
                }
                from += CHUNK;
            }
        }
        unmapped
    }

    /// The symbol of that name.
    pub fn named(&self, name: &str) -> Option<&KernelSymbol> {
        self.symbols.iter().find(|symbol| *symbol.name == *name)
    }

    /// Where the kernel's code begins.
    pub fn text(&self) -> Option<u64> {
        text(&self.symbols).map(|symbol| symbol.address)
    }
}

fn text(symbols: &[KernelSymbol]) -> Option<&KernelSymbol> {
    let named = |name: &str| symbols.iter().find(|symbol| *symbol.name == *name);
    named("_text").or_else(|| named("_stext"))
}

/// Reads memory that is there; the lengths are small.
fn read(memory: &dyn GuestMemory, addr: u64, len: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    memory.read(addr, &mut bytes).then_some(bytes)
}

/// Bytes around an address, within a stretch, and where they begin: a multiple of the page size.
fn around(memory: &dyn GuestMemory, stretch: (u64, u64), addr: u64, each: u64) -> Option<(u64, Vec<u8>)> {
    let from = (addr.saturating_sub(each) & !(PAGE - 1)).max(stretch.0);
    let to = addr.saturating_add(each).min(stretch.1);
    Some((from, read(memory, from, to - from)?))
}

/// The symbols whose token table has its digits at `digits`.
fn at(
    memory: &mut dyn GuestMemory,
    stretch: (u64, u64),
    digits: u64,
    effort: &mut Effort,
) -> Option<KernelSymbols> {
    let (from, bytes) = around(memory, stretch, digits, NEAR)?;
    Tokens::find(&bytes, usize::try_from(digits - from).ok()?)?;
    effort.tables = effort.tables.checked_sub(1)?;
    let (from, bytes) = around(memory, stretch, digits, AROUND)?;
    let tokens = Tokens::find(&bytes, usize::try_from(digits - from).ok()?)?;
    let symbols = kallsyms::symbols(&bytes, &tokens, effort)?;
    let tables = from + tokens.start as u64;
    let first = text(&symbols)?.address;
    let banner = symbols.iter().find(|symbol| &*symbol.name == "linux_banner");
    let banner = banner.map(|symbol| symbol.address);
    // An image is in one piece: physical and virtual addresses of everything in it lie equally far apart.
    let is_inside = |distance: u64| tables.wrapping_add(distance).wrapping_sub(first) < LONGEST_IMAGE;
    for at in memory.translate(first) {
        let distance = first.wrapping_sub(at);
        let as_said =
            is_inside(distance) && memory.translate(tables.wrapping_add(distance)).contains(&tables);
        if as_said {
            let banner = banner.map(|address| read_banner(memory, address.wrapping_sub(distance)));
            return Some(KernelSymbols {
                symbols,
                // Where the symbol is, the banner must be.
                banner: banner.map_or(Some(None), |banner| banner.map(Some))?,
                mapped: true,
            });
        }
    }
    let banner = banner?;
    let text = memchr::memmem::find_iter(&bytes, BANNER).find_map(|at| {
        let at = from + at as u64;
        let fits = at % PAGE == banner % PAGE && is_inside(banner.wrapping_sub(at));
        fits.then(|| read_banner(memory, at))?
    })?;
    Some(KernelSymbols {
        symbols,
        banner: Some(text),
        mapped: false,
    })
}

/// The banner at a physical address, if one is there.
fn read_banner(memory: &dyn GuestMemory, addr: u64) -> Option<String> {
    let mut bytes = [0; LONGEST_BANNER];
    let whole = memory.read(addr, &mut bytes);
    let bytes = bytes
        .split(|byte| matches!(byte, 0 | b'\n'))
        .next()
        .filter(|_| whole)?;
    let text = std::str::from_utf8(bytes).ok()?;
    (bytes.starts_with(BANNER) && !text.contains(char::is_control)).then(|| text.into())
}

impl Machine {
    /// The symbols of the Linux kernel that runs here, found in its memory without a side effect.
    pub fn kernel_symbols(&mut self) -> Option<KernelSymbols> {
        KernelSymbols::find(self)
    }
}
