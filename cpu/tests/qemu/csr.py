#!/usr/bin/env python3
"""Without an argument writes csr.S, a bare-metal program that does CSR operations and prints what became of each:
`csr op value old new cause`, where `op` is 1 write, 2 set, 3 clear, and `old` and `new` are 0 if illegal. Each CSR gets
its value back afterwards. With the argument `hash` reads that output and prints, for each CSR, the FNV-1a hash of the
last three columns, as csr/tests.rs has them."""
import sys

if sys.argv[1:] == ["hash"]:
    hashes = {}
    for line in sys.stdin:
        csr, _, _, *answer = (int(word, 16) for word in line.split())
        for value in answer:
            hashes[csr] = (hashes.get(csr, 0xCBF29CE484222325) ^ value) * 0x100000001B3 & (1 << 64) - 1
    for csr, value in hashes.items():
        print(f"{csr:03x} {value:016x}")
    sys.exit()

CSRS = [0x001, 0x002, 0x003, 0x100, 0x104, 0x105, 0x106, 0x10a, 0x140, 0x141, 0x142, 0x143, 0x144, 0x14d, 0x180,
        0x300, 0x301, 0x302, 0x303, 0x304, 0x305, 0x306, 0x30a, 0x320, 0x323, 0x340, 0x341, 0x342, 0x343, 0x344,
        0x3a0, 0x3a2, 0x3b0, 0x3b5, 0x3bf, 0xb03, 0xb1f, 0xf11, 0xf12, 0xf13, 0xf14, 0xf15,
        0x3a1, 0x310, 0x10b, 0x747, 0x008, 0x015, 0x240, 0x600, 0x643, 0x7b0, 0xc80]
VALUES = [0, ~0, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x1234567890abcdef, 0x8000000000000001,
          0x9000000000012345, 0xa00fffffffffffff, 0xb000000000000000, 0x1000, 0x1001, 0x1002, 0x0800]
cases = [(c, op, v & (1 << 64) - 1) for c in CSRS for v in VALUES for op in (1, 2, 3)]
# MIE with a pending interrupt, and MPRV, would change the program's own course: they stay clear.
# So do the locks of PMP entries, which nothing would take back.
MASKS = {0x300: ~0x20008, 0x3a0: 0x1f1f1f1f1f1f1f1f, 0x3a2: 0x1f1f1f1f1f1f1f1f}
cases = [(c, op, v & MASKS.get(c, ~0)) for c, op, v in cases]
out = open("csr.S", "w")
p = lambda s: out.write(s + "\n")
p("""# Made by csr.py.
    .globl _start
_start:
    li sp, 0x80200000
    la t0, trap
    csrw mtvec, t0
    li t0, 0x2000
    csrs mstatus, t0
    la s10, cases
    la s11, end
1:  bgeu s10, s11, 2f
    ld a0, 0(s10)
    ld s3, 8(s10)
    ld s4, 16(s10)
    call print
    mv a0, s3
    call print
    mv a0, s4
    call print
    li s1, 0
    li s2, 0
    li s5, 0
    li s6, 0
    ld t0, 24(s10)
    jalr t0
    mv a0, s5
    call print
    mv a0, s6
    call print
    mv a0, s1
    call print
    li a0, 10
    call put
    addi s10, s10, 32
    j 1b
2:  li t0, 0x100000
    li t1, 0x5555
    sw t1, 0(t0)
    j .
    .balign 4
trap:
    csrr s1, mcause
    csrr t0, mepc
    addi t0, t0, 4
    csrw mepc, t0
    mret
put:
    li t0, 0x10000000
3:  lbu t1, 5(t0)
    andi t1, t1, 0x20
    beqz t1, 3b
    sb a0, 0(t0)
    ret
print:
    mv s8, ra
    mv s7, a0
    li s9, 60
4:  srl a0, s7, s9
    andi a0, a0, 15
    addi a0, a0, 48
    li t0, 58
    blt a0, t0, 5f
    addi a0, a0, 39
5:  call put
    addi s9, s9, -4
    bgez s9, 4b
    li a0, 32
    call put
    mv ra, s8
    ret""")
for c in CSRS:
    for op in (1, 2, 3):
        p(f"f{c}_{op}:\n    .option push\n    .option norvc\n    csrrs s2, {c:#x}, x0\n    csrr{' wsc'[op]} s5, {c:#x}, s4\n    csrrs s6, {c:#x}, x0\n    csrrw x0, {c:#x}, s2\n    .option pop\n    ret")
p("    .balign 8\ncases:")
for c, op, v in cases:
    p(f"    .dword {c:#x}, {op}, {v:#x}, f{c}_{op}")
p("end:")
