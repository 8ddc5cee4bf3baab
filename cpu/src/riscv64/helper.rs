//! Numbers and arguments of the helpers that lifted code calls ([`crate::ir::Op::Call`]).
//!
//! An `insn` argument is the instruction's bits (a compressed one: its 16 bits), which become mtval when
//! the helper finds it illegal. A helper that changes privilege, CSRs or pc ends its block.

/// CSR access. `args[0]`: bits 0..=11 the CSR, 12..=13 the operation (1 write, 2 set, 3 clear), 14 "writes"
/// (set/clear with rs1 = x0 or uimm = 0 don't), 15 "reads" (csrrw with rd = x0 doesn't), 32..=63 insn.
/// `args[1]`: operand. Yields the old value. The block ends with `Dispatch`.
pub const CSR: u16 = 0;
/// `mret`: `args[0]` insn. Sets pc; the block ends with `Left`.
pub const MRET: u16 = 1;
/// `sret`: as `mret`.
pub const SRET: u16 = 2;
/// `wfi`: `args[0]` insn. The block ends with `Dispatch`.
pub const WFI: u16 = 3;
/// `sfence.vma`, `sinval.vma`, `sfence.w.inval`, `sfence.inval.ir`: `args[0]` insn (legality under TVM and in
/// U); translations are coherent, so nothing else happens.
pub const SFENCE: u16 = 4;
/// `lr`: `args` = address, size in bytes. Yields the loaded value, sign-extended.
pub const LR: u16 = 5;
/// `sc`: `args` = address, size in bytes, value. Yields 0 on success, else 1.
pub const SC: u16 = 6;
/// `cbo.zero`: `args` = address, insn.
pub const CBO_ZERO: u16 = 7;
/// Sets mstatus.FS to Dirty. Cannot trap; the block ends with `Dispatch` after the instruction.
pub const FS_DIRTY: u16 = 8;
/// `pause`: ends the hart's slice. The block ends with `Dispatch`.
pub const PAUSE: u16 = 9;

/// `ebreak`, where semihosting is served: a semihosting call, if it stands in its sequence. Sets pc; the block ends with
/// `Left`.
pub const EBREAK: u16 = 10;

/// Builds `args[0]` of [`CSR`].
pub const fn csr_descriptor(csr: u16, op: u8, writes: bool, reads: bool, insn: u32) -> u64 {
    (csr as u64 & 0xfff)
        | (op as u64 & 3) << 12
        | (writes as u64) << 14
        | (reads as u64) << 15
        | (insn as u64) << 32
}
