# A firmware of 128 KiB that tries what the chipset does to a processor's accesses and interrupts: A20, the ROM shadow, FERR# and
# port 0xf0, and the local APIC's place. What comes of each trial is a word of the list at 0x8000. Real mode all along.
#
# Assembled by tests/whole/chipset.rs.

.set LIST,   0x8000
.set COUNT,  0x7000
.set FLAG,   0x7002
.set HELD,   0x7004
.set CW,     0x7006

.text
.code16

# The ROM's first half, at 0xe0000.
    .word 0x5152
    .org 0x100
    movw $0x11, %ax
    lret

    .org 0x10000
start:
    cli
    cld
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %ss
    movw $0x6000, %sp
    movw $LIST, %di
    movw %ax, COUNT
    movw %ax, FLAG

.macro TELL what
    movw \what, %ax
    call tell
.endm

# ---- A20: 0x100600 is es:0x610 -------------------------------------------------------------------
    movw $0xffff, %ax
    movw %ax, %es
    movw $0x1111, 0x600
    movw $0x2222, %es:0x610
    TELL 0x600
    # mov $1, %ax; lret   and   mov $2, %ax; lret
    movl $0xcb0001b8, %es:0x710
    movl $0xcb0002b8, 0x700
    movw $3, %bp
1:  lcall $0xffff, $0x710
    call tell
    # port 92 closes the gate
    inb $0x92, %al
    andb $0xfc, %al
    outb %al, $0x92
    TELL %es:0x610
    lcall $0xffff, $0x710
    call tell
    movw $0x3333, %es:0x610
    TELL 0x600
    # the keyboard controller opens it
    movb $0xd1, %al
    outb %al, $0x64
    movb $0xdf, %al
    outb %al, $0x60
    TELL %es:0x610
    lcall $0xffff, $0x710
    call tell
    # and closes it, and port 92 opens it
    movb $0xdd, %al
    outb %al, $0x64
    TELL %es:0x610
    inb $0x92, %al
    andb $0xfe, %al
    orb $2, %al
    outb %al, $0x92
    TELL %es:0x610
    movw $0x1111, 0x600
    decw %bp
    jnz 1b

# ---- the ROM shadow: PAM5 is 0xe0000 to 0xe7fff ----------------------------------------------------
    movw $0xe000, %ax
    movw %ax, %es
    movw $2, %bp
1:  TELL %es:0
    movw $0xaaaa, %es:0
    TELL %es:0
    lcall $0xe000, $0x100
    call tell
    movb $3, %al
    call pam5
    movw $0xbbbb, %es:0
    TELL %es:0
    movl $0xcb0022b8, %es:0x100
    lcall $0xe000, $0x100
    call tell
    movb $1, %al
    call pam5
    TELL %es:0
    movw $0xcccc, %es:0
    TELL %es:0
    lcall $0xe000, $0x100
    call tell
    movb $0, %al
    call pam5
    TELL %es:0
    movw $0xdddd, %es:0
    lcall $0xe000, $0x100
    call tell
    movb $3, %al
    call pam5
    TELL %es:0
    movb $0, %al
    call pam5
    decw %bp
    jnz 1b
    # what the other half of the register says
    movb $0x30, %al
    call pam5
    TELL %es:0
    movw $0x1234, %es:0x4000
    TELL %es:0x4000

# ---- FERR#: vector 0x75 is interrupt 13 -----------------------------------------------------------
    movw $handler-start, 0x75*4
    movw %cs, 0x75*4+2
    movb $0x11, %al
    outb %al, $0x20
    outb %al, $0xa0
    movb $0x08, %al
    outb %al, $0x21
    movb $0x70, %al
    outb %al, $0xa1
    movb $4, %al
    outb %al, $0x21
    movb $2, %al
    outb %al, $0xa1
    movb $1, %al
    outb %al, $0x21
    outb %al, $0xa1
    movb $0xfb, %al
    outb %al, $0x21
    movb $0xdf, %al
    outb %al, $0xa1
    sti
    movw $0x37b, CW
    movw $3, %bp
1:  fninit
    fldcw CW
    fld1
    fldz
    fdivrp
    TELL COUNT
    fwait
    call settle
    TELL COUNT
    # ignored now
    fwait
    fld1
    call settle
    TELL COUNT
    fnstsw %ax
    andw $0x84, %ax
    call tell
    fnclex
    fwait
    fnstsw %ax
    andw $0x84, %ax
    call tell
    decw %bp
    jnz 1b
    cli

# ---- what QEMU does otherwise: writes to RAM beneath a ROM that is read ---------------------------
    movw $0xffff, (%di)
    addw $2, %di
    movw $0xe000, %ax
    movw %ax, %es
    movb $2, %al
    call pam5
    movw $0xeeee, %es:0
    TELL %es:0
    lcall $0xe000, $0x100
    call tell
    movb $3, %al
    call pam5
    TELL %es:0

# ---- the local APIC at 0x50000 --------------------------------------------------------------------
    movw $0x5000, %ax
    movw %ax, %es
    movw $0x5678, %es:0x30
    movw $0x9abc, %es:0x80
    movl $0x1b, %ecx
    rdmsr
    movl %eax, %ebx
    movw $2, %bp
1:  TELL %es:0x30
    movl $0x50900, %eax
    xorl %edx, %edx
    wrmsr
    TELL %es:0x30
    movl $0x20, %es:0x80
    TELL %es:0x80
    # to where the page is RAM again
    movl %ebx, %eax
    wrmsr
    TELL %es:0x30
    TELL %es:0x80
    decw %bp
    jnz 1b
    # another processor finds RAM in that page
    movw $0x1000, %ax
    movw %ax, %fs
    xorw %si, %si
2:  movb %cs:other-start(%si), %al
    movb %al, %fs:(%si)
    incw %si
    cmpw $other_end-other, %si
    jb 2b
    movl $0x50900, %eax
    xorl %edx, %edx
    wrmsr
    movl $0x01000000, %es:0x310
    movl $0x4500, %es:0x300
    call settle
    movl $0x01000000, %es:0x310
    movl $0x4610, %es:0x300
    movw $4, %bp
2:  call settle
    decw %bp
    jnz 2b
    TELL FLAG
    TELL HELD
    TELL %es:0x30
    movl $0x1b, %ecx
    movl %ebx, %eax
    xorl %edx, %edx
    wrmsr
    TELL %es:0x30
    # the end
    movw $0xf4, %dx
    movb $0x10, %al
    outb %al, %dx
3:  hlt
    jmp 3b

tell:
    movw %ax, (%di)
    addw $2, %di
    ret

pam5:
    pushw %ax
    movl $0x8000005c, %eax
    movw $0xcf8, %dx
    outl %eax, %dx
    popw %ax
    movw $0xcfe, %dx
    outb %al, %dx
    ret

settle:
    movw $20000, %cx
1:  loop 1b
    ret

handler:
    incw COUNT
    pushw %ax
    outb %al, $0xf0
    movb $0x20, %al
    outb %al, $0xa0
    outb %al, $0x20
    popw %ax
    iret

# Of the other processor, at 0x10000.
other:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    movw $0x5000, %ax
    movw %ax, %es
    movw %es:0x30, %ax
    movw %ax, HELD
    movw $1, FLAG
1:  hlt
    jmp 1b
other_end:

    .org 0x1fff0
    ljmp $0xf000, $0
    .org 0x20000
