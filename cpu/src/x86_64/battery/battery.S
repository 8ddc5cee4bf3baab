# A firmware that tries the system's side of a processor and tells what came of it in records of
# twenty quadwords in memory, at 0x40000 (real mode) and at 1 MiB: kind, parameter, vector, error code (-1: none), ip, cs, flags, sp, ss, cr2, rdx, rax, ds, es, fs, gs,
# two extras (page table entries), cr0, dr6. Every trial ends in an exception or in `int $0x30`.
#
# How it is assembled: mod.rs.

.set LAND,     0x5000
.set VARS,     0x6000
.set RECORD,   0x7000
.set GDT,      0x8000
.set LDT,      0x8800
.set IDT,      0x9000
.set TSS,      0xa000
.set USTACK,   0xc000
.set KSTACK,   0xd000
.set STACK0,   0xe000
.set STACK1,   0xf000
.set LASTSEL,  0x160

.set v_resume, VARS
.set v_kind,   VARS+8
.set v_param,  VARS+16
.set v_op,     VARS+24
.set v_far,    VARS+32
.set v_pte,    VARS+48
.set v_pde,    VARS+56
.set v_step,   VARS+64
.set v_gate,   VARS+72
.set v_iter,   VARS+80
.set v_combo,  VARS+88
.set v_nostep, VARS+96
.set v_out,    VARS+104
.set OUT,      0x100000

.section .text, "ax"
.code16
start16:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw $0xd000, %sp

    # --- real mode: int, iret, far call and return, stack arithmetic ---
    movw $rm_handler, 0x31*4
    movw %cs, 0x31*4+2
    movw $rm_handler6, 0x6*4
    movw %cs, 0x6*4+2
    movw $rm_handler0, 0x0*4
    movw %cs, 0x0*4+2
    movw $rm_handler1, 0x1*4
    movw %cs, 0x1*4+2
    movl $0x1234, %edx
    int $0x31
    ud2
    xorw %bx, %bx
    divw %bx
    nop
    pushfw
    popw %ax
    orw $0x4100, %ax
    pushw %ax
    popfw
    nop
    movw %ds, %ax
    movw %ax, %ss
    nop
    pushfw
    popw %ax
    andw $~0x100, %ax
    pushw %ax
    popfw
    nop
    pushfl
    popl %eax
    xorl $0x200000, %eax
    pushl %eax
    popfl
    pushfl
    popl %edx
    call rm_report
    lcall $0xf000, $rm_far
    pushfw
    pushw %cs
    pushw $1f
    iretw
1:
    movl $0x100006, %esp
    pushl $0x11112222
    popl %edx
    call rm_report
    movl $0x30000001, %esp
    movw $0x7fff, %sp
    pushw $0x5a5a
    popw %dx
    call rm_report
    movw $0xd000, %sp
    smsw %dx
    call rm_report
    jmp to32

rm_far:
    call rm_report
    lretw $0

rm_handler0:
    pushw $0
    addw $2, 2(%esp)
    jmp rm_common
rm_handler1:
    pushw $1
    jmp rm_common
rm_handler6:
    pushw $6
    addw $2, 2(%esp)
    jmp rm_common
rm_handler:
    pushw $0x31
rm_common:
    # sp: vector, ip, cs, flags
    pushl %eax
    pushl %ebx
    pushl %ecx
    pushl %esi
    pushl %edi
    pushl %edx
    call rm_clear
    movzwl %sp, %ebx
    movw 24(%ebx), %ax
    movw %ax, RECORD+16
    movw 26(%ebx), %ax
    movw %ax, RECORD+32
    movw 28(%ebx), %ax
    movw %ax, RECORD+40
    movw 30(%ebx), %ax
    movw %ax, RECORD+48
    movl %ebx, RECORD+56
    movl %edx, RECORD+80
    call rm_flush
    popl %edx
    popl %edi
    popl %esi
    popl %ecx
    popl %ebx
    popl %eax
    addw $2, %sp
    iretw

rm_report:
    pushl %eax
    pushl %ebx
    pushl %ecx
    pushl %esi
    pushl %edi
    pushl %edx
    call rm_clear
    movl %esp, RECORD+56
    movl %edx, RECORD+80
    pushfl
    popl %eax
    movl %eax, RECORD+48
    call rm_flush
    popl %edx
    popl %edi
    popl %esi
    popl %ecx
    popl %ebx
    popl %eax
    ret

rm_clear:
    cld
    xorw %di, %di
    movw %di, %es
    movw $RECORD, %di
    movw $80, %cx
    xorw %ax, %ax
    rep stosw
    movw $0xffff, RECORD
    ret
rm_flush:
    cld
    movw $RECORD, %si
    movw $160, %cx
    pushw %es
    movw $0x4000, %di
    movw %di, %es
    movw v_out, %di
    rep movsb
    movw %di, v_out
    popw %es
    ret

to32:
    movw $0xf000, %ax
    movw %ax, %ds
    lgdtl gdtr_rom
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x08, $0xf0000+start32

    .balign 4
gdtr_rom:
    .word LASTSEL-9
    .long 0xf0000+gdt_template

    .balign 8
gdt_template:
    .quad 0
    .quad 0x00cf9a000000ffff  # 08 code32 0
    .quad 0x00cf92000000ffff  # 10 data 0
    .quad 0x00cffa000000ffff  # 18 code32 3
    .quad 0x00cff2000000ffff  # 20 data 3
    .quad 0x008f9a000000ffff  # 28 code16 0
    .quad 0x00cf9e000000ffff  # 30 conforming 0
    .quad 0x00cffe000000ffff  # 38 conforming 3
    .quad 0x00cf1a000000ffff  # 40 code absent
    .quad 0x00cf12000000ffff  # 48 data absent
    .quad 0x00cf90000000ffff  # 50 read-only
    .quad 0x00cf98000000ffff  # 58 execute-only
    .quad 0x00cfba000000ffff  # 60 code 1
    .quad 0x00cfb2000000ffff  # 68 data 1
    .quad 0x00c0960000000000  # 70 expand-down
    .quad 0x000082008800003f  # 78 LDT
    .quad 0x00008900a00000ff  # 80 TSS
    .quad 0x00008b00a00000ff  # 88 busy TSS
    .quad 0x0000ec0200085000  # 90 call gate 3 -> 08, 2 parameters
    .quad 0x00008c0000085000  # 98 call gate 0 -> 08
    .quad 0x0000ec0000185000  # a0 call gate 3 -> 18
    .quad 0x00006c0000085000  # a8 call gate absent
    .quad 0x0000ec0000005000  # b0 call gate -> null
    .quad 0x0000ec0000105000  # b8 call gate -> data
    .quad 0x0000ec0000305000  # c0 call gate -> conforming
    .quad 0x0000e40100085000  # c8 16-bit call gate, 1 parameter
    .quad 0x0000e50000800000  # d0 task gate
    .quad 0x00cff0000000ffff  # d8 read-only 3
    .quad 0x0000e00000000000  # e0 type 0
    .quad 0x0000ec0000605000  # e8 call gate -> code 1
    .quad 0x00af9a000000ffff  # f0 code64 0
    .quad 0x00affa000000ffff  # f8 code64 3
    .quad 0x00af9e000000ffff  # 100 code64 conforming
    .quad 0x00ef9a000000ffff  # 108 L and D
    .quad 0x000002008800003f  # 110 LDT absent
    .quad 0x00008900a00000ff  # 118 TSS 64
    .quad 0
    .quad 0x0000ec0000f05000  # 128 64-bit call gate -> f0
    .quad 0
    .quad 0x0000ec0000f05000  # 138 with a type in its high half
    .quad 0x00000f0000000000
    .quad 0x000082008800003f  # 148 64-bit LDT
    .quad 0
    .quad 0
