//! Tables made here in every order and form, and memory that only looks like them. What Debian's kernel has is compared
//! with its `System.map` in `tests/cli/symbols.rs`.

use super::*;
use goblin::elf::Elf;
use proptest::prelude::*;

const PHYSICAL: u64 = 0x8020_0000;
const VIRTUAL: u64 = 0xffff_ffff_8240_0000;
const BANNER_AT: u64 = 0x4120;
const TEXT: &str = "Linux version 6.12.0-test (somebody) #1 SMP\n";
const PER_CPU: u64 = 0x2_4000;

/// How addresses are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Relative,
    PerCpu,
    Absolute,
}

/// Where the addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    InFront,
    InFrontWithSequences,
    Behind,
}

const FORMS: [Form; 3] = [Form::Relative, Form::PerCpu, Form::Absolute];
const ORDERS: [Order; 3] = [Order::InFront, Order::InFrontWithSequences, Order::Behind];

/// A kernel's symbols, of which some have long names, where `_text` is at `first`.
fn kernel(first: u64, form: Form) -> Vec<KernelSymbol> {
    let symbol = |address, letter, name: &str| KernelSymbol {
        address,
        kind: Kind::of(letter).unwrap(),
        per_cpu: address < PER_CPU,
        name: name.into(),
    };
    let mut symbols = Vec::new();
    if form == Form::PerCpu {
        symbols.extend([
            symbol(0, 'A', "fixed_percpu_data"),
            symbol(0x1f00, 'A', "pcpu_hot"),
        ]);
    }
    symbols.extend([symbol(first, 'T', "_stext"), symbol(first, 'T', "_text")]);
    for i in 1..900 {
        let name = match i % 300 {
            7 => format!("long_{}_{i}", "x".repeat(300)),
            _ => format!("init_sys_call_{i}.part.0"),
        };
        symbols.push(symbol(first + 16 * i, if i % 2 == 0 { 't' } else { 'T' }, &name));
    }
    symbols.extend([
        symbol(first + 0x3fff, 'W', "weak_one"),
        symbol(first + 0x4000, 'T', "_etext"),
        symbol(first + 0x4000, 'R', "__start_rodata"),
        symbol(first + BANNER_AT, 'D', "linux_banner"),
        symbol(first + 0x4800, 'd', "counter"),
        symbol(first + 0x4808, 'V', "maybe"),
        symbol(first + 0x5000, 'B', "__bss_start"),
        symbol(first + 0x5400, 'B', "_end"),
    ]);
    symbols
}

