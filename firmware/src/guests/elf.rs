//! A guest as an ELF file: for `gdb` and `objdump`, which want names, and for other emulators.
//!
//! One loadable segment; sections .text and .data over it; a symbol table in which code is functions and
//! data is objects, each reaching to the next symbol. Source: ELF-64 object file format 1.5.

use super::Guest;

const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;
const SYMBOL: u64 = 24;
const SECTION_NAMES: &[u8] = b"\0.text\0.data\0.symtab\0.strtab\0.shstrtab\0";

/// Little-endian fields, one after the other.
struct Fields(Vec<u8>);

impl Fields {
    fn put(&mut self, size: usize, value: u64) -> &mut Fields {
        self.0.extend_from_slice(&value.to_le_bytes()[..size]);
        self
    }

    fn section(&mut self, name: &str, kind: u64, flags: u64, address: u64, place: (u64, u64)) {
        let needle = format!("\0{name}\0");
        let found = SECTION_NAMES
            .windows(needle.len())
            .position(|w| w == needle.as_bytes());
        let name = found.map_or(0, |at| at as u64 + 1);
        const SYMTAB: u64 = 2;
        // The symbol table: its strings are section 4; the null symbol is its only local one.
        let (link, info, entry) = if kind == SYMTAB { (4, 1, SYMBOL) } else { (0, 0, 0) };
        self.put(4, name)
            .put(4, kind)
            .put(8, flags)
            .put(8, address)
            .put(8, place.0);
        self.put(8, place.1)
            .put(4, link)
            .put(4, info)
            .put(8, 8)
            .put(8, entry);
    }
}

/// What a file says of the machine that it is for.
pub(super) struct Machine {
    pub(super) number: u64,
    pub(super) flags: u64,
    /// Content of a note segment; none if empty.
    pub(super) note: Vec<u8>,
}

/// EM_RISCV; flags: double-float ABI.
const RISCV: Machine = Machine {
    number: 243,
    flags: 4,
    note: Vec::new(),
};

impl Guest {
    /// The guest as an ELF64 executable with symbols; [`crate::load_kernel`] loads it as any other.
    pub fn to_elf(&self) -> Vec<u8> {
        self.elf(&RISCV)
    }

    pub(super) fn elf(&self, machine: &Machine) -> Vec<u8> {
        let text_size = self.data - self.load;
        let data_size = self.image.len() as u64 - text_size;
        let (symbols, strings) = self.symbol_table();

        let headers = if machine.note.is_empty() { 1 } else { 2 };
        let note_at = HEADER + PROGRAM_HEADER * headers;
        let image_at = note_at + machine.note.len() as u64;
        let symbols_at = (image_at + self.image.len() as u64).next_multiple_of(8);
        let strings_at = symbols_at + symbols.len() as u64;
        let names_at = strings_at + strings.len() as u64;
        let sections_at = (names_at + SECTION_NAMES.len() as u64).next_multiple_of(8);

        let mut file = Fields(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec());
        // ET_EXEC.
        file.put(2, 2)
            .put(2, machine.number)
            .put(4, 1)
            .put(8, self.entry)
            .put(8, HEADER)
            .put(8, sections_at);
        file.put(4, machine.flags)
            .put(2, HEADER)
            .put(2, PROGRAM_HEADER)
            .put(2, headers)
            .put(2, SECTION_HEADER);
        file.put(2, 6).put(2, 5);
        // PT_LOAD, rwx.
        let size = self.image.len() as u64;
        file.put(4, 1)
            .put(4, 7)
            .put(8, image_at)
            .put(8, self.load)
            .put(8, self.load);
        file.put(8, size).put(8, size).put(8, 1);
        if headers == 2 {
            // PT_NOTE, r.
            let size = machine.note.len() as u64;
            file.put(4, 4).put(4, 4).put(8, note_at).put(8, 0).put(8, 0);
            file.put(8, size).put(8, size).put(8, 4);
        }
        file.0.extend_from_slice(&machine.note);
        file.0.extend_from_slice(&self.image);
        file.0.resize(symbols_at as usize, 0);
        file.0.extend_from_slice(&symbols);
        file.0.extend_from_slice(&strings);
        file.0.extend_from_slice(SECTION_NAMES);
        file.0.resize(sections_at as usize, 0);

        const PROGBITS: u64 = 1;
        const SYMTAB: u64 = 2;
        const STRTAB: u64 = 3;
        const WRITE: u64 = 1;
        const ALLOC: u64 = 2;
        const EXEC: u64 = 4;
        file.section("", 0, 0, 0, (0, 0));
        file.section(".text", PROGBITS, ALLOC | EXEC, self.load, (image_at, text_size));
        file.section(
            ".data",
            PROGBITS,
            ALLOC | WRITE,
            self.data,
            (image_at + text_size, data_size),
        );
        file.section(".symtab", SYMTAB, 0, 0, (symbols_at, symbols.len() as u64));
        file.section(".strtab", STRTAB, 0, 0, (strings_at, strings.len() as u64));
        file.section(".shstrtab", STRTAB, 0, 0, (names_at, SECTION_NAMES.len() as u64));
        file.0
    }

    /// The bytes of the symbol table and of its strings.
    fn symbol_table(&self) -> (Vec<u8>, Vec<u8>) {
        let mut table = Fields(vec![0; SYMBOL as usize]);
        let mut strings = vec![0];
        let end = self.load + self.image.len() as u64;
        for (n, (name, address)) in self.symbols.iter().enumerate() {
            let next = self.symbols[n..].iter().map(|&(_, a)| a).find(|a| a > address);
            let size = next.unwrap_or(end) - address;
            // STB_GLOBAL with STT_FUNC in section 1, or STT_OBJECT in section 2.
            let (kind, section) = if *address < self.data {
                (0x12, 1)
            } else {
                (0x11, 2)
            };
            table
                .put(4, strings.len() as u64)
                .put(1, kind)
                .put(1, 0)
                .put(2, section);
            table.put(8, *address).put(8, size);
            strings.extend_from_slice(name.as_bytes());
            strings.push(0);
        }
        (table.0, strings)
    }
}

#[cfg(test)]
mod tests {
    use crate::{demo, load_kernel, paging};
    use goblin::elf::Elf;

    #[test]
    fn goblin_reads_the_file_back() {
        for guest in [demo(), paging()] {
            let file = guest.to_elf();
            let elf = Elf::parse(&file).unwrap();
            for (name, address) in &guest.symbols {
                let of_name = |s: &goblin::elf::Sym| elf.strtab.get_at(s.st_name) == Some(name.as_str());
                let symbol = elf.syms.iter().find(of_name).unwrap();
                assert_eq!(symbol.st_value, *address, "{name}");
                assert_eq!(symbol.is_function(), *address < guest.data, "{name}");
            }
            let names = elf
                .section_headers
                .iter()
                .map(|s| elf.shdr_strtab.get_at(s.sh_name).unwrap());
            let names: Vec<_> = names.collect();
            assert_eq!(names, ["", ".text", ".data", ".symtab", ".strtab", ".shstrtab"]);

            let loaded = load_kernel(&file, guest.load, 1 << 20).unwrap();
            assert_eq!(loaded.entry, guest.entry);
            assert_eq!(loaded.segments[0].bytes, guest.image);
        }
    }
}