gdt_end:

ldt_template:
    .quad 0x00cf92000000ffff
    .quad 0x00cf9a000000ffff
    .quad 0x00cffa000000ffff
    .quad 0x00cff2000000ffff
    .quad 0
    .quad 0
    .quad 0
    .quad 0

# ---------------------------------------------------------------- 32 bits
.code32
start32:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw %ax, %fs
    movw %ax, %gs
    movl $KSTACK, %esp
    movl $OUT, v_out
    movb $0xcd, LAND
    movb $0x30, LAND+1
    movw $0x0b0f, LAND+2
    # IDT: all vectors to stubs
    xorl %ecx, %ecx
1:  movl %ecx, %eax
    imull $8, %eax, %eax
    movl %ecx, %edx
    shll $4, %edx
    addl $stubs32+0xf0000, %edx
    movw %dx, IDT(%eax)
    movw $0x08, IDT+2(%eax)
    movw $0x8e00, IDT+4(%eax)
    shrl $16, %edx
    movw %dx, IDT+6(%eax)
    incl %ecx
    cmpl $0x40, %ecx
    jb 1b
    movw $0xee00, IDT+0x30*8+4
    lidtl 0xf0000+idtr32
    movl $STACK0, TSS+4
    movl $0x10, TSS+8
    movl $STACK1, TSS+12
    movl $0x69, TSS+16
    movw $0x68, TSS+102
    movl $0xffffffff, TSS+0x68
    movl $0xffffffff, TSS+0x6c
    movb $0x0f, TSS+0x68+2
    movl $gdt_restored, v_resume
    call restore
gdt_restored:
    lgdtl 0xf0000+gdtr_ram

.macro RUN kind, op, skip=0
    movl $\kind, v_kind
    movl $\op+0xf0000, v_op
    movl $\skip, v_nostep
    call run0
    movl $\kind+0x100, v_kind
    call run3
.endm
    RUN 1, op_ljmp, 1
    RUN 2, op_lcall, 1
    RUN 3, op_lret
    RUN 4, op_iret
    RUN 5, op_iret_ss
    RUN 6, op_lret_ss
    RUN 7, op_ds
    RUN 8, op_ss
    RUN 9, op_lar
    RUN 10, op_lsl
    RUN 11, op_verr
    RUN 12, op_verw
    RUN 13, op_ltr
    RUN 14, op_lldt
    RUN 15, op_gs
    RUN 16, op_lcall16, 1
    RUN 17, op_iretw
.macro GATE kind, attr
    movl $\attr, v_gate
    RUN \kind, op_int31
.endm
    GATE 0x20, 0xee00
    GATE 0x21, 0xef00
    GATE 0x22, 0xe600
    GATE 0x23, 0xe700
    GATE 0x24, 0x8e00
    GATE 0x25, 0x6e00
    GATE 0x26, 0xec00
    GATE 0x27, 0xfe00
    jmp misc32

# Selectors 0 to LASTSEL in ring 0; ops get it in eax.
run0:
    movl $0, v_param
1:  call restore
    movl v_param, %eax
    call skips
    jc 2f
    movl $2f+0xf0000, v_resume
    movl $KSTACK-64, %esp
    movl $0xdeadbeef, %edx
    movl v_param, %eax
    jmp *v_op
2:  addl $3, v_param
    cmpl $LASTSEL, v_param
    jb 1b
    # the stack was reset: the return address is still where it was
    movl $KSTACK-4, %esp
    ret
run3:
    movl $0, v_param
1:  call restore
    movl v_param, %eax
    call skips
    jc 2f
    movl $2f+0xf0000, v_resume
    movl $KSTACK-4, %esp
    pushl $0x23
    pushl $USTACK
    pushl $0x2
    pushl $0x1b
    pushl v_op
    movl $0xdeadbeef, %edx
    movl $0x23, %ecx
    movw %cx, %ds
    iretl
2:  addl $3, v_param
    cmpl $LASTSEL, v_param
    jb 1b
    movl $KSTACK-4, %esp
    ret

# Carry: eax names what would switch tasks.
skips:
    cmpl $0, v_nostep
    je 1f
    movl %eax, %ecx
    andl $0xfffc, %ecx
    cmpl $0x80, %ecx
    je 2f
    cmpl $0xd0, %ecx
    je 2f
1:  clc
    ret
2:  stc
    ret

restore:
    cld
    movl $gdt_template+0xf0000, %esi
    movl $GDT, %edi
    movl $LASTSEL/4-2, %ecx
    rep movsl
    movl $ldt_template+0xf0000, %esi
    movl $LDT, %edi
    movl $16, %ecx
    rep movsl
    movw $0x10, %ax
    movw %ax, %ss
    lgdtl 0xf0000+gdtr_ram
    movw $0x80, %ax
    ltr %ax
    movw $0x78, %ax
    lldt %ax
    ret

op_ljmp:
    movl $LAND, v_far
    movw %ax, v_far+4
    ljmpl *v_far
op_lcall:
    pushl $0x22220002
    pushl $0x11110001
    movl $LAND, v_far
    movw %ax, v_far+4
    lcalll *v_far
op_lcall16:
    pushl $0x22220002
    pushl $0x11110001
    movw $LAND, v_far
    movw %ax, v_far+2
    lcallw *v_far
op_lret:
    pushl $0x23
    pushl $USTACK
    pushl %eax
    pushl $LAND
    lretl
op_lret_ss:
    pushl %eax
    pushl $USTACK
    pushl $0x1b
    pushl $LAND
    lretl $0
op_iret:
    pushl $0x23
    pushl $USTACK
    pushl $0x4ad7^0x4000
    pushl %eax
    pushl $LAND
    iretl
op_iretw:
    pushw $0x23
    pushw $USTACK
    pushw $0x0ad7
    pushw %ax
    pushw $LAND
    iretw
