//! What dynasm's RISC-V assembler lacks for machine-mode code: encodings of the privileged
//! instructions, and extraction of the symbol table.
//!
//! Operand forms follow dynasm (`[sp, 8]`, `amoadd.d rd, rs2, [rs1]`), encodings the RISC-V
//! Privileged manual 10 ("Instruction Set Listings").

use dynasmrt::components::StaticLabel;
use dynasmrt::relocations::Relocation;
use dynasmrt::{VecAssembler, riscv::RiscvRelocation};

/// Assembles into a byte vector; code is position-independent within an image.
pub(crate) type Assembler = VecAssembler<RiscvRelocation>;

/// `dynasm!` for RV64GC with the extensions that the board has.
macro_rules! rv {
    ($asm:ident $($line:tt)*) => {
        dynasmrt::dynasm!($asm
            ; .arch riscv64i
            ; .feature imafd, zicsr, zifencei, zicboz, zicntr, zihintpause
            $($line)*
        )
    };
}
pub(crate) use rv;

/// `mret`
pub(crate) const MRET: u32 = 0x3020_0073;
/// `sret`
pub(crate) const SRET: u32 = 0x1020_0073;
/// `wfi`
pub(crate) const WFI: u32 = 0x1050_0073;
/// `sfence.vma zero, zero`
pub(crate) const SFENCE_VMA: u32 = 0x1200_0073;
/// `sfence.vma a0, zero`
pub(crate) const SFENCE_VMA_A0: u32 = 0x1205_0073;

/// mstatus.MIE
pub(crate) const MSTATUS_MIE: u32 = 1 << 3;
/// mstatus.MPIE
pub(crate) const MSTATUS_MPIE: u32 = 1 << 7;
/// mstatus.MPP = S
pub(crate) const MSTATUS_MPP_S: u32 = 1 << 11;
/// mstatus.MPP = M, and the mask of the field
pub(crate) const MSTATUS_MPP: u32 = 3 << 11;
/// mstatus.FS = Initial
pub(crate) const MSTATUS_FS_INITIAL: u32 = 1 << 13;

/// A fresh assembler for an image loaded at `base`.
pub(crate) fn assembler(base: u64) -> Assembler {
    VecAssembler::new(base as usize)
}

/// Addresses of global labels in an image loaded at `base`, sorted by address.
///
/// # Panics
/// If a label isn't defined: a mistake in this crate.
pub(crate) fn symbols<R: Relocation>(
    asm: &VecAssembler<R>,
    base: u64,
    names: &[&'static str],
) -> Vec<(String, u64)> {
    let mut table: Vec<(String, u64)> = names
        .iter()
        .map(|&name| {
            let at = asm.labels().resolve_static(&StaticLabel::global(name));
            let at = at.unwrap_or_else(|_| panic!("label {name} is not defined"));
            (name.to_string(), base + at.0 as u64)
        })
        .collect();
    table.sort_by_key(|&(_, address)| address);
    table
}
