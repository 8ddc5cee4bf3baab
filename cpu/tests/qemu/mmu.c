// Asks a machine what each page-table entry allows: every mode, level, low eight bits, privilege, SUM, MXR,
// ADUE and kind of access. Prints per mode and level the FNV-1a hash of the answers, and with -DDUMP the answers.
typedef unsigned long u64;
typedef unsigned char u8;
#define UART ((volatile u8 *)0x10000000)
#define P 0x80100000ul
#define TABLES 0x80200000ul
static void put(char c) { while (!(UART[5] & 0x20)); *UART = c; }
static void hex(u64 v, int n) { while (n--) put("0123456789abcdef"[v >> (4 * n) & 15]); }
#define csrw(r, v) asm volatile("csrw " r ", %0" ::"r"(v) : "memory")
#define csrc(r, v) asm volatile("csrc " r ", %0" ::"r"(v) : "memory")
#define csrs(r, v) asm volatile("csrs " r ", %0" ::"r"(v) : "memory")
extern u64 try_load(u64 addr, u64 mstatus), try_store(u64 addr, u64 mstatus), try_fetch(u64 addr, u64 mstatus);
int main(void) {
    *(volatile unsigned *)P = 0x73; // ecall
    csrw("pmpaddr0", ~0ul);
    csrw("pmpcfg0", 0x1ful);
    for (int mode = 8; mode <= 10; mode++)
        for (int level = 0; level < mode - 5; level++) {
            int levels = mode - 5;
            u64 hash = 0xcbf29ce484222325ul;
            volatile u64 *entry = 0;
            for (int l = levels - 1; l >= level; l--) {
                volatile u64 *t = (u64 *)(TABLES + 0x1000 * (levels - 1 - l));
                for (int i = 0; i < 512; i++) t[i] = 0;
                entry = &t[P >> (12 + 9 * l) & 511];
                *entry = (TABLES + 0x1000 * (levels - l)) >> 2 | 1;
            }
            csrw("satp", (u64)mode << 60 | TABLES >> 12);
            for (u64 bits = 0; bits < 256; bits++) {
                if (level && (bits & 1) && !(bits & 14)) continue;
                for (int adue = 0; adue < 2; adue++) {
                    csrw("menvcfg", (u64)adue << 61);
                    for (int privilege = 0; privilege < 2; privilege++)
                        for (int flags = 0; flags < 4; flags++)
                            for (int access = 0; access < 3; access++) {
                                u64 status = (u64)privilege << 11 | (u64)flags << 18;
                                u64 base = P >> (12 + 9 * level) << (12 + 9 * level);
                                *entry = base >> 2 | bits;
                                asm volatile("sfence.vma" ::: "memory");
                                u64 cause = access == 0   ? try_fetch(P, status)
                                            : access == 1 ? try_load(P, status | 1 << 17)
                                                          : try_store(P, status | 1 << 17);
                                u8 answer = cause << 2 | (*entry >> 6 & 3);
                                hash = (hash ^ answer) * 0x100000001b3ul;
#ifdef DUMP
                                hex(answer, 2);
#endif
                            }
                }
            }
            put('#');
            hex(mode, 1);
            hex(level, 1);
            put(' ');
            hex(hash, 16);
            put('\n');
        }
    *(volatile unsigned *)0x100000 = 0x5555;
    for (;;);
}
