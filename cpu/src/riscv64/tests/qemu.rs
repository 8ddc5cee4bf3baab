//! Random programs against QEMU's user mode emulation (skipped where it isn't installed).
//!
//! A program is straight-line code with short forward jumps, made of every row that user mode has; it starts with
//! all registers set to interesting values, and ends by writing registers, fcsr and its data to standard
//! output. Two registers always point to the data, and all accesses go there.

use std::io::{ErrorKind, Write};
use std::process::Command;

use super::{Random, random_encoding};
use crate::golden::{difference, without_sections};
use crate::ir::{Op, Slot};
use crate::riscv64::decode::Row;
use crate::riscv64::disasm::disassemble;
use crate::riscv64::flat::{Ram, World};
use crate::riscv64::golden::directory;
use crate::riscv64::lift::lift;
use crate::riscv64::rows::{self, Form, RmField};
use crate::riscv64::slots::{MODE_FS_DIRTY, PC};
use crate::{Cpu, Lifted};

const QEMU: &str = "qemu-riscv64";
/// Where the image is loaded, and where its code begins.
const BASE: u64 = 0x11000;
/// Bytes for code.
const CODE: u64 = 0x10000;
/// The middle of the data; accesses reach 2 KiB either way.
const DATA: u64 = BASE + CODE + 2048;
/// Where x1 to x31, f0 to f31 and fcsr are stored at the end.
const DUMP: u64 = DATA + 2064;
const WORDS: u64 = 31 + 32 + 1;
/// What they are at the beginning, in the same order.
const INIT: u64 = DUMP + 8 * WORDS;
const END: u64 = (INIT + 8 * WORDS + 0xfff) & !0xfff;

const SP: u32 = 2;
const T6: u32 = 31;

