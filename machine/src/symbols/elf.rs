//! Symbols as a file for debuggers: ELF-64 with a symbol table and no content (ELF 1.2, System V gABI 4.1).
//!
//! gdb finds the symbol of an address only within a section, and tells code from data by the section's flags. So sections
//! cover the kernel's addresses without gaps, as runs of symbols of one class, and have a size but no bytes (`NOBITS`),
//! as in a file that `objcopy --only-keep-debug` made.

use super::{KernelSymbol, KernelSymbols};
use crate::ram::PAGE;

/// For which processor a file is: `e_machine` and `e_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfMachine {
    /// `e_machine`.
    pub machine: u16,
    /// `e_flags`.
    pub flags: u32,
}

const HEADER: usize = 64;
const SECTION: usize = 64;
const SYMBOL: usize = 24;

const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_NOBITS: u32 = 8;
const SHF_WRITE: u64 = 1;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
const SHN_ABS: u16 = 0xfff1;
/// The most sections of addresses, so that numbers of sections fit into 16 bits.
const MOST_RUNS: usize = 1 << 12;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Code,
    Constants,
    Data,
    Zeroed,
}

impl Class {
    const ALL: [Class; 4] = [Class::Code, Class::Constants, Class::Data, Class::Zeroed];

    /// The class of a symbol; `None`: absolute, or (weak ones) whatever is around it.
    fn of(symbol: &KernelSymbol) -> Option<Class> {
        match symbol.kind.letter().to_ascii_lowercase() {
            't' => Some(Class::Code),
            'r' => Some(Class::Constants),
            'd' | 'g' => Some(Class::Data),
            'b' | 's' => Some(Class::Zeroed),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Class::Code => ".text",
            Class::Constants => ".rodata",
            Class::Data => ".data",
            Class::Zeroed => ".bss",
        }
    }

    fn flags(self) -> u64 {
        match self {
            Class::Code => SHF_ALLOC | SHF_EXECINSTR,
            Class::Constants => SHF_ALLOC,
            Class::Data | Class::Zeroed => SHF_ALLOC | SHF_WRITE,
        }
    }
}

/// Addresses of one class.
struct Run {
    class: Class,
    start: u64,
    end: u64,
}

/// A symbol is an address of its own, in no section.
fn is_absolute(symbol: &KernelSymbol) -> bool {
    symbol.per_cpu || symbol.kind.letter().eq_ignore_ascii_case(&'a')
}

/// The runs, and of each symbol, which are by ascending address, the number of its run.
fn runs(symbols: &[KernelSymbol]) -> (Vec<Run>, Vec<Option<usize>>) {
    let mut runs: Vec<Run> = Vec::new();
    let mut places = Vec::new();
    for symbol in symbols {
        if is_absolute(symbol) {
            places.push(None);
            continue;
        }
        let around = runs.last().map_or(Class::Code, |run| run.class);
        let class = Class::of(symbol).unwrap_or(around);
        let full = runs.len() >= MOST_RUNS;
        match runs.last_mut() {
            // What is at an address is said by the last symbol there; the others are ends of what was before.
            Some(last) if last.start == symbol.address => last.class = class,
            Some(_) if class == around || full => {}
            last => {
                if let Some(last) = last {
                    last.end = symbol.address;
                }
                runs.push(Run {
                    class,
                    start: symbol.address,
                    end: symbol.address,
                });
            }
        }
        places.push(Some(runs.len() - 1));
        // Of the last symbol nobody knows the size; it and what follows on its page are of the section.
        if let Some(last) = runs.last_mut() {
            last.end = (symbol.address | (PAGE - 1)).saturating_add(1);
        }
    }
    (runs, places)
}

/// Names, each ended by a NUL.
struct Strings(Vec<u8>);

impl Strings {
    fn new() -> Strings {
        Strings(vec![0])
    }

    fn add(&mut self, name: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        at
    }
}

/// A section header; what isn't said is 0.
#[derive(Default)]
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    addr: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
    entry: u64,
}

impl Section {
    fn write(&self, out: &mut Vec<u8>) {
        for word in [self.name, self.kind] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.flags, self.addr, self.offset, self.size] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.link, self.info] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.align, self.entry] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// The symbol table: local symbols first. Its bytes, and the number of local symbols with the one of number 0.