op_iret_ss:
    pushl %eax
    pushl $USTACK
    pushl $0x46
    pushl $0x1b
    pushl $LAND
    iretl
op_ds:
    movw %ax, %ds
    int $0x30
op_gs:
    movw %ax, %gs
    int $0x30
op_ss:
    movw %ax, %ss
    nop
    int $0x30
op_lar:
    larl %eax, %edx
    int $0x30
op_lsl:
    lsll %eax, %edx
    int $0x30
op_verr:
    verr %ax
    int $0x30
op_verw:
    verw %ax
    int $0x30
op_ltr:
    ltr %ax
    str %edx
    int $0x30
op_lldt:
    lldt %ax
    sldt %edx
    int $0x30
op_int31:
    shll $16, %eax
    movw $LAND, %ax
    movl %eax, IDT+0x31*8
    movl v_gate, %eax
    movl %eax, IDT+0x31*8+4
    int $0x31
    int $0x30

# Exceptions: stubs of sixteen bytes each.
.balign 16
stubs32:
.set n, 0
.rept 0x40
    .balign 16
    .if n == 8 || (n >= 10 && n <= 14) || n == 17
        nop
        nop
    .else
        pushl $-1
    .endif
    pushl $n
    jmp common32
    .set n, n+1
.endr

common32:
    pushal
    cld
    movl %esp, %ebp
    movl %ds, %esi
    movl $0x10, %ebx
    movl %ebx, %ds
    movl $RECORD, %ebx
    movl %esi, 96(%ebx)
    movl %es, %esi
    movl %esi, 104(%ebx)
    movl %fs, %esi
    movl %esi, 112(%ebx)
    movl %gs, %esi
    movl %esi, 120(%ebx)
    # clear the rest
    movl $0x10, %ecx
    movl %ecx, %es
    movl $RECORD, %edi
    xorl %eax, %eax
    movl $24, %ecx
    rep stosl
    movl $RECORD+128, %edi
    movl $8, %ecx
    rep stosl
    .irp at, 100, 108, 116, 124
    movl %eax, RECORD+\at
    .endr
    movl v_kind, %eax
    movl %eax, RECORD
    movl v_param, %eax
    movl %eax, RECORD+8
    movl 32(%ebp), %eax
    movl %eax, RECORD+16
    movl 36(%ebp), %eax
    movl %eax, RECORD+24
    movl 40(%ebp), %eax
    movl %eax, RECORD+32
    movl 44(%ebp), %eax
    movl %eax, RECORD+40
    movl 48(%ebp), %eax
    movl %eax, RECORD+48
    movl 20(%ebp), %eax
    movl %eax, RECORD+80
    movl 28(%ebp), %eax
    movl %eax, RECORD+88
    testl $0x20000, 48(%ebp)
    jnz 3f
    testl $3, 44(%ebp)
    jnz 1f
    leal 52(%ebp), %eax
    movl %eax, RECORD+56
    movl %ss, %eax
    movl %eax, RECORD+64
    jmp 2f
3:  # virtual-8086 mode: segments are on the stack
    movl 60(%ebp), %eax
    movl %eax, RECORD+104
    movl 64(%ebp), %eax
    movl %eax, RECORD+96
    movl 68(%ebp), %eax
    movl %eax, RECORD+112
    movl 72(%ebp), %eax
    movl %eax, RECORD+120
1:  movl 52(%ebp), %eax
    movl %eax, RECORD+56
    movl 56(%ebp), %eax
    movl %eax, RECORD+64
2:  cmpl $14, 32(%ebp)
    jne 1f
    movl %cr2, %eax
    movl %eax, RECORD+72
1:  movl v_pte, %eax
    testl %eax, %eax
    jz 1f
    movl (%eax), %eax
    movl %eax, RECORD+128
    movl v_pde, %eax
    movl (%eax), %eax
    movl %eax, RECORD+136
1:  movl %cr0, %eax
    movl %eax, RECORD+144
    cmpl $1, 32(%ebp)
    jne 1f
    movl %dr6, %eax
    movl %eax, RECORD+152
1:  movl $RECORD, %esi
    movl $40, %ecx
    movl v_out, %edi
    rep movsl
    movl %edi, v_out
    cmpl $1, 32(%ebp)
    jne 1f
    cmpl $0, v_step
    je 1f
    # a step: go on
    movl RECORD+96, %eax
    movl %eax, %ds
    popal
    addl $8, %esp
    iretl
1:  movl $0x10, %eax
    movl %eax, %ss
    movl $KSTACK-4, %esp
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %fs
    movl %eax, %gs
    pushl $2
    popfl
    # CS may be any that leads here
    ljmpl $0x08, $1f+0xf0000
1:  jmp *v_resume

.balign 4
gdtr_ram:
    .word LASTSEL-9
    .long GDT
.balign 4
idtr32:
    .word 0x40*8-1
    .long IDT
idtr_short:
    .word 0x31*8-1
    .long IDT

# ---------------------------------------------------------------- 32 bits: single instructions
.macro TRIAL kind, ring
    # the code between this and ENDTRIAL, in ring 0 or 3
    movl $\kind, v_kind
    movl $\ring, v_param
    movl $910f+0xf0000, v_resume
    movl $KSTACK-4, %esp
    .if \ring == 3
    pushl $0x23
    pushl $USTACK
    pushl $0x2
    pushl $0x1b
    pushl $909f+0xf0000
    movl $0x23, %ecx
    movw %cx, %ds
    movw %cx, %es
    iretl
    .endif
909:
.endm
.macro ENDTRIAL
    int $0x30
910:
.endm