fn i_type(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    (imm as u32) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

fn s_type(opcode: u32, funct3: u32, rs2: u32, rs1: u32, imm: i32) -> u32 {
    let imm = imm as u32;
    (imm >> 5) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (imm & 31) << 7 | opcode
}

fn jal(rd: u32, offset: u32) -> u32 {
    (offset >> 20 & 1) << 31
        | (offset >> 1 & 0x3ff) << 21
        | (offset >> 11 & 1) << 20
        | (offset >> 12 & 0xff) << 12
        | rd << 7
        | 0x6f
}

/// `lui` and `addi`.
fn load_address(rd: u32, addr: u64) -> [u32; 2] {
    let addr = addr as u32;
    let low = ((addr << 20) as i32) >> 20;
    [
        addr.wrapping_sub(low as u32) | rd << 7 | 0x37,
        i_type(0x13, 0, rd, rd, low),
    ]
}

fn length(insn: u32) -> u64 {
    if insn & 3 == 3 { 4 } else { 2 }
}

fn bytes_of(insns: &[u32]) -> u64 {
    insns.iter().map(|&insn| length(insn)).sum()
}

struct Generator {
    random: Random,
    rows: Vec<&'static Row>,
    /// The register beside sp that points to the data: one that compressed accesses can use.
    base: u32,
}

impl Generator {
    fn new(seed: u64) -> Generator {
        let mut random = Random::new(seed);
        let base = 8 + random.below(8) as u32;
        let rows = rows::all().filter(|row| usable(row)).collect();
        Generator { random, rows, base }
    }

    fn row(&self, name: &str) -> &'static Row {
        rows::all().find(|row| row.name == name).unwrap()
    }

    fn register(&mut self) -> u32 {
        loop {
            let r = 1 + self.random.below(31) as u32;
            if r != SP && r != self.base {
                return r;
            }
        }
    }

    /// A few instructions that belong together.
    fn chunk(&mut self) -> Vec<u32> {
        match self.random.below(10) {
            0 => self.jump(),
            _ => self.plain(),
        }
    }

    /// One instruction, which may be preceded by loads of fresh values: results of results soon are all
    /// zeros, infinities and NaNs.
    fn plain(&mut self) -> Vec<u32> {
        loop {
            let row = self.rows[self.random.below(self.rows.len() as u64) as usize];
            let insn = self.operands(row);
            let harmless = |insn: &u32| !self.clobbers(*insn);
            if let Form::Lr(..) = row.form {
                // What lies between decides whether QEMU's SC succeeds; here nothing does.
                let sc = if row.name == "lr.w" { "sc.w" } else { "sc.d" };
                let sc = self.row(sc);
                let sc = self.operands(sc);
                if [insn, sc].iter().all(|insn| !self.clobbers(*insn)) {
                    return vec![insn, sc];
                }
            } else if harmless(&insn) {
                let mut insns = match row.form {
                    Form::FR(..) | Form::FRm(..) | Form::FFused(..) | Form::FCompare(..) => {
                        self.fresh(row, &[insn >> 15, insn >> 20, insn >> 27])
                    }
                    Form::FUnary(..) | Form::FToX(..) | Form::FMoveX(..) => self.fresh(row, &[insn >> 15]),
                    _ => Vec::new(),
                };
                insns.push(insn);
                return insns;
            }
        }
    }

    /// Mostly, loads of floating-point registers from the part of the data that is never written.
    fn fresh(&mut self, row: &Row, registers: &[u32]) -> Vec<u32> {
        if self.random.below(4) == 0 {
            return Vec::new();
        }
        let width = if row.name.ends_with(".s") { 2 } else { 3 };
        let mut load = |r: &u32| {
            let offset = -8 * (1 + self.random.below(255) as i32);
            // Boxes among doubles are singles of their own; so are the halves of doubles.
            i_type(0x07, width, r & 31, self.base, offset)
        };
        registers.iter().map(&mut load).collect()
    }

    /// An encoding whose accesses go to the data, stores to its upper half.
    fn operands(&mut self, row: &Row) -> u32 {
        let mut insn = random_encoding(row, &mut self.random);
        if row.has_rm && self.random.below(2) == 0 {
            insn |= u32::from(RmField::DYNAMIC.0) << 12;
        }
        match row.form {
            Form::Load(..)
            | Form::Store(..)
            | Form::FLoad(..)
            | Form::FStore(..)
            | Form::Amo(..)
            | Form::Lr(..)
            | Form::Cbo(..) => {
                if row.len == 4 {
                    insn = insn & !(31 << 15) | self.base << 15;
                    if matches!(row.form, Form::Store(..) | Form::FStore(..)) {
                        insn &= !(1 << 31);
                    }
                } else if insn & 3 == 0 {
                    insn = insn & !(7 << 7) | (self.base - 8) << 7;
                }
            }
            Form::Csr(..) => {
                const FFLAGS: u32 = 1;
                insn = insn & 0xfffff | FFLAGS << 20;
            }
            Form::CsrImm(..) => {
                let frm = self.random.below(5) as u32;
                insn &= 0xfffff;
                insn |= match (row.name, self.random.below(3) as u32) {
                    // frm stays a valid mode.
                    ("csrrwi", 2) => return insn & !(31 << 15) | frm << 15 | 2 << 20,
                    ("csrrci", csr) => (csr + 1) << 20,
                    (_, csr) => (csr | 1) << 20,
                };
            }
            _ => {}
        }
        insn
    }

    fn clobbers(&self, insn: u32) -> bool {
        let mut page = [0; 4096];
        page[..4].copy_from_slice(&insn.to_le_bytes());
        let Lifted::Block(block) = lift(MODE_FS_DIRTY, 0, &page, None) else {
            return true;
        };
        block.ops[block.ops_of(0)]
            .iter()
            .any(|op| matches!(op, Op::Set(Slot(n), _) if [SP, self.base].contains(&u32::from(*n))))
    }

    /// A jump over some instructions.
    fn jump(&mut self) -> Vec<u32> {
        const NAMES: [&str; 9] = [
            "beq", "bne", "blt", "bge", "bltu", "bgeu", "c.beqz", "c.bnez", "c.j",
        ];
        let skipped: Vec<u32> = (0..self.random.below(4)).flat_map(|_| self.plain()).collect();
        let over = bytes_of(&skipped) as u32;
        let (link, temp) = (self.register(), self.register());
        let mut insns = match self.random.below(14) {
            9 => vec![jal(link, 4 + over)],
            // auipc and jalr; the link register may be the one jumped by.
            10 => vec![temp << 7 | 0x17, i_type(0x67, 0, link, temp, 8 + over as i32)],
            11 => vec![temp << 7 | 0x17, i_type(0x67, 0, temp, temp, 8 + over as i32 + 1)],
            // By way of memory, so that the target isn't known.
            12 => vec![
                temp << 7 | 0x17,
                s_type(0x23, 3, temp, self.base, 8),
                i_type(0x03, 3, temp, self.base, 8),
                i_type(0x67, 0, link, temp, 16 + over as i32),
            ],
            // c.jalr or c.jr.
            13 => {
                let c = if self.random.below(2) == 0 { 0x9002 } else { 0x8002 };
                vec![
                    temp << 7 | 0x17,
                    i_type(0x13, 0, temp, temp, 10 + over as i32),
                    c | temp << 7,
                ]
            }
            n => {
                let row = self.row(NAMES[n as usize]);
                let target = format!("{:#x}", over + u32::from(row.len));
                loop {
                    let insn = random_encoding(row, &mut self.random);
                    if disassemble(0, &insn.to_le_bytes())
                        .0
                        .split([',', ' '])
                        .next_back()
                        == Some(&target)
                    {
                        break vec![insn];
                    }
                }
            }
        };
        insns.extend(skipped);
        insns
    }

    /// A value that is likely to be an edge case.
    fn value(&mut self) -> u64 {
        const SINGLES: [u32; 12] = [
            0,
            0x3f80_0000,
            0x7f80_0000,
            0x7fc0_0000,
            0x7f80_0001,
            1,
            0x007f_ffff,
            0x0080_0000,
            0x7f7f_ffff,
            0x4f00_0000,
            0x5f00_0000,
            0x3eff_ffff,
        ];
        const DOUBLES: [u64; 11] = [
            0x3ff0 << 48,
            0x7ff0 << 48,
            0x7ff8 << 48,
            0x7ff0 << 48 | 1,
            1,
            0x000f_ffff_ffff_ffff,
            0x0010 << 48,
            0x7fef_ffff_ffff_ffff,
            0x41e0 << 48,
            0x43e0 << 48,
            0x47f0 << 48,
        ];
        let random = self.random.next();
        let pick = self.random.next() as usize;
        let sign = random & 1;
        match self.random.below(14) {
            // Ties: halves, and what lies between two singles.
            10 | 12 | 13 => {
                let half = f64::from((random % 64) as i32 - 32) / 2.0;
                if pick.is_multiple_of(2) {
                    half.to_bits()
                } else {
                    u64::from((half as f32).to_bits()) | 0xffff_ffff << 32
                }
            }
            11 => random & !(0x7ff << 52 | 0x1fff_ffff) | (0x3f8 + random % 16) << 52 | 0x1000_0000,
            0 => random,
            1 => random >> (random & 63),
            2 => [
                0,
                1,
                u64::MAX,
                1 << 63,
                i64::MAX as u64,
                1 << 31,
                0xffff_ffff_8000_0000,
            ][pick % 7],
            3 => u64::from(SINGLES[pick % 12]) | sign << 31 | 0xffff_ffff << 32,
            4 => DOUBLES[pick % 11] | sign << 63,
            // Of similar size, so that sums cancel and round.
            5 | 6 => random & !(0x7ff << 52) | (0x3f8 + random % 16) << 52,
            7 | 8 => random & 0x807f_ffff | (0x78 + random % 16) << 23 | 0xffff_ffff << 32,
            // Not a box.
            _ => random & !(1 << 40),
        }
    }
}