fn align(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

/// The tables, from the first symbols to the last byte.
fn tables(symbols: &[KernelSymbol], form: Form, order: Order) -> Vec<u8> {
    let packs: [(u8, &str); 5] = [
        (0, "init_sys_"),
        (1, "call_"),
        (2, "xxx"),
        (0xff, ".part."),
        (0x80, "Tini"),
    ];
    let token = |byte: u8| match packs.iter().find(|(code, _)| *code == byte) {
        Some((_, text)) => (*text).to_owned(),
        None if byte.is_ascii_graphic() => char::from(byte).to_string(),
        None => String::new(),
    };
    let mut names = Vec::new();
    let mut markers = Vec::new();
    for (i, symbol) in symbols.iter().enumerate() {
        if i % 256 == 0 {
            markers.extend_from_slice(&(names.len() as u32).to_le_bytes());
        }
        let text = format!("{}{}", symbol.kind.letter(), symbol.name);
        let mut packed = Vec::new();
        let mut rest = text.as_str();
        while let Some(first) = rest.bytes().next() {
            let pack = packs.iter().find(|(_, text)| rest.starts_with(text));
            packed.push(pack.map_or(first, |(code, _)| *code));
            rest = &rest[pack.map_or(1, |(_, text)| text.len())..];
        }
        match packed.len() {
            len @ 0..0x80 => names.push(len as u8),
            len => names.extend_from_slice(&[len as u8 & 0x7f | 0x80, (len >> 7) as u8]),
        }
        names.extend_from_slice(&packed);
    }
    let base = symbols.iter().find(|symbol| !symbol.per_cpu).unwrap().address;
    let mut addresses = Vec::new();
    for symbol in symbols {
        let offset = symbol.address.wrapping_sub(base) as u32;
        match form {
            Form::Absolute => addresses.extend_from_slice(&symbol.address.to_le_bytes()),
            Form::Relative => addresses.extend_from_slice(&offset.to_le_bytes()),
            Form::PerCpu if symbol.per_cpu => {
                addresses.extend_from_slice(&(symbol.address as u32).to_le_bytes());
            }
            Form::PerCpu => addresses.extend_from_slice(&(-1 - offset as i32).to_le_bytes()),
        }
    }
    align(&mut addresses);
    if form != Form::Absolute {
        addresses.extend_from_slice(&base.to_le_bytes());
    }
    let sequences = vec![0x5a; 3 * symbols.len()];
    let (mut texts, mut index) = (Vec::new(), Vec::new());
    for byte in 0..=255 {
        index.extend_from_slice(&(texts.len() as u16).to_le_bytes());
        texts.extend_from_slice(token(byte).as_bytes());
        texts.push(0);
    }
    let count = (symbols.len() as u32).to_le_bytes();
    let mut parts: Vec<&[u8]> = vec![&count, &names, &markers];
    if order == Order::InFrontWithSequences {
        parts.push(&sequences);
    }
    parts.extend([&texts[..], &index]);
    match order {
        Order::Behind => parts.extend([&addresses[..], &sequences]),
        _ => parts.insert(0, &addresses),
    }
    let mut out = Vec::new();
    for part in parts {
        align(&mut out);
        out.extend_from_slice(part);
    }
    out
}

/// A kernel's image: banner and tables.
fn image(symbols: &[KernelSymbol], form: Form, order: Order) -> Vec<u8> {
    let mut image = vec![0xcc; BANNER_AT as usize];
    image.extend_from_slice(TEXT.as_bytes());
    image.resize(0x4400, 0);
    // What stands in front of the tables is no zeros.
    image.extend_from_slice(&[0x7f; 0x408]);
    image.extend(tables(symbols, form, order));
    image.resize(image.len().next_multiple_of(PAGE as usize), 0xcc);
    image
}

/// Memory from [`PHYSICAL`] on, and where harts map it: virtual address, physical address, length.
struct Fake {
    bytes: Vec<u8>,
    maps: Vec<(u64, u64, u64)>,
}

impl Fake {
    fn of(parts: &[(u64, &[u8])]) -> Fake {
        let mut bytes = vec![0; 4 << 20];
        for (offset, part) in parts {
            bytes[*offset as usize..][..part.len()].copy_from_slice(part);
        }
        Fake {
            bytes,
            maps: Vec::new(),
        }
    }

    fn mapped(mut self, virt: u64, offset: u64) -> Fake {
        self.maps.push((virt, PHYSICAL + offset, 1 << 20));
        self
    }
}

impl GuestMemory for Fake {
    fn stretches(&self) -> Vec<(u64, u64)> {
        vec![(PHYSICAL, self.bytes.len() as u64)]
    }

    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        let Some(offset) = addr.checked_sub(PHYSICAL) else {
            return false;
        };
        let bytes = self
            .bytes
            .get(offset as usize..)
            .and_then(|bytes| bytes.get(..out.len()));
        if let Some(bytes) = bytes {
            out.copy_from_slice(bytes);
        }
        bytes.is_some()
    }

    fn translate(&mut self, addr: u64) -> Vec<u64> {
        let inside = |(virt, phys, len): &(u64, u64, u64)| {
            let offset = addr.wrapping_sub(*virt);
            (offset < *len).then(|| phys + offset)
        };
        self.maps.iter().filter_map(inside).collect()
    }
}