misc32:
    call restore
    .irp ring, 0, 3
    TRIAL 0x30, \ring
    ud2
    ENDTRIAL
    TRIAL 0x31, \ring
    xorl %ecx, %ecx
    divl %ecx
    ENDTRIAL
    TRIAL 0x32, \ring
    int3
    ENDTRIAL
    TRIAL 0x33, \ring
    movl $0x7fffffff, %eax
    incl %eax
    into
    ENDTRIAL
    TRIAL 0x34, \ring
    int $0x21
    ENDTRIAL
    TRIAL 0x35, \ring
    int $0x50
    ENDTRIAL
    TRIAL 0x36, \ring
    cli
    ENDTRIAL
    TRIAL 0x37, \ring
    sti
    nop
    ENDTRIAL
    TRIAL 0x38, \ring
    inb $0x10, %al
    movl $0, %eax
    ENDTRIAL
    TRIAL 0x39, \ring
    movl $0x14, %edx
    inb %dx, %al
    movl $0, %eax
    ENDTRIAL
    TRIAL 0x3a, \ring
    movl $0x12, %edx
    inl %dx, %eax
    movl $0, %eax
    ENDTRIAL
    TRIAL 0x3b, \ring
    pushl $0x7ffed7
    popfl
    ENDTRIAL
    TRIAL 0x3c, \ring
    pushw $0xfed7
    popfw
    ENDTRIAL
    TRIAL 0x3d, \ring
    movl %cr0, %edx
    ENDTRIAL
    TRIAL 0x40, \ring
    movl %dr7, %edx
    ENDTRIAL
    TRIAL 0x42, \ring
    clts
    ENDTRIAL
    TRIAL 0x43, \ring
    smsw %edx
    ENDTRIAL
    TRIAL 0x44, \ring
    movl $0xfff9, %eax
    lmsw %ax
    smsw %edx
    movl $1, %eax
    lmsw %ax
    ENDTRIAL
    TRIAL 0x45, \ring
    invlpg 0x1000
    ENDTRIAL
    TRIAL 0x46, \ring
    sysenter
    ENDTRIAL
    TRIAL 0x47, \ring
    sysexit
    ENDTRIAL
    TRIAL 0x48, \ring
    lret $8
    ENDTRIAL
    TRIAL 0x49, \ring
    .byte 0x0f, 0x05
    ENDTRIAL
    TRIAL 0x4a, \ring
    .byte 0xf1
    ENDTRIAL
    TRIAL 0x4b, \ring
    pushl $0x4002
    popfl
    iretl
    ENDTRIAL
    TRIAL 0x4c, \ring
    movl $0x8, %eax
    pushl %eax
    popl %ds
    ENDTRIAL
    TRIAL 0x4f, \ring
    lcalll $0x98, $0
    ENDTRIAL
    .endr
    # a short IDT
    lidtl 0xf0000+idtr_short
    TRIAL 0x50, 0
    int $0x31
    ENDTRIAL
    lidtl 0xf0000+idtr32
    # a contributory pair: #NP of the gate of #GP, then #DF
    movw $0x0e00, IDT+13*8+4
    TRIAL 0x51, 0
    movw $0x48, %ax
    movl $0x1000, %ecx
    movw %cx, %ds
    ENDTRIAL
    TRIAL 0x52, 0
    int $0x35
    ENDTRIAL
    movw $0x8e00, IDT+13*8+4
    # #UD with an absent gate: #NP, serially
    movw $0x0e00, IDT+6*8+4
    TRIAL 0x53, 3
    ud2
    ENDTRIAL
    movw $0x8e00, IDT+6*8+4

    # sysenter and sysexit
    movl $0x174, %ecx
    movl $0x08, %eax
    xorl %edx, %edx
    wrmsr
    movl $0x175, %ecx
    movl $KSTACK-0x100, %eax
    wrmsr
    movl $0x176, %ecx
    movl $LAND, %eax
    wrmsr
    TRIAL 0x54, 3
    sysenter
    ENDTRIAL
    TRIAL 0x55, 0
    movl $LAND, %edx
    movl $USTACK-16, %ecx
    sysexit
    ENDTRIAL

    # single steps
    movl $1, v_step
    TRIAL 0x60, 0
    pushl $0x102
    popfl
    nop
    movl %ss, %eax
    movl %eax, %ss
    nop
    nop
    movl $LAND, %esi
    movl $0x5100, %edi
    movl $1, %ecx
    movsb
    xorl %ecx, %ecx
    rep movsb
    pushfl
    popl %edx
    pushl $0x2
    popfl
    nop
    ENDTRIAL
    TRIAL 0x61, 3
    pushl $0x102
    popfl
    nop
    call 1f
1:  popl %eax
    pushfl
    int $0x30
    ENDTRIAL
    # iret that sets TF, and TF with a fault
    TRIAL 0x62, 0
    pushl $0x102
    pushl $8
    pushl $1f+0xf0000
    iretl
1:  nop
    ud2
    ENDTRIAL
    # instruction breakpoint
    movl $1f+0xf0000, %eax
    movl %eax, %dr0
    movl $0x1, %eax
    movl %eax, %dr7
    movl $0, v_step
    TRIAL 0x63, 0
    nop
1:  nop
    ENDTRIAL
    # with RF it doesn't hit
    TRIAL 0x64, 0
    pushl $0x10002
    pushl $8
    pushl $1b+0xf0000
    iretl
    ENDTRIAL
    xorl %eax, %eax
    movl %eax, %dr7
    movl $0xffff0ff0, %eax
    movl %eax, %dr6
    # general detect
    movl $0x2000, %eax
    movl %eax, %dr7
    TRIAL 0x65, 0
    movl %dr0, %eax
    ENDTRIAL
    xorl %eax, %eax
    movl %eax, %dr7
    # breakpoints on data: written byte, four bytes read or written, two written
    movl $0x5003, %eax
    movl %eax, %dr0
    movl $0x5104, %eax
    movl %eax, %dr1
    movl $0x5208, %eax
    movl %eax, %dr2
    movl $0xffff0ff0, %eax
    movl %eax, %dr6
    movl $0x05f10015, %eax
    movl %eax, %dr7
    movl $1, v_step
    TRIAL 0x66, 0
    movl %eax, 0x5000
    movl 0x5000, %eax
    movb %al, 0x5002
    movb %al, 0x5003
    movl 0x5100, %ecx
    movw 0x5107, %cx
    movl %ecx, 0x5106
    incw 0x5208
    cmpw $0, 0x5208
    cmpw $0, 0x5209
    movb %al, 0x5209
    pushl 0x5104
    pushl 0x5108
    movl $0x5104, %esi
    lodsl
    movl $0x5200, %esi
    movl $0x5208, %edi
    movsl
    nop
    ENDTRIAL
    # not enabled: nothing; enabled for another task: as if
    movl $0x05f10000, %eax
    movl %eax, %dr7
    TRIAL 0x67, 0
    movl %eax, 0x5000
    ENDTRIAL
    movl $0xffff0ff0, %eax
    movl %eax, %dr6
    movl $0x05f10008, %eax
    movl %eax, %dr7
    TRIAL 0x68, 3
    movl 0x5107, %eax
    movl %eax, 0x5000
    movb 0x5107, %cl
    ENDTRIAL
    # on ports, with CR4.DE
    movl $0x80, %eax
    movl %eax, %dr3
    movl %cr4, %eax
    orl $8, %eax
    movl %eax, %cr4
    movl $0xffff0ff0, %eax
    movl %eax, %dr6
    movl $0x20000040, %eax
    movl %eax, %dr7
    TRIAL 0x69, 0
    outb %al, $0x80
    inb $0x81
    inb $0x80
    nop
    ENDTRIAL
    movl %cr4, %eax
    andl $~8, %eax
    movl %eax, %cr4
    xorl %eax, %eax
    movl %eax, %dr7
    movl $0, v_step
    jmp vm86

# ---------------------------------------------------------------- virtual-8086 mode
vm86:
    movw $0x30cd, 0x20020
    movl $0, v_iter