/// Whether a row can be part of straight-line code in user mode.
fn usable(row: &Row) -> bool {
    let privileged = [
        "ecall",
        "ebreak",
        "c.ebreak",
        "mret",
        "sret",
        "wfi",
        "sfence.w.inval",
        "sfence.inval.ir",
    ];
    let jumps = matches!(
        row.form,
        Form::Branch(..) | Form::BranchZero(..) | Form::Jal(..) | Form::Jump(..) | Form::Reg(..)
    );
    // It would move one of the pointers.
    let moves = row.name == "c.addi16sp";
    let fence = matches!(row.form, Form::Sfence(..));
    !(privileged.contains(&row.name) || jumps || row.name == "jalr" || moves || fence)
}

struct Program {
    base: u32,
    chunks: Vec<Vec<u32>>,
    /// Data, and the registers at the beginning.
    data: Vec<u64>,
    init: Vec<u64>,
}

impl Program {
    fn new(seed: u64, chunks: usize) -> Program {
        let mut g = Generator::new(seed);
        let chunks = (0..chunks).map(|_| g.chunk()).collect();
        let data = (0..(DUMP - (DATA - 2048)) / 8).map(|_| g.value()).collect();
        let mut init: Vec<u64> = (0..WORDS).map(|_| g.value()).collect();
        init[SP as usize - 1] = DATA;
        init[g.base as usize - 1] = DATA;
        init[63] = g.random.below(5) << 5 | g.random.below(32);
        Program {
            base: g.base,
            chunks,
            data,
            init,
        }
    }

