//! A bare-metal guest that makes semihosting calls from a table, and prints what each yields; and tables.
//!
//! Machine mode, one hart. Besides calls a table has *variants*: an `ebreak` that is no call, of which the cause of its
//! exception is printed.

use dynasmrt::components::StaticLabel;
use dynasmrt::riscv::RiscvRelocation;
use dynasmrt::{DynasmApi, DynasmLabelApi, VecAssembler};
use firmware::{Guest, layout};

const MRET: u32 = 0x3020_0073;
/// `slli x0, x0, 0x1f`, `ebreak`, `srai x0, x0, 7`.
const CALL: [u32; 3] = [0x01f0_1013, 0x0010_0073, 0x4070_5013];
const C_EBREAK: u16 = 0x9002;
const C_NOP: u16 = 0x0001;

/// Where a table is.
pub const TABLE: u64 = layout::RAM + 0x4000;
/// Bytes of an entry.
const ENTRY: usize = 32;
const WRITE0: i32 = 4;

/// What an `ebreak` that is no call looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Its sequence is in two pages.
    AcrossPages = 1,
    /// What is behind it is something else.
    OtherBehind = 2,
    /// It is compressed.
    Compressed = 3,
    /// A user program makes it.
    User = 4,
}

/// A table of calls, and the memory that they use.
#[derive(Clone, Debug)]
pub struct Calls {
    table: Vec<u8>,
    data: Vec<u8>,
    data_at: u64,
}

impl Calls {
    /// None yet; at most so many.
    #[must_use]
    pub fn new(most: usize) -> Calls {
        Calls {
            table: Vec::new(),
            data: Vec::new(),
            data_at: TABLE + ((most + 1) * ENTRY) as u64,
        }
    }

