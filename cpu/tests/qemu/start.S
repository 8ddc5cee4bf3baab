# Start, and the three accesses of mmu.c. A trap returns to the caller of the access with the cause as its result.
    .globl _start, try_load, try_store, try_fetch
_start:
    li sp, 0x80080000
    la t0, trap
    csrw mtvec, t0
    call main
try_load:
    csrr t5, mstatus
    csrw mstatus, a1
    mv t6, a0
    li a0, 0
    lw t1, 0(t6)
    csrw mstatus, t5
    ret
try_store:
    csrr t5, mstatus
    csrw mstatus, a1
    mv t6, a0
    li a0, 0
    li t1, 0x73
    sw t1, 0(t6)
    csrw mstatus, t5
    ret
try_fetch:
    csrr t5, mstatus
    csrw mstatus, a1
    csrw mepc, a0
    mret
    .balign 4
trap:
    csrw mstatus, t5
    csrr a0, mcause
    ret