1:  movl $0, v_combo
2:  # code at 0x20000: snippet v_iter; then int $0x30
    call restore
    movl v_iter, %eax
    movl $snippets+0xf0000, %esi
    shll $4, %eax
    addl %eax, %esi
    movl $0x20000, %edi
    movl $16, %ecx
    rep movsb
    movl v_iter, %eax
    addl $0x70, %eax
    movl %eax, v_kind
    movl v_combo, %eax
    movl %eax, v_param
    movl $3f+0xf0000, v_resume
    movl $KSTACK-4, %esp
    pushl $0x4444
    pushl $0x3333
    pushl $0x2222
    pushl $0x1111
    pushl $0x1000
    pushl $0xff0
    movl v_combo, %eax
    shll $12, %eax
    orl $0x20002, %eax
    pushl %eax
    pushl $0x2000
    pushl $0
    movl $0x21, %eax
    movl $0x100, %edx
    iretl
3:  incl v_combo
    cmpl $4, v_combo
    jb 2b
    incl v_iter
    cmpl $(snippets_end-snippets)/16, v_iter
    jb 1b
    jmp paging32

.macro SNIPPET
    .balign 16, 0xcc
.endm
.balign 16
snippets:
.code16
    cli
    int $0x30
    SNIPPET
    sti
    int $0x30
    SNIPPET
    pushfw
    popw %dx
    int $0x30
    SNIPPET
    pushw $0x7fff
    popfw
    int $0x30
    SNIPPET
    pushfl
    popl %edx
    int $0x30
    SNIPPET
    pushl $0x7fffff
    popfl
    int $0x30
    SNIPPET
    int3
    int $0x30
    SNIPPET
    int $0x21
    int $0x30
    SNIPPET
    inb $0x10, %al
    movb $0, %al
    ud2
    SNIPPET
    inb $0x14, %al
    movb $0, %al
    ud2
    SNIPPET
    hlt
    int $0x30
    SNIPPET
    movw %ax, %ds
    movw %ds, %dx
    ud2
    SNIPPET
    pushw $0x202
    pushw $0x2000
    pushw $9
    iretw
    int $0x30
    SNIPPET
    lcallw $0x1fff, $0x0030
    int $0x30
    SNIPPET
    .byte 0xea, 0x30, 0x00, 0xff, 0x1f
    ud2
    SNIPPET
    sldt %dx
    int $0x30
    SNIPPET
    smsw %dx
    ud2
    SNIPPET
    movl %cr0, %edx
    int $0x30
    SNIPPET
    larw %ax, %dx
    int $0x30
    SNIPPET
    sgdt 0x100
    ud2
    SNIPPET
    .byte 0x0f, 0x34
    int $0x30
    SNIPPET
snippets_end:
.code32

# ---------------------------------------------------------------- paging with 32 bits
# Directory 0x10000: entry 0 identity 4 MiB page for users, entry 1 the test's table 0x12000, whose entry 0 maps 0x5000.
paging32:
    call restore
    movl $0x10000, %edi
    xorl %eax, %eax
    movl $0x3000, %ecx
    rep stosl
    movl $0x87, 0x10000
    movl $0x12000, v_pte
    movl $0x10004, v_pde
    movl %cr4, %eax
    orl $0x10, %eax
    movl %eax, %cr4
    movl $0x10000, %eax
    movl %eax, %cr3
    movl $0, v_iter
pg_loop:
    movl v_iter, %eax
    # bits 0-2 leaf P RW US; 3-5 directory P RW US; 6 WP; 7 ring 3; 8-9 access; 10 PS
    movl %eax, v_param
    movl $0x400, v_kind
    movl %eax, %ebx
    andl $7, %ebx
    orl $0x5000, %ebx
    movl %ebx, 0x12000
    movl %eax, %ebx
    shrl $3, %ebx
    andl $7, %ebx
    orl $0x12000, %ebx
    testl $0x400, %eax
    jz 1f
    andl $7, %ebx
    orl $0x80, %ebx
1:  movl %ebx, 0x10004
    movl %cr0, %ecx
    andl $~0x10000, %ecx
    orl $0x80000000, %ecx
    testl $0x40, %eax
    jz 1f
    orl $0x10000, %ecx
1:  movl %ecx, %cr0
    movl $0x10000, %ecx
    movl %ecx, %cr3
    call pg_access32
    addl $3, v_iter
    cmpl $0x800, v_iter
    jb pg_loop
    movl %cr0, %eax
    andl $0x7ffeffff, %eax
    movl %eax, %cr0
    jmp pae

# Accesses 0x400000 as v_param says; the code at physical 0x5000 is `int $0x30`.
pg_access32:
    popl %ecx
    movl %ecx, v_far+8
    movl $9f+0xf0000, v_resume
    movl v_param, %eax
    movl $0x400000, %edx
    shrl $8, %eax
    andl $3, %eax
    movl pg_ops+0xf0000(,%eax,4), %ebx
    movl $KSTACK-4, %esp
    testl $0x80, v_param
    jz 1f
    pushl $0x23
    pushl $USTACK
    pushl $0x2
    pushl $0x1b
    pushl %ebx
    movl $0x23, %ecx
    movw %cx, %ds
    iretl
1:  jmp *%ebx
9:  jmp *v_far+8
pg_ops:
    .long pg_read+0xf0000, pg_write+0xf0000, pg_fetch+0xf0000, pg_rmw+0xf0000
pg_read:
    movl (%edx), %eax
    int $0x30
pg_write:
    movl $0x0b0f30cd, (%edx)
    int $0x30
pg_fetch:
    jmp *%edx
pg_rmw:
    addl $0, (%edx)
    int $0x30

# ---------------------------------------------------------------- PAE
# Pointers 0x13000, directory 0x14000: entry 0 identity 2 MiB, entry 2 (0x400000) table 0x15000.
pae:
    movl $0x14001, 0x13000
    movl $0, 0x13004
    movl $0x87, 0x14000
    movl $0, 0x14004
    movl $0x200083, 0x14008
    movl $0, 0x1400c
    movl $0x15000, v_pte
    movl $0x14010, v_pde
    movl $0x13000, %eax
    movl %eax, %cr3
    movl $0x20, %eax
    movl %eax, %cr4
    movl $0xc0000080, %ecx
    movl $0x800, %eax
    xorl %edx, %edx
    wrmsr
    movl $0, v_iter
pae_loop:
    movl v_iter, %eax
    # as above; 10 leaf XD; 11 NXE; 12 PS
    movl %eax, v_param
    movl $0x401, v_kind
    movl %eax, %ebx
    andl $7, %ebx
    orl $0x5000, %ebx
    movl %ebx, 0x15000
    movl $0, 0x15004
    movl $0, 0x14014
    testl $0x400, %eax
    jz 1f
    movl $0x80000000, 0x15004
