//! Disassembly in GNU syntax, by iced-x86.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};

/// Text and length of the instruction at the start of `bytes`, which stand at `ip`; `bits` is 16, 32 or 64.
pub fn disassemble(bits: u32, ip: u64, bytes: &[u8]) -> (String, usize) {
    let mut decoder = Decoder::with_ip(bits, bytes, ip, DecoderOptions::NONE);
    if !decoder.can_decode() {
        return (String::from("(bad)"), 1);
    }
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return (String::from("(bad)"), 1);
    }
    let mut text = String::new();
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_uppercase_hex(false);
    formatter.format(&instruction, &mut text);
    (text, instruction.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instruction_in_each_size() {
        let cases: [(u32, &[u8], &str, usize); 5] = [
            (64, &[0x48, 0x89, 0xc3], "mov %rax,%rbx", 3),
            (32, &[0x89, 0xc3], "mov %eax,%ebx", 2),
            (16, &[0x89, 0xc3], "mov %ax,%bx", 2),
            (64, &[0x06], "(bad)", 1),
            (64, &[], "(bad)", 1),
        ];
        for (bits, bytes, text, len) in cases {
            assert_eq!(disassemble(bits, 0x1000, bytes), (text.to_string(), len));
        }
    }
}