#[test]
fn tables_are_found_in_every_order_and_form() {
    for (form, order) in FORMS
        .into_iter()
        .flat_map(|form| ORDERS.map(|order| (form, order)))
    {
        let symbols = kernel(VIRTUAL, form);
        // Across the end of a chunk as well.
        for offset in [0, 0xf_b000, 0x20_0000] {
            let image = image(&symbols, form, order);
            let mut memory = Fake::of(&[(offset, &image)]).mapped(VIRTUAL, offset);
            let found = KernelSymbols::find(&mut memory).unwrap_or_else(|| panic!("{form:?} {order:?}"));
            assert!(found.symbols == symbols, "{form:?} {order:?}");
            assert_eq!(found.banner.as_deref(), Some(TEXT.trim_end()));
            assert_eq!((found.mapped, found.text()), (true, Some(VIRTUAL)));
        }
    }
}

#[test]
fn of_several_copies_the_one_that_runs_is_found() {
    let linked = kernel(0xffff_ffff_8100_0000, Form::PerCpu);
    let running = kernel(VIRTUAL, Form::PerCpu);
    let (stale, live) = (
        image(&linked, Form::PerCpu, Order::Behind),
        image(&running, Form::PerCpu, Order::Behind),
    );
    let parts = [(0, &stale[..]), (0x10_0000, &live), (0x20_0000, &stale)];
    let mut memory = Fake::of(&parts).mapped(VIRTUAL, 0x10_0000);
    let found = KernelSymbols::find(&mut memory).unwrap();
    assert!(found.mapped && found.symbols == running);
}

#[test]
fn without_a_mapping_the_banner_must_be_where_the_tables_say() {
    let symbols = kernel(VIRTUAL, Form::Relative);
    let image = image(&symbols, Form::Relative, Order::Behind);
    let found = KernelSymbols::find(&mut Fake::of(&[(0x3000, &image)])).unwrap();
    assert!(!found.mapped && found.symbols == symbols);
    assert_eq!(found.banner.as_deref(), Some(TEXT.trim_end()));
    for (at, byte) in [(BANNER_AT as usize, b'l'), (BANNER_AT as usize + 20, 0x1b)] {
        let mut other = image.clone();
        other[at] = byte;
        assert_eq!(KernelSymbols::find(&mut Fake::of(&[(0, &other)])), None);
        // Where a hart maps the kernel, the banner must be there too.
        let mut mapped = Fake::of(&[(0, &other)]).mapped(VIRTUAL, 0);
        assert_eq!(KernelSymbols::find(&mut mapped), None);
    }
    let mut without = symbols;
    without.retain(|symbol| &*symbol.name != "linux_banner");
    let image = self::image(&without, Form::Relative, Order::Behind);
    assert_eq!(KernelSymbols::find(&mut Fake::of(&[(0, &image)])), None);
    let found = KernelSymbols::find(&mut Fake::of(&[(0, &image)]).mapped(VIRTUAL, 0)).unwrap();
    assert_eq!((found.banner, found.mapped), (None, true));
}

#[test]
fn memory_that_only_looks_like_tables_costs_a_bounded_search() {
    let digits = DIGITS.repeat((4 << 20) / DIGITS.len());
    assert_eq!(KernelSymbols::find(&mut Fake::of(&[(0, &digits)])), None);
    // Whatever is in front of the tables begins names that go on for ever.
    let symbols = kernel(VIRTUAL, Form::Relative);
    let mut image = image(&symbols, Form::Relative, Order::Behind);
    let count = (symbols.len() as u64).to_le_bytes();
    let at = image.windows(8).position(|bytes| bytes == count).unwrap();
    image[at..at + 8].copy_from_slice(&(1u64 << 20).to_le_bytes());
    let ones: Vec<u8> = (1u64 << 20).to_le_bytes().repeat(3 << 17);
    let mut memory = Fake::of(&[(0, &ones), (3 << 20, &image)]);
    assert_eq!(KernelSymbols::find(&mut memory), None);
    assert_eq!(KernelSymbols::find(&mut Fake::of(&[])), None);
}