1:  movl %eax, %ebx
    shrl $3, %ebx
    andl $7, %ebx
    testl $0x1000, %eax
    jz 1f
    orl $0x80, %ebx
    movl 0x15004, %ecx
    movl %ecx, 0x14014
    jmp 2f
1:  orl $0x15000, %ebx
2:  movl %ebx, 0x14010
    movl $0xc0000080, %ecx
    xorl %edx, %edx
    movl %eax, %ebx
    andl $0x800, %eax
    wrmsr
    movl %ebx, %eax
    movl %cr0, %ecx
    andl $~0x10000, %ecx
    orl $0x80000000, %ecx
    testl $0x40, %eax
    jz 1f
    orl $0x10000, %ecx
1:  movl %ecx, %cr0
    movl $0x13000, %ecx
    movl %ecx, %cr3
    call pg_access32
    addl $7, v_iter
    cmpl $0x2000, v_iter
    jb pae_loop
    # reserved bits
    movl $0x402, v_kind
    movl $0x800, %eax
    movl $0xc0000080, %ecx
    xorl %edx, %edx
    wrmsr
    movl $7, 0x14010
    movl $0x15007, 0x14010
    movl $0, 0x14014
    .irp high, 0x100000, 0x40000000, 0x80000000, 0x100
    movl $\high, v_param
    movl $0x5007, 0x15000
    movl $\high, 0x15004
    movl $0x13000, %ecx
    movl %ecx, %cr3
    movl $0, v_param
    call pg_access32
    .endr
    # a pointer with reserved bits
    movl $0x14003, 0x13000
    TRIAL 0x403, 0
    movl $0x13000, %ecx
    movl %ecx, %cr3
    ENDTRIAL
    movl $0x14001, 0x13000
    movl %cr0, %eax
    andl $0x7ffeffff, %eax
    movl %eax, %cr0
    jmp long

# ---------------------------------------------------------------- long mode
long:
    movl $0x17007, 0x16000
    movl $0, 0x16004
    movl $0x18007, 0x17000
    movl $0, 0x17004
    movl $0x87, 0x18000
    movl $0, 0x18004
    movl $0x200083, 0x18008
    movl $0, 0x1800c
    movl $0x19007, 0x18010
    movl $0, 0x18014
    movl $0x16000, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    movl $0x901, %eax
    xorl %edx, %edx
    wrmsr
    # the TSS of 64 bits
    movl $TSS, %edi
    movl $0x1a, %ecx
    xorl %eax, %eax
    rep stosl
    movl $STACK0, TSS+4
    movl $STACK1, TSS+12
    movl $0xf800, TSS+0x24
    movw $0x68, TSS+102
    movl %cr0, %eax
    orl $0x80010000, %eax
    movl %eax, %cr0
    ljmpl $0xf0, $start64+0xf0000

.code64
start64:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl $KSTACK, %esp
    xorl %ecx, %ecx
1:  movl %ecx, %eax
    shll $4, %eax
    movl %ecx, %edx
    shll $4, %edx
    addl $stubs64+0xf0000, %edx
    movw %dx, IDT(%rax)
    movw $0xf0, IDT+2(%rax)
    movw $0x8e00, IDT+4(%rax)
    shrl $16, %edx
    movl %edx, IDT+6(%rax)
    movl $0, IDT+10(%rax)
    movw $0, IDT+14(%rax)
    incl %ecx
    cmpl $0x40, %ecx
    jb 1b
    movw $0xee00, IDT+0x30*16+4
    movb $1, IDT+2*16+4
    lidt idtr64+0xf0000
    movq $0x19000, v_pte
    movq $0x18010, v_pde
    call restore64

.macro RUN64 kind, op
    movl $\kind, v_kind
    movl $\op+0xf0000, v_op
    call run0_64
    movl $\kind+0x100, v_kind
    call run3_64
.endm
    RUN64 0x801, o64_ljmp
    RUN64 0x802, o64_lcall
    RUN64 0x803, o64_lretq
    RUN64 0x804, o64_iretq
    RUN64 0x805, o64_iretq_ss
    RUN64 0x806, o64_lretq_ss
    RUN64 0x807, o64_ds
    RUN64 0x808, o64_ss
    RUN64 0x809, o64_lar
    RUN64 0x80a, o64_lsl
    RUN64 0x80b, o64_verr
    RUN64 0x80c, o64_verw
    RUN64 0x80d, o64_ltr
    RUN64 0x80e, o64_lldt
    RUN64 0x80f, o64_fs
    RUN64 0x810, o64_iretl
    RUN64 0x811, o64_lretl
    RUN64 0x812, o64_ljmpq
.macro GATE64 kind, attr
    movl $\attr, v_gate
    RUN64 \kind, o64_int31
.endm
    GATE64 0x820, 0xee00
    GATE64 0x821, 0xef00
    GATE64 0x822, 0xe600
    GATE64 0x823, 0x8e00
    GATE64 0x824, 0x6e00
    GATE64 0x825, 0xee01
    GATE64 0x826, 0xec00
    # compatibility mode as the caller
    movl $1, v_combo
    RUN64 0x901, o32_ljmp
    RUN64 0x902, o32_lcall
    RUN64 0x903, o32_lret
    RUN64 0x904, o32_iret
    RUN64 0x907, op_ds
    RUN64 0x908, op_ss
    movl $0, v_combo
    jmp misc64

run0_64:
    movl $0, v_param
1:  call restore64
    movq $2f+0xf0000, v_resume
    movl $KSTACK-8, %esp
    movl $0xdeadbeef, %edx
    movl v_param, %eax
    cmpl $0, v_combo
    je 3f
    pushq $0x08
    movl v_op, %ecx
    pushq %rcx
    lretq
3:  jmp *v_op
2:  addl $3, v_param
    cmpl $LASTSEL, v_param
    jb 1b
    movl $KSTACK-8, %esp
    ret
run3_64:
    movl $0, v_param
1:  call restore64
    movq $2f+0xf0000, v_resume
    movl $KSTACK-8, %esp
    pushq $0x23
    pushq $USTACK
    pushq $0x2
    pushq $0xfb
    cmpl $0, v_combo
    je 3f
    movl $0x1b, (%rsp)
3:  movl v_op, %ecx
    pushq %rcx
    movl $0xdeadbeef, %edx
    movl v_param, %eax
    movl $0x23, %ecx
    movl %ecx, %ds
    iretq
2:  addl $3, v_param
    cmpl $LASTSEL, v_param
    jb 1b
    movl $KSTACK-8, %esp
    ret

restore64:
    cld
    movl $gdt_template+0xf0000, %esi
    movl $GDT, %edi
    movl $LASTSEL/4-2, %ecx
    rep movsl
    movl $ldt_template+0xf0000, %esi
    movl $LDT, %edi
    movl $16, %ecx
    rep movsl
    movl $0x10, %eax
    movl %eax, %ss
    lgdt gdtr64+0xf0000
    movw $0x118, %ax
    ltr %ax
    movw $0x148, %ax
    lldt %ax
    ret