    /// The image with the first `count` chunks.
    fn image(&self, count: usize) -> Vec<u8> {
        let (fcsr, ld, fld, sd, fsd) = (3, 0x03, 0x07, 0x23, 0x27);
        let mut code = load_address(T6, INIT).to_vec();
        code.extend((0..32).map(|n| i_type(fld, 3, n, T6, 8 * (31 + n as i32))));
        code.push(i_type(ld, 3, 1, T6, 8 * 63));
        code.push(i_type(0x73, 1, 0, 1, fcsr));
        code.extend((1..32).map(|n| i_type(ld, 3, n, T6, 8 * (n as i32 - 1))));
        code.extend(self.chunks[..count].iter().flatten());
        // DUMP, from the base.
        let b = self.base;
        code.extend([i_type(0x13, 0, b, b, 2032), i_type(0x13, 0, b, b, 32)]);
        code.extend((1..32).map(|n| s_type(sd, 3, n, b, 8 * (n as i32 - 1))));
        code.extend((0..32).map(|n| s_type(fsd, 3, n, b, 8 * (31 + n as i32))));
        code.extend([i_type(0x73, 2, T6, 0, fcsr), s_type(sd, 3, T6, b, 8 * 63)]);
        // write(1, data, length); exit(0)
        let li = |rd, value| i_type(0x13, 0, rd, 0, value);
        code.extend([li(17, 64), li(10, 1)]);
        code.extend(load_address(11, DATA - 2048));
        code.extend(load_address(12, INIT - (DATA - 2048)));
        code.extend([0x73, li(17, 93), li(10, 0), 0x73]);

        let mut image = Vec::new();
        for insn in code {
            image.extend_from_slice(&insn.to_le_bytes()[..length(insn) as usize]);
        }
        assert!(image.len() < CODE as usize, "the program is too long");
        image.resize(CODE as usize, 0);
        image.extend(self.data.iter().flat_map(|word| word.to_le_bytes()));
        image.resize((INIT - BASE) as usize, 0);
        image.extend(self.init.iter().flat_map(|word| word.to_le_bytes()));
        image.resize((END - BASE) as usize, 0);
        image
    }
}

/// A static executable whose one segment is `image` at `BASE`.
fn elf(image: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    let (executable, riscv, version) = (2u16, 243u16, 1u32);
    put(&executable.to_le_bytes());
    put(&riscv.to_le_bytes());
    put(&version.to_le_bytes());
    [BASE, 64, 0].iter().for_each(|word| put(&word.to_le_bytes()));
    let rvc_double_abi = 5u32;
    put(&rvc_double_abi.to_le_bytes());
    [64u16, 56, 1, 0, 0, 0]
        .iter()
        .for_each(|half| put(&half.to_le_bytes()));
    let (load, rwx) = (1u32, 7u32);
    put(&load.to_le_bytes());
    put(&rwx.to_le_bytes());
    let len = image.len() as u64;
    [0x1000, BASE, BASE, len, len, 0x1000]
        .iter()
        .for_each(|word| put(&word.to_le_bytes()));
    file.resize(0x1000, 0);
    file.extend_from_slice(image);
    file
}

/// Data and registers at the end; `None` if QEMU isn't installed.
fn run_qemu(image: &[u8]) -> Option<Vec<u8>> {
    use std::os::unix::fs::PermissionsExt;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&elf(image)).unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = match Command::new(QEMU).args(["-cpu", "max"]).arg(file.path()).output() {
        Ok(output) => output,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::NotFound);
            return None;
        }
    };
    assert!(output.status.success(), "{output:?}");
    Some(output.stdout)
}