#[test]
fn files_hold_all_symbols_in_sections_that_cover_them() {
    for form in FORMS {
        let found = KernelSymbols {
            symbols: kernel(VIRTUAL, form),
            banner: None,
            mapped: true,
        };
        let machine = ElfMachine {
            machine: 243,
            flags: 1,
        };
        let bytes = found.to_elf(machine);
        let elf = Elf::parse(&bytes).unwrap();
        let header = elf.header;
        assert_eq!((header.e_type, header.e_machine, header.e_flags), (2, 243, 1));
        let name = |at| elf.shdr_strtab.get_at(at).unwrap();
        let ranges: Vec<(&str, u64, u64)> = elf.section_headers[1..]
            .iter()
            .filter(|section| section.sh_addr != 0)
            .map(|section| (name(section.sh_name), section.sh_addr - VIRTUAL, section.sh_size))
            .collect();
        let expected = [
            (".text", 0, 0x4000),
            (".rodata", 0x4000, BANNER_AT - 0x4000),
            (".data", BANNER_AT, 0x5000 - BANNER_AT),
            (".bss", 0x5000, 0x1000),
        ];
        assert_eq!(ranges, expected);
        let mut symbols: Vec<(u64, String)> = Vec::new();
        for symbol in elf.syms.iter().skip(1) {
            let name = elf.strtab.get_at(symbol.st_name).unwrap();
            symbols.push((symbol.st_value, name.into()));
            let Some(section) = elf.section_headers.get(symbol.st_shndx) else {
                assert!(symbol.st_value < PER_CPU && symbol.st_shndx == 0xfff1, "{name}");
                continue;
            };
            let range = section.sh_addr..=section.sh_addr + section.sh_size;
            assert!(range.contains(&symbol.st_value), "{name}");
            assert!(range.contains(&(symbol.st_value + symbol.st_size)), "{name}");
        }
        let mut all: Vec<(u64, String)> = found
            .symbols
            .iter()
            .map(|symbol| (symbol.address, symbol.name.to_string()))
            .collect();
        all.sort();
        symbols.sort();
        assert!(symbols == all);
        let symtab = elf
            .section_headers
            .iter()
            .find(|section| section.sh_type == 2)
            .unwrap();
        for (i, symbol) in elf.syms.iter().enumerate() {
            assert_eq!(symbol.st_bind() == 0, i < symtab.sh_info as usize, "{i}");
        }
        let of = |wanted: &str| {
            elf.syms
                .iter()
                .find(|symbol| elf.strtab.get_at(symbol.st_name) == Some(wanted))
                .map(|symbol| (symbol.st_bind(), symbol.st_type(), symbol.st_size))
        };
        assert_eq!(of("_text"), Some((1, 2, 16)));
        assert_eq!(of("_etext"), Some((1, 2, 0)));
        assert_eq!(of("weak_one"), Some((2, 2, 1)));
        assert_eq!(of("counter"), Some((0, 1, 8)));
        assert_eq!(of("maybe"), Some((2, 1, 0x7f8)));
    }
}

proptest! {
    #[test]
    fn damaged_tables_are_refused_or_read_without_harm(
        form in 0..3usize,
        order in 0..3usize,
        damage in proptest::collection::vec((0.0..1.0, any::<u8>()), 1..6),
        cut in 0.0..1.0,
    ) {
        let symbols = kernel(VIRTUAL, FORMS[form]);
        let mut image = image(&symbols, FORMS[form], ORDERS[order]);
        for (place, byte) in damage {
            let at = (place * (image.len() - 0x4000) as f64) as usize + 0x4000;
            image[at] = byte;
        }
        let mut short = Fake::of(&[(0, &image)]).mapped(VIRTUAL, 0);
        short.bytes.truncate(0x4000 + (cut * (image.len() - 0x4000) as f64) as usize);
        for mut memory in [Fake::of(&[(0, &image)]).mapped(VIRTUAL, 0), short] {
            if let Some(found) = KernelSymbols::find(&mut memory) {
                prop_assert!(found.symbols.is_sorted_by_key(|symbol| symbol.address));
                let file = found.to_elf(ElfMachine { machine: 62, flags: 0 });
                prop_assert!(Elf::parse(&file).is_ok());
            }
        }
    }
}