o64_ljmp:
    movl $LAND, v_far
    movw %ax, v_far+4
    ljmpl *v_far
o64_ljmpq:
    movq $LAND, v_far
    movw %ax, v_far+8
    rex.w ljmp *v_far
o64_lcall:
    movl $LAND, v_far
    movw %ax, v_far+4
    lcalll *v_far
o64_lretq:
    pushq $0x23
    pushq $USTACK
    pushq %rax
    pushq $LAND
    lretq
o64_lretl:
    subq $16, %rsp
    movl $LAND, (%rsp)
    movl %eax, 4(%rsp)
    movl $USTACK, 8(%rsp)
    movl $0x23, 12(%rsp)
    lretl
o64_lretq_ss:
    pushq %rax
    pushq $USTACK
    pushq $0x1b
    pushq $LAND
    lretq
o64_iretq:
    pushq $0x23
    pushq $USTACK
    pushq $0x0ad7
    pushq %rax
    pushq $LAND
    iretq
o64_iretl:
    subq $20, %rsp
    movl $LAND, (%rsp)
    movl %eax, 4(%rsp)
    movl $0x0ad7, 8(%rsp)
    movl $USTACK, 12(%rsp)
    movl $0x23, 16(%rsp)
    iretl
o64_iretq_ss:
    pushq %rax
    pushq $USTACK
    pushq $0x46
    movl %eax, %ecx
    andl $3, %ecx
    cmpl $3, %ecx
    movl $0xfb, %esi
    movl $0xf0, %edi
    cmovel %esi, %edi
    pushq %rdi
    pushq $LAND
    iretq
o64_ds:
    movl %eax, %ds
    int $0x30
o64_fs:
    movl %eax, %fs
    int $0x30
o64_ss:
    movl %eax, %ss
    nop
    int $0x30
o64_lar:
    larl %eax, %edx
    int $0x30
o64_lsl:
    lsll %eax, %edx
    int $0x30
o64_verr:
    verr %ax
    int $0x30
o64_verw:
    verw %ax
    int $0x30
o64_ltr:
    ltr %ax
    str %edx
    int $0x30
o64_lldt:
    lldt %ax
    sldt %edx
    int $0x30
o64_int31:
    shll $16, %eax
    movw $LAND, %ax
    movl %eax, IDT+0x31*16
    movl v_gate, %eax
    movl %eax, IDT+0x31*16+4
    movq $0, IDT+0x31*16+8
    int $0x31
    int $0x30
.code32
o32_ljmp:
    movl $LAND, v_far
    movw %ax, v_far+4
    ljmpl *v_far
o32_lcall:
    movl $LAND, v_far
    movw %ax, v_far+4
    lcalll *v_far
o32_lret:
    pushl $0x23
    pushl $USTACK
    pushl %eax
    pushl $LAND
    lretl
o32_iret:
    pushl $0x23
    pushl $USTACK
    pushl $0x0ad7
    pushl %eax
    pushl $LAND
    iretl
.code64

.balign 16
stubs64:
.set n, 0
.rept 0x40
    .balign 16
    .if n == 8 || (n >= 10 && n <= 14) || n == 17
        nop
        nop
    .else
        pushq $-1
    .endif
    pushq $n
    jmp common64
    .set n, n+1
.endr

common64:
    pushq %rax
    pushq %rbx
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %rbp
    movq %rsp, %rbp
    cld
    movq $0, RECORD+96
    movq $0, RECORD+104
    movq $0, RECORD+112
    movq $0, RECORD+120
    movw %ds, RECORD+96
    movw %es, RECORD+104
    movw %fs, RECORD+112
    movw %gs, RECORD+120
    xorl %eax, %eax
    movl $RECORD, %edi
    movl $12, %ecx
    rep stosq
    movl $RECORD+128, %edi
    movl $4, %ecx
    rep stosq
    movq v_kind, %rax
    movq %rax, RECORD
    movq v_param, %rax
    movq %rax, RECORD+8
    movq 56(%rbp), %rax
    movq %rax, RECORD+16
    movq 64(%rbp), %rax
    movq %rax, RECORD+24
    movq 72(%rbp), %rax
    movq %rax, RECORD+32
    movq 80(%rbp), %rax
    movq %rax, RECORD+40
    movq 88(%rbp), %rax
    movq %rax, RECORD+48
    movq 96(%rbp), %rax
    movq %rax, RECORD+56
    movq 104(%rbp), %rax
    movq %rax, RECORD+64
    movq 24(%rbp), %rax
    movq %rax, RECORD+80
    movq 48(%rbp), %rax
    movq %rax, RECORD+88
    cmpl $14, 56(%rbp)
    jne 1f
    movq %cr2, %rax
    movq %rax, RECORD+72
1:  movq v_pte, %rax
    movq (%rax), %rax
    movq %rax, RECORD+128
    movq v_pde, %rax
    movq (%rax), %rax
    movq %rax, RECORD+136
    movq %cr0, %rax
    movq %rax, RECORD+144
    cmpl $1, 56(%rbp)
    jne 1f
    movq %dr6, %rax
    movq %rax, RECORD+152
1:  movl $RECORD, %esi
    movl $40, %ecx
    movl v_out, %edi
    rep movsl
    movl %edi, v_out
    cmpl $1, 56(%rbp)
    jne 1f
    cmpl $0, v_step
    je 1f
    popq %rbp
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rbx
    popq %rax
    addq $16, %rsp
    iretq
1:  movl $0x10, %eax
    movl %eax, %ss
    movl $KSTACK-8, %esp
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %fs
    movl %eax, %gs
    pushq $2
    popfq
    pushq $0xf0
    pushq $1f+0xf0000
    lretq
1:  movl $KSTACK-8, %esp
    jmp *v_resume

.balign 8
gdtr64:
    .word LASTSEL-9
    .quad GDT
.balign 8
idtr64:
    .word 0x40*16-1
    .quad IDT

.macro TRIAL64 kind, ring
    movl $\kind, v_kind
    movl $\ring, v_param
    movq $910f+0xf0000, v_resume
    movl $KSTACK-8, %esp
    .if \ring == 3
    pushq $0x23
    pushq $USTACK
    pushq $0x2
    pushq $0xfb
    pushq $909f+0xf0000
    movl $0x23, %ecx
    movl %ecx, %ds
    iretq
    .endif
909:
.endm