fn run_ours(image: Vec<u8>) -> Vec<u8> {
    let mut world = World::new(Ram {
        base: BASE,
        bytes: image,
    });
    // lui t0,0x2; csrrs zero,mstatus,t0: FS Initial.
    let boot: Vec<u8> = [0x22b7u32, 0x3002_a073]
        .iter()
        .flat_map(|insn| insn.to_le_bytes())
        .collect();
    let at = world.ram.bytes.len();
    world.ram.bytes.extend(boot);
    world.ram.bytes.resize(at + 4096, 0);
    assert_eq!(world.run(END, 2), None);
    let trap = world.run(BASE, 1_000_000);
    const ECALL_FROM_M: u64 = 11;
    assert_eq!(
        trap.map(|t| t.cause),
        Some(ECALL_FROM_M),
        "{trap:x?} at {:#x}",
        world.hart.regs()[PC]
    );
    world.ram.bytes[(DATA - 2048 - BASE) as usize..(INIT - BASE) as usize].to_vec()
}

/// What differs in two results, one line a word.
fn differences(ours: &[u8], qemus: &[u8]) -> String {
    let mut text = String::new();
    for (i, (a, b)) in ours.chunks(8).zip(qemus.chunks(8)).enumerate() {
        if a != b {
            let at = DATA - 2048 + 8 * i as u64;
            let name = match at.checked_sub(DUMP).map(|offset| offset / 8) {
                None => format!("[{:+}]", at as i64 - DATA as i64),
                Some(n @ 0..31) => format!("x{}", n + 1),
                Some(n @ 31..63) => format!("f{}", n - 31),
                Some(_) => "fcsr".into(),
            };
            let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
            text += &format!("  {name}: {:#018x}, QEMU {:#018x}\n", word(a), word(b));
        }
    }
    text
}

#[test]
fn random_programs_end_as_in_qemu() {
    for seed in 0..30 {
        let program = Program::new(seed, 2000);
        let result = |count: usize| {
            let image = program.image(count);
            run_qemu(&image).map(|qemus| (run_ours(image), qemus))
        };
        let Some((ours, qemus)) = result(program.chunks.len()) else {
            return;
        };
        assert_eq!(qemus.len() as u64, INIT - (DATA - 2048));
        if ours == qemus {
            continue;
        }
        // The shortest beginning that goes wrong: its last chunk is to blame.
        let (mut good, mut bad) = (0, program.chunks.len());
        while bad - good > 1 {
            let middle = (good + bad) / 2;
            match result(middle) {
                Some((ours, qemus)) if ours == qemus => good = middle,
                _ => bad = middle,
            }
        }
        let text: Vec<String> = program.chunks[bad - 1]
            .iter()
            .map(|insn| disassemble(0, &insn.to_le_bytes()).0)
            .collect();
        let (ours, qemus) = result(bad).unwrap();
        panic!(
            "seed {seed}, chunk {bad}: {}\n{}",
            text.join("; "),
            differences(&ours, &qemus)
        );
    }
}

/// Writes the golden cases of all rows that user mode has, three an instruction: what QEMU makes of them is
/// the truth. With `TICKBACK_BLESS=qemu` it writes them, without sections; else they must be what QEMU makes of them
/// today.
#[test]
fn golden_cases_from_qemu() {
    if Command::new(QEMU).arg("--version").output().is_err() {
        return;
    }
    const FAMILIES: [&str; 8] = [
        "base",
        "muldiv",
        "atomic",
        "single",
        "double",
        "compressed",
        "bitmanip",
        "system",
    ];
    std::fs::create_dir_all(directory()).unwrap();
    for (family, table) in FAMILIES.iter().zip(rows::TABLES) {
        let mut text = String::from(
            "# Runs made by golden_cases_from_qemu (cpu/src/riscv64/tests/qemu.rs), sections by jit/tests/golden.\n",
        );
        for row in table.iter().filter(|row| usable(row) && row.name != "auipc") {
            (0..3).for_each(|case| text += &golden_case(row, case));
        }
        let path = directory().join(format!("{family}.tr"));
        let golden = without_sections(&std::fs::read_to_string(&path).unwrap_or_default());
        if golden != text && std::env::var("TICKBACK_BLESS").is_ok_and(|what| what == "qemu") {
            std::fs::write(path, text).unwrap();
            continue;
        }
        assert!(
            golden == text,
            "{path:?} isn't what QEMU makes:\n{}look, then TICKBACK_BLESS=qemu cargo test -p cpu golden_cases_from_qemu, \
             then TICKBACK_BLESS=1 cargo test -p jit --test golden",
            difference(&golden, &text)
        );
    }
}