    /// Places bytes; their address.
    pub fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let at = self.data_at + self.data.len() as u64;
        self.data.extend_from_slice(bytes);
        self.data.resize(self.data.len().next_multiple_of(8), 0);
        at
    }

    /// Places words; their address.
    pub fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    fn entry(&mut self, words: [u64; 4]) {
        self.table
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// A call whose result is printed.
    pub fn call(&mut self, operation: u64, parameter: u64) {
        self.entry([operation, parameter, 0, 1]);
    }

    /// A call whose result is not printed, but stored, unless `to` is 0.
    pub fn quiet(&mut self, operation: u64, parameter: u64, to: u64) {
        self.entry([operation, parameter, to, 0]);
    }

    /// A variant; the cause of its exception is printed.
    pub fn variant(&mut self, variant: Variant) {
        self.entry([1 << 32 | variant as u64, 0, 0, 1]);
    }

    /// Prints a word of memory.
    pub fn word(&mut self, at: u64) {
        self.entry([1 << 32 | 5, at, 0, 1]);
    }

    /// The guest. The last call must end it.
    ///
    /// # Panics
    /// If it doesn't assemble, or there are more calls than was said: a mistake here.
    #[must_use]
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)] // dynasm converts every operand.
    pub fn guest(&self) -> Guest {
        let mut asm: VecAssembler<RiscvRelocation> = VecAssembler::new(layout::RAM as usize);
        dynasmrt::dynasm!(asm
            ; .arch riscv64i
            ; .feature imafd, zicsr, zifencei
            ; ->start:
            ; csrr t0, mhartid
            ; bnez t0, ->start
            ; la t0, ->trap
            ; csrw mtvec, t0
            // A user program may fetch everywhere.
            ; li.12 t0, -1
            ; csrw pmpaddr0, t0
            ; li.12 t0, 0x1f
            ; csrw pmpcfg0, t0
            ; la s0, ->table

            ; ->next:
            ; ld a0, [s0]
            ; ld a1, [s0, 8]
            ; srli t0, a0, 32
            ; bnez t0, >variant
            ; jal ra, ->call
            ; j >made
            ; variant:
            ; la t0, ->variants
            ; andi t1, a0, 7
            ; slli t1, t1, 2
            ; add t0, t0, t1
            ; jalr ra, t0, 0
            ; made:
            ; ld t0, [s0, 16]
            ; beqz t0, >unstored
            ; sd a0, [t0]
            ; unstored:
            ; ld t0, [s0, 24]
            ; addi s0, s0, ENTRY as i32
            ; beqz t0, ->next
            // Sixteen digits and an end of line.
            ; la a1, ->digits
            ; li.12 t0, 60
            ; digit:
            ; srl t1, a0, t0
            ; andi t1, t1, 15
            ; sltiu t2, t1, 10
            ; addi t1, t1, 'a' as i32 - 10
            ; beqz t2, >letter
            ; addi t1, t1, '0' as i32 - ('a' as i32 - 10)
            ; letter:
            ; sb t1, [a1]
            ; addi a1, a1, 1
            ; addi t0, t0, -4
            ; bgez t0, <digit
            ; la a1, ->digits
            ; li.12 a0, WRITE0
            ; jal ra, ->call
            ; j ->next

            ; ->variants:
            ; j ->next
            ; j ->across
            ; j ->other
            ; j ->compressed
            ; j ->user
            ; ld a0, [a1]
            ; ret
            ; ->user:
            ; li.32 t0, 0x1800 // MPP: user
            ; csrc mstatus, t0
            ; la t0, ->call
            ; csrw mepc, t0
            ; .u32 MRET

            ; .align 4
            ; ->trap:
            ; csrr a0, mcause
            ; csrw mepc, ra
            ; li.32 t0, 0x1800
            ; csrs mstatus, t0
            ; .u32 MRET

            ; .align 16
            ; ->call:
            ; .u32 CALL[0]
            ; .u32 CALL[1]
            ; .u32 CALL[2]
            ; ret
            ; .align 16
            ; ->other:
            ; .u32 CALL[0]
            ; .u32 CALL[1]
            ; .u32 CALL[2] + 0x10_0000
            ; ret
            ; .align 16
            ; ->compressed:
            ; .u32 CALL[0]
            ; .u16 C_EBREAK
            ; .u16 C_NOP
            ; .u32 CALL[2]
            ; ret
            ; .align 4096, 0
            ; .bytes [0u8; 4088]
            ; ->across:
            ; .u32 CALL[0]
            ; .u32 CALL[1]
            ; .u32 CALL[2]
            ; ret
            ; .align 4096, 0
            ; ->digits:
            ; .bytes b"................\n\0"
            ; .align 4096, 0
            ; ->table:
        );
        let address = |name: &'static str| {
            let at = asm.labels().resolve_static(&StaticLabel::global(name));
            layout::RAM + at.map_or(0, |at| at.0 as u64)
        };
        let symbols = vec![("call".to_owned(), address("call"))];
        let (digits, table) = (address("digits"), address("table"));
        let mut image = asm.finalize().expect("a guest of this crate assembles");
        assert_eq!(table, TABLE, "the table is where addresses say");
        image.extend_from_slice(&self.table);
        let data = (self.data_at - layout::RAM) as usize;
        assert!(image.len() + ENTRY <= data, "more calls than was said");
        image.resize(data, 0);
        image.extend_from_slice(&self.data);
        Guest {
            image,
            load: layout::RAM,
            entry: layout::RAM,
            data: digits,
            symbols,
        }
    }
}

/// Numbers of operations that tables name.
pub mod op {
    #![allow(missing_docs)]
    pub const OPEN: u64 = 0x01;
    pub const CLOSE: u64 = 0x02;
    pub const WRITEC: u64 = 0x03;
    pub const WRITE0: u64 = 0x04;
    pub const WRITE: u64 = 0x05;
    pub const READ: u64 = 0x06;
    pub const READC: u64 = 0x07;
    pub const ISERROR: u64 = 0x08;
    pub const ISTTY: u64 = 0x09;
    pub const FLEN: u64 = 0x0c;
    pub const CLOCK: u64 = 0x10;
    pub const TIME: u64 = 0x11;
    pub const ERRNO: u64 = 0x13;
    pub const GET_CMDLINE: u64 = 0x15;
    pub const HEAPINFO: u64 = 0x16;
    pub const EXIT: u64 = 0x18;
    pub const EXIT_EXTENDED: u64 = 0x20;
    pub const ELAPSED: u64 = 0x30;
    pub const TICKFREQ: u64 = 0x31;
}

/// Ends the guest with this code.
pub fn exit(calls: &mut Calls, code: u64) {
    let block = calls.words(&[0x2_0026, code]);
    calls.quiet(op::EXIT, block, 0);
}

