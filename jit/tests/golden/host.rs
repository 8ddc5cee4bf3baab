//! Host code as text that is the same on every run: names in place of addresses, slots, exit numbers and jumps.

use std::collections::BTreeMap;

use cpu::ir::Block;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, Instruction, IntelFormatter, Mnemonic, OpKind, Register,
    SymbolResolver, SymbolResult,
};
use jit::{BlockKey, Jit};

/// What the formatter asks for: names by address, and of slots.
struct Names {
    addresses: BTreeMap<u64, String>,
    slots: BTreeMap<i32, String>,
}

impl SymbolResolver for Names {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _operand: u32,
        instruction_operand: Option<u32>,
        address: u64,
        _size: u32,
    ) -> Option<SymbolResult<'_>> {
        let name = match instruction.op_kind(instruction_operand?) {
            OpKind::NearBranch64 => self.addresses.get(&address),
            OpKind::Memory if instruction.is_ip_rel_memory_operand() => self.addresses.get(&address),
            OpKind::Memory if is_slot(instruction) => self.slots.get(&(address as i32)),
            _ => None,
        };
        name.map(|name| SymbolResult::with_str(address, name))
    }
}

fn is_slot(instruction: &Instruction) -> bool {
    instruction.memory_base() == Register::RBP && instruction.memory_index() == Register::None
}

fn decode(code: &[u8], at: u64) -> Vec<Instruction> {
    Decoder::with_ip(64, code, at, DecoderOptions::NONE)
        .into_iter()
        .collect()
}

/// The code that is made of a block.
pub fn text(jit: &mut Jit, key: BlockKey, block: &Block) -> String {
    // Then nothing is linked, and exits are numbered from the first on.
    jit.flush();
    let before = jit.stats().hot_bytes;
    let id = jit.compile(key, block, &[]).unwrap();
    let (entry, code) = (jit.entry(id), jit.code(id));
    let hot = (jit.stats().hot_bytes - before) as usize;
    // What lies between the parts is no code.
    let cold = hot.next_multiple_of(16);
    let parts = [
        decode(&code[..hot], entry),
        decode(&code[cold..], entry + cold as u64),
    ];
    let end = entry + code.len() as u64;

    let mut names = Names {
        addresses: BTreeMap::new(),
        slots: BTreeMap::new(),
    };
    let all = || parts.iter().flatten();
    for instruction in all() {
        let is_jump = !matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::Interrupt
        );
        if is_jump && instruction.op_kind(0) == OpKind::NearBranch64 {
            let to = instruction.near_branch64();
            let name = if (entry..end).contains(&to) {
                String::new()
            } else {
                jit.name(to).expect("a thunk")
            };
            names.addresses.insert(to, name);
        }
        if instruction.is_ip_rel_memory_operand() {
            let at = instruction.ip_rel_memory_address();
            names.addresses.insert(at, jit.name(at).expect("a constant"));
        }
        if is_slot(instruction) {
            let at = instruction.memory_displacement64() as i32;
            names.slots.insert(at, jit.word_name(at).expect("a slot"));
        }
    }
    let exit = names
        .addresses
        .iter()
        .find(|(_, name)| *name == "exit")
        .map(|(at, _)| *at);
    // `mov eax, number; jmp exit` to which jumps go, and nothing else: they are said to go to the exit itself.
    let mut exits = BTreeMap::new();
    for part in &parts {
        for (i, pair) in part.windows(2).enumerate() {
            let alone = i == 0 || part[i - 1].flow_control() == FlowControl::UnconditionalBranch;
            if alone && names.addresses.contains_key(&pair[0].ip()) && leaves(pair, exit) {
                exits.insert(pair[0].ip(), exit_name(jit, pair));
            }
        }
    }
    let mut number = 0;
    for (at, name) in names.addresses.range_mut(entry..end) {
        *name = exits.get(at).cloned().unwrap_or_else(|| {
            number += 1;
            format!("L{number}")
        });
    }
    let labels: BTreeMap<u64, String> = names
        .addresses
        .range(entry..end)
        .map(|(a, n)| (*a, n.clone()))
        .collect();

    let mut formatter = IntelFormatter::with_options(Some(Box::new(names)), None);
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_signed_immediate_operands(true);
    options.set_show_branch_size(false);
    let mut text = String::new();
    for (part, name) in parts.iter().zip(["", "cold:\n"]) {
        let mut heading = name;
        let mut rest = part.as_slice();
        while let [instruction, behind @ ..] = rest {
            if exits.contains_key(&instruction.ip()) {
                rest = &rest[2..];
                continue;
            }
            text += std::mem::take(&mut heading);
            if let Some(label) = labels.get(&instruction.ip()) {
                text += &format!("{label}:\n");
            }
            let mut line = String::new();
            if leaves(rest, exit) {
                line = format!("mov eax,{}", exit_name(jit, rest));
            } else {
                formatter.format(instruction, &mut line);
            }
            text += &format!("  {}\n", line.replace("[rbp+", "["));
            rest = behind;
        }
    }
    text
}

/// Whether code begins with `mov eax, number; jmp exit`.
fn leaves(code: &[Instruction], exit: Option<u64>) -> bool {
    let [number, jump, ..] = code else {
        return false;
    };
    number.mnemonic() == Mnemonic::Mov
        && number.op_register(0) == Register::EAX
        && jump.mnemonic() == Mnemonic::Jmp
        && exit.is_some_and(|exit| jump.near_branch64() == exit)
}

fn exit_name(jit: &Jit, code: &[Instruction]) -> String {
    format!("<{}>", jit.exit_name(code[0].immediate32()).expect("an exit"))
}