misc64:
    call restore64
    .irp ring, 0, 3
    TRIAL64 0x850, \ring
    ud2
    ENDTRIAL
    TRIAL64 0x851, \ring
    int3
    ENDTRIAL
    TRIAL64 0x852, \ring
    int $0x50
    ENDTRIAL
    TRIAL64 0x853, \ring
    movabsq $0x800000000000, %rdx
    movq (%rdx), %rax
    ENDTRIAL
    TRIAL64 0x854, \ring
    movabsq $0x800000000000, %rdx
    jmp *%rdx
    ENDTRIAL
    TRIAL64 0x856, \ring
    movabsq $0x7ffffffffffc, %rdx
    movq (%rdx), %rax
    ENDTRIAL
    TRIAL64 0x857, \ring
    syscall
    ENDTRIAL
    TRIAL64 0x858, \ring
    sysretq
    ENDTRIAL
    TRIAL64 0x859, \ring
    swapgs
    ENDTRIAL
    TRIAL64 0x85a, \ring
    movq %cr8, %rdx
    ENDTRIAL
    TRIAL64 0x85b, \ring
    movl $0x10, %eax
    movq %rax, %cr8
    ENDTRIAL
    TRIAL64 0x860, \ring
    rdfsbase %rdx
    ENDTRIAL
    TRIAL64 0x861, \ring
    pushq $0x7ffed7
    popfq
    ENDTRIAL
    TRIAL64 0x862, \ring
    inb $0x10, %al
    movl $0, %eax
    ENDTRIAL
    TRIAL64 0x863, \ring
    movl $0x14, %edx
    inb %dx, %al
    movl $0, %eax
    ENDTRIAL
    TRIAL64 0x864, \ring
    .byte 0x06
    ENDTRIAL
    TRIAL64 0x865, \ring
    stac
    ENDTRIAL
    .endr
    # syscall and sysret
    movl $0xc0000081, %ecx
    xorl %eax, %eax
    movl $0x001300f0, %edx
    wrmsr
    movl $0xc0000082, %ecx
    movl $LAND, %eax
    xorl %edx, %edx
    wrmsr
    movl $0xc0000084, %ecx
    movl $0x500, %eax
    wrmsr
    TRIAL64 0x870, 3
    pushq $0x4cd7
    popfq
    syscall
    ENDTRIAL
    TRIAL64 0x871, 0
    movl $0x10ad7, %r11d
    movl $LAND, %ecx
    sysretq
    ENDTRIAL
    TRIAL64 0x872, 0
    movl $0xad7, %r11d
    movl $LAND, %ecx
    sysretl
    ENDTRIAL
    TRIAL64 0x873, 0
    movabsq $0x800000000000, %rcx
    sysretq
    ENDTRIAL
    TRIAL64 0x874, 0
    movl $0xc0000101, %ecx
    movl $0x1234, %eax
    movl $0xffff8000, %edx
    wrmsr
    swapgs
    rdmsr
    movl $0xc0000102, %ecx
    rdmsr
    ENDTRIAL
    TRIAL64 0x875, 3
    sysenter
    ENDTRIAL
    TRIAL64 0x876, 0
    movl $LAND, %edx
    movl $USTACK-16, %ecx
    sysexitl
    ENDTRIAL
    TRIAL64 0x877, 0
    movl $LAND, %edx
    movl $USTACK-16, %ecx
    sysexitq
    ENDTRIAL
    # single steps in 64-bit mode
    movl $1, v_step
    TRIAL64 0x880, 3
    pushq $0x102
    popfq
    nop
    pushfq
    popq %rdx
    syscall
    ENDTRIAL
    movl $0, v_step
    # the interrupt stack table
    movb $1, IDT+6*16+4
    TRIAL64 0x881, 0
    ud2
    ENDTRIAL
    TRIAL64 0x882, 3
    ud2
    ENDTRIAL
    # a table entry that isn't canonical
    movl $0x8000, TSS+0x28
    TRIAL64 0x883, 0
    ud2
    ENDTRIAL
    movl $0, TSS+0x28
    movb $0, IDT+6*16+4

    # paging in long mode: bits 0-2 leaf P RW US; 3-5 directory; 6 WP; 7 ring 3; 8-9 access; 10 XD; 11 SMEP; 12 SMAP;
    # 13 AC; 14 reserved bit
    movl $0, v_iter
lm_loop:
    movl v_iter, %eax
    movq $0x840, v_kind
    movq %rax, v_param
    movl %eax, %ebx
    andl $7, %ebx
    orl $0x5000, %ebx
    testl $0x400, %eax
    jz 1f
    btsq $63, %rbx
1:  testl $0x4000, %eax
    jz 1f
    btsq $51, %rbx
1:  movq %rbx, 0x19000
    movl %eax, %ebx
    shrl $3, %ebx
    andl $7, %ebx
    orl $0x19000, %ebx
    movq %rbx, 0x18010
    movl $0x20, %ecx
    testl $0x800, %eax
    jz 1f
    btsl $20, %ecx
1:  testl $0x1000, %eax
    jz 1f
    btsl $21, %ecx
1:  movl %ecx, %ecx
    # a user's page holds this code too: SMEP and SMAP need a supervisor's mapping
    movq $0x83, 0x18000
    movl %eax, %ebx
    testl $0x80, %eax
    jz 1f
    movq $0x87, 0x18000
1:  movq %cr0, %rdx
    andl $~0x10000, %edx
    testl $0x40, %eax
    jz 1f
    orl $0x10000, %edx
1:  movq %rdx, %cr0
    movq %cr3, %rdx
    movq %rdx, %cr3
    testl $0x80, %eax
    jz 2f
    andl $0x20, %ecx
2:  movq %rcx, %cr4
    movl %ebx, %eax
    movq $9f+0xf0000, v_resume
    movl $KSTACK-8, %esp
    movl %eax, %ebx
    shrl $8, %ebx
    andl $3, %ebx
    movl ops64+0xf0000(,%rbx,4), %ebx
    movl $0x400000, %edx
    movl $2, %ecx
    testl $0x2000, %eax
    jz 1f
    orl $0x40000, %ecx
1:  testl $0x80, %eax
    jz 1f
    pushq $0x23
    pushq $USTACK
    pushq %rcx
    pushq $0xfb
    pushq %rbx
    movl $0x23, %ecx
    movl %ecx, %ds
    iretq
1:  pushq %rcx
    popfq
    jmp *%rbx
9:  movl $0x20, %ecx
    movq %rcx, %cr4
    addl $37, v_iter
    cmpl $0x8000, v_iter
    jb lm_loop
    movq $0x87, 0x18000
    # the end
    movw $0xf4, %dx
    movb $0x10, %al
    outb %al, %dx
1:  cli
    hlt
    jmp 1b
ops64:
    .long p64_read+0xf0000, p64_write+0xf0000, p64_fetch+0xf0000, p64_rmw+0xf0000
p64_read:
    movl (%rdx), %eax
    int $0x30
p64_write:
    movl $0x0b0f30cd, (%rdx)
    int $0x30
p64_fetch:
    jmp *%rdx
p64_rmw:
    addl $0, (%rdx)
    int $0x30