/// What any host must answer alike: output, command line, frequency; with `input` also what depends on where a host's console
/// is: whether it is one, and its input (`xyz` is typed). Then exit with 42.
#[must_use]
pub fn common(input: bool) -> Calls {
    let mut calls = Calls::new(40);
    let hello = calls.bytes(b"hello\n\0");
    calls.quiet(op::WRITE0, hello, 0);
    calls.quiet(op::WRITEC, hello + 1, 0);
    calls.quiet(op::WRITEC, hello + 5, 0);
    let console = calls.bytes(b":tt");
    let (for_input, output) = (calls.words(&[console, 0, 3]), calls.words(&[console, 4, 3]));
    let buffer = calls.bytes(&[0; 80]);
    let write = calls.words(&[0, hello, 6]);
    calls.quiet(op::OPEN, output, write);
    calls.call(op::WRITE, write);
    for status in [0, 5, u64::MAX] {
        let block = calls.words(&[status]);
        calls.call(op::ISERROR, block);
    }
    if input {
        calls.call(op::ISTTY, write);
    }
    calls.call(op::CLOSE, write);
    let line = calls.words(&[buffer, 80]);
    calls.call(op::GET_CMDLINE, line);
    calls.quiet(op::WRITE0, buffer, 0);
    calls.quiet(op::WRITEC, hello + 5, 0);
    calls.call(op::TICKFREQ, 0);
    if input {
        calls.call(op::READC, 0);
        let text = calls.bytes(b"[.]\n\0");
        let read = calls.words(&[0, text + 1, 1]);
        calls.quiet(op::OPEN, for_input, read);
        calls.call(op::READ, read);
        calls.quiet(op::WRITE0, text, 0);
    }
    exit(&mut calls, 42);
    calls
}

/// What is this machine's alone: times, limits, files refused, ebreaks that are no calls; then exit with 7.
#[must_use]
pub fn own() -> Calls {
    let mut calls = Calls::new(80);
    for variant in [
        Variant::AcrossPages,
        Variant::OtherBehind,
        Variant::Compressed,
        Variant::User,
    ] {
        calls.variant(variant);
    }
    let file = calls.bytes(b"/etc/passwd");
    let block = calls.words(&[file, 0, 11]);
    calls.call(op::OPEN, block);
    calls.call(op::ERRNO, 0);
    let handles: Vec<u64> = (0..5).map(|handle| calls.words(&[handle])).collect();
    for block in handles {
        calls.call(op::ISTTY, block);
        calls.call(op::FLEN, block);
        calls.call(op::CLOSE, block);
    }
    let words = calls.words(&[0; 4]);
    let info = calls.words(&[words]);
    calls.call(op::HEAPINFO, info);
    for word in 0..4 {
        calls.word(words + 8 * word);
    }
    calls.call(op::CLOCK, 0);
    calls.call(op::TIME, 0);
    calls.call(op::ELAPSED, words);
    calls.word(words);
    let line = calls.words(&[words, 11]);
    calls.call(op::GET_CMDLINE, line);
    exit(&mut calls, 7);
    calls
}

/// Pointers and lengths that lead nowhere. Whatever is printed between is what there is in memory; then exit with 9.
#[must_use]
pub fn hostile(memory: u64) -> Calls {
    let mut calls = Calls::new(600);
    let end = layout::RAM + memory;
    let nowhere = [
        0,
        1,
        u64::MAX,
        u64::MAX - 7,
        layout::UART,
        layout::RAM - 4,
        end - 4,
        end,
    ];
    for operation in (0..=0x40).chain([0x100, u64::from(u32::MAX)]) {
        // What waits for input would wait for ever.
        if operation != op::READC {
            nowhere
                .into_iter()
                .for_each(|pointer| calls.call(operation, pointer));
        }
    }
    let text = calls.bytes(b"text");
    for from in nowhere {
        let write = calls.words(&[2, from, 8]);
        calls.call(op::WRITE, write);
        let read = calls.words(&[1, from, 8]);
        calls.call(op::READ, read);
        let line = calls.words(&[from, 100]);
        calls.call(op::GET_CMDLINE, line);
        let info = calls.words(&[from]);
        calls.call(op::HEAPINFO, info);
        let open = calls.words(&[from, 4, 3]);
        calls.call(op::OPEN, open);
    }
    for (handle, len) in [(2, u64::MAX), (3, 1 << 20), (1, 4), (0, 4), (2, 0)] {
        let write = calls.words(&[handle, text, len]);
        calls.call(op::WRITE, write);
    }
    let none = calls.words(&[1, text, 0]);
    calls.call(op::READ, none);
    exit(&mut calls, 9);
    calls
}