fn symbol_table(
    symbols: &[KernelSymbol],
    runs: &[Run],
    places: &[Option<usize>],
    names: &mut Strings,
) -> (Vec<u8>, u32) {
    let mut table = vec![0; SYMBOL];
    let mut locals = 1;
    // A symbol ends where the next one of its section begins.
    let mut ends = vec![0; symbols.len()];
    let mut next = (usize::MAX, 0, 0);
    for (i, (symbol, place)) in symbols.iter().zip(places).enumerate().rev() {
        let Some(run) = *place else { continue };
        let (next_run, next_address, next_end) = next;
        let end = match () {
            () if next_run != run => runs[run].end,
            () if next_address > symbol.address => next_address,
            () => next_end,
        };
        ends[i] = end;
        next = (run, symbol.address, end);
    }
    for local in [true, false] {
        for ((symbol, place), end) in symbols.iter().zip(places).zip(&ends) {
            let letter = symbol.kind.letter();
            let weak = matches!(letter, 'w' | 'W' | 'v' | 'V');
            if local != (letter.is_ascii_lowercase() && !weak) {
                continue;
            }
            locals += u32::from(local);
            let bind: u8 = match () {
                () if weak => 2,
                () if local => 0,
                () => 1,
            };
            let (kind, section, size) = match place {
                // STT_NOTYPE: an absolute number is neither code nor data.
                None => (0, SHN_ABS, 0),
                Some(run) => {
                    let function = runs[*run].class == Class::Code && !matches!(letter, 'v' | 'V');
                    let section = 1 + *run as u16;
                    (
                        if function { 2 } else { 1 },
                        section,
                        end.saturating_sub(symbol.address),
                    )
                }
            };
            table.extend_from_slice(&names.add(&symbol.name).to_le_bytes());
            table.extend_from_slice(&[bind << 4 | kind, 0]);
            table.extend_from_slice(&section.to_le_bytes());
            table.extend_from_slice(&symbol.address.to_le_bytes());
            table.extend_from_slice(&size.to_le_bytes());
        }
    }
    (table, locals)
}

impl KernelSymbols {
    /// The file, to be loaded with gdb's `symbol-file` or `add-symbol-file`.
    pub fn to_elf(&self, machine: ElfMachine) -> Vec<u8> {
        let (runs, places) = runs(&self.symbols);
        let mut names = Strings::new();
        let (table, locals) = symbol_table(&self.symbols, &runs, &places, &mut names);
        let mut section_names = Strings::new();
        let mut sections = vec![Section::default()];
        let mut seen = [0; Class::ALL.len()];
        for run in &runs {
            let seen = &mut seen[run.class as usize];
            *seen += 1;
            let name = match *seen {
                1 => run.class.name().to_owned(),
                number => format!("{}.{number}", run.class.name()),
            };
            sections.push(Section {
                name: section_names.add(&name),
                kind: SHT_NOBITS,
                flags: run.class.flags(),
                addr: run.start,
                offset: HEADER as u64,
                size: run.end - run.start,
                align: 1,
                ..Section::default()
            });
        }
        let strings = sections.len() as u32 + 1;
        let mut offset = HEADER as u64;
        let mut content = |name: u32, kind: u32, size: usize| {
            let section = Section {
                name,
                kind,
                offset,
                size: size as u64,
                align: 1,
                ..Section::default()
            };
            offset += size as u64;
            section
        };
        sections.push(Section {
            link: strings,
            info: locals,
            align: 8,
            entry: SYMBOL as u64,
            ..content(section_names.add(".symtab"), SHT_SYMTAB, table.len())
        });
        sections.push(content(section_names.add(".strtab"), SHT_STRTAB, names.0.len()));
        let name = section_names.add(".shstrtab");
        sections.push(content(name, SHT_STRTAB, section_names.0.len()));
        let headers = offset.next_multiple_of(8);

        let mut out = Vec::with_capacity(headers as usize + sections.len() * SECTION);
        // 64 bits, little-endian, version 1; ET_EXEC: addresses are final.
        out.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        out.extend_from_slice(&2u16.to_le_bytes());
        out.extend_from_slice(&machine.machine.to_le_bytes());
        out.extend_from_slice(&1u32.to_le_bytes());
        // Entry, program headers.
        out.extend_from_slice(&[0; 16]);
        out.extend_from_slice(&headers.to_le_bytes());
        out.extend_from_slice(&machine.flags.to_le_bytes());
        let (count, last) = (sections.len() as u16, sections.len() as u16 - 1);
        for half in [HEADER as u16, 56, 0, SECTION as u16, count, last] {
            out.extend_from_slice(&half.to_le_bytes());
        }
        for part in [&table, &names.0, &section_names.0] {
            out.extend_from_slice(part);
        }
        out.resize(headers as usize, 0);
        for section in &sections {
            section.write(&mut out);
        }
        out
    }
}