fn golden_case(row: &Row, case: u64) -> String {
    // Few registers matter to an instruction; those that don't are zero.
    let mut program = Program::new(1000 * u64::from(row.bits) + u64::from(row.mask) + case, 0);
    let mut g = Generator::new(program.init[7] ^ case);
    g.base = program.base;
    let insn = loop {
        let insn = g.operands(row);
        // A pointer isn't an interesting operand, except of an access.
        let accesses =
            lifted(insn).iter().any(Op::can_trap) && !matches!(row.form, Form::Csr(..) | Form::CsrImm(..));
        let reads_pointer = [SP, g.base]
            .iter()
            .any(|&r| reads(insn).contains(&Slot(r as u16)));
        if !g.clobbers(insn) && (accesses || !reads_pointer || row.name == "c.addi4spn") {
            break insn;
        }
    };
    let reads = reads(insn);
    let initial = |n: usize| {
        if n < 31 {
            Slot(n as u16 + 1)
        } else {
            Slot(n as u16 - 31 + 32)
        }
    };
    for n in 0..63 {
        if !reads.contains(&initial(n)) && ![SP, program.base].contains(&(n as u32 + 1)) {
            program.init[n] = 0;
        }
    }
    if !matches!(row.form, Form::Csr(..) | Form::CsrImm(..)) && !row.has_rm {
        program.init[63] = 0;
    }
    // Only where the instruction can reach.
    let near = |at: i64| {
        lifted(insn).iter().any(|op| match *op {
            Op::Load { offset, .. }
            | Op::LoadF { offset, .. }
            | Op::Store { offset, .. }
            | Op::StoreF { offset, .. } => (i64::from(offset) & !7..i64::from(offset) + 8).contains(&at),
            Op::Rmw { .. } => at == 0,
            Op::Call { .. } => {
                (0..64).contains(&at) && matches!(row.form, Form::Lr(..) | Form::Amo(..) | Form::Cbo(..))
            }
            _ => false,
        })
    };
    for (i, word) in program.data.iter_mut().enumerate() {
        if !near(8 * i as i64 - 2048) {
            *word = 0;
        }
    }
    program.chunks = vec![vec![insn]];
    let end: Vec<u64> = run_qemu(&program.image(1))
        .expect("QEMU is installed")
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();

    let name = |n: usize| match n {
        0..31 => format!("x{}", n + 1),
        31..63 => format!("f{}", n - 31),
        _ => "fcsr".into(),
    };
    let (mut before, mut after) = (String::new(), String::new());
    for n in 0..64 {
        let is_read = n == 63 || reads.contains(&initial(n));
        if program.init[n] != 0 && is_read {
            before += &format!(" {}={:#x}", name(n), program.init[n]);
        }
        let now = end[program.data.len() + n];
        // The base has been moved to write the registers; the other pointer needs not be set.
        let pointer = [SP, program.base].contains(&(n as u32 + 1));
        if now != program.init[n] && !pointer {
            after += &format!(" {}={now:#x}", name(n));
        }
    }
    for (i, (old, new)) in program.data.iter().zip(&end).enumerate() {
        let at = DATA - 2048 + 8 * i as u64;
        if *old != 0 {
            before += &format!(" [{at:#x}]={old:#x}");
        }
        if old != new {
            after += &format!(" [{at:#x}]={new:#x}");
        }
    }
    let (text, len) = disassemble(0, &insn.to_le_bytes());
    format!(
        "{insn:0width$x} {text}\n  run{before} =>{after}\n",
        width = 2 * len
    )
}

fn lifted(insn: u32) -> Vec<Op> {
    let mut page = [0; 4096];
    page[..4].copy_from_slice(&insn.to_le_bytes());
    match lift(MODE_FS_DIRTY, 0, &page, None) {
        Lifted::Block(block) => block.ops[block.ops_of(0)].to_vec(),
        Lifted::NeedsNextPage => Vec::new(),
    }
}

/// The slots that an instruction reads.
fn reads(insn: u32) -> Vec<Slot> {
    lifted(insn)
        .iter()
        .filter_map(|op| match op {
            Op::Get(slot) | Op::GetF(slot) => Some(*slot),
            _ => None,
        })
        .collect()
}
