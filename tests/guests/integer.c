// An integer workload of the kind that small-core benchmarks run: linked lists (search, reverse,
// merge sort), 16-bit matrices, a state machine over text, and a CRC over every result. The code is
// our own; only the mix is the usual one. The final CRC is a function of the number of rounds alone.
#include "bench.h"

#include <stdio.h>

static uint16_t crc16(uint16_t crc, uint32_t value, int bits) {
    for (int i = 0; i < bits; i++) {
        uint16_t low = (crc ^ value) & 1;
        crc >>= 1;
        value >>= 1;
        if (low) crc ^= 0xa001;
    }
    return crc;
}

// ---- lists ----------------------------------------------------------------------------------------

#define ITEMS 64

struct item {
    struct item *next;
    int16_t key, place;
};

static struct item pool[ITEMS];

static struct item *build(uint16_t seed) {
    struct item *head = 0;
    for (int i = ITEMS - 1; i >= 0; i--) {
        seed = seed * 25173u + 13849u;
        pool[i] = (struct item){head, (int16_t)(seed >> 4 & 0x1ff), (int16_t)i};
        head = &pool[i];
    }
    return head;
}

static struct item *reverse(struct item *list) {
    struct item *done = 0;
    while (list) {
        struct item *next = list->next;
        list->next = done;
        done = list;
        list = next;
    }
    return done;
}

static struct item *find(struct item *list, int16_t key) {
    while (list && list->key != key) list = list->next;
    return list;
}

typedef int order(const struct item *, const struct item *);

static int by_key(const struct item *a, const struct item *b) {
    return a->key != b->key ? a->key - b->key : a->place - b->place;
}

static int by_place(const struct item *a, const struct item *b) { return a->place - b->place; }

// Bottom-up merge sort: runs of 1, 2, 4, ... are merged until one run is left.
static struct item *sort(struct item *list, order *compare) {
    for (int width = 1;; width *= 2) {
        struct item *rest = list, *tail = 0;
        int merges = 0;
        list = 0;
        while (rest) {
            struct item *left = rest;
            int lefts = 0, rights = width;
            while (lefts < width && rest) {
                lefts++;
                rest = rest->next;
            }
            merges++;
            while (lefts > 0 || (rights > 0 && rest)) {
                struct item *taken;
                if (lefts == 0 || (rights > 0 && rest && compare(rest, left) < 0)) {
                    taken = rest;
                    rest = rest->next;
                    rights--;
                } else {
                    taken = left;
                    left = left->next;
                    lefts--;
                }
                if (tail)
                    tail->next = taken;
                else
                    list = taken;
                tail = taken;
            }
        }
        if (tail) tail->next = 0;
        if (merges <= 1) return list;
    }
}

static uint16_t lists(uint16_t seed, uint16_t crc) {
    struct item *list = build(seed);
    for (int i = 0; i < 24; i++) {
        struct item *hit = find(list, (int16_t)((seed * 7 + i * 37) & 0x1ff));
        crc = crc16(crc, hit ? (uint16_t)hit->place : 0xffff, 16);
        list = reverse(list);
    }
    list = sort(list, by_key);
    for (struct item *i = list; i; i = i->next) crc = crc16(crc, (uint16_t)i->key, 8);
    list = sort(list, by_place);
    return crc16(crc, (uint16_t)list->key, 16);
}

// ---- matrices ---------------------------------------------------------------------------------------

#define SIDE 12

static uint16_t matrices(uint16_t seed, uint16_t crc) {
    static int16_t a[SIDE][SIDE], b[SIDE][SIDE];
    static int32_t c[SIDE][SIDE];
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            seed = seed * 25173u + 13849u;
            a[i][j] = (int16_t)(seed >> 3 & 0xff) - 128;
            b[i][j] = (int16_t)(seed >> 5 & 0x7f) + i - j;
        }
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            int32_t sum = 0;
            for (int k = 0; k < SIDE; k++) sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
    int32_t total = 0, last = 0;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            int32_t field = (c[i][j] >> 2 & 0x1f) * (c[i][j] >> 7 & 0x3f); // bit fields multiplied
            total += field > last ? 10 : field & 3;
            last = field;
            a[i][j] += b[j][i];
        }
    crc = crc16(crc, (uint32_t)total, 16);
    return crc16(crc, (uint16_t)a[SIDE - 1][SIDE / 2], 16);
}

// ---- state machine -------------------------------------------------------------------------------

enum state { START, SIGN, WHOLE, POINT, FRACTION, EXPONENT, EXPONENT_SIGN, SCIENTIFIC, INVALID, STATES };

// One step of a scanner for decimal numbers with exponents.
static enum state scan(enum state state, char c) {
    int digit = c >= '0' && c <= '9', sign = c == '+' || c == '-';
    switch (state) {
    case START: return digit ? WHOLE : sign ? SIGN : c == '.' ? POINT : INVALID;
    case SIGN: return digit ? WHOLE : c == '.' ? POINT : INVALID;
    case WHOLE: return digit ? WHOLE : c == '.' ? FRACTION : c == 'e' ? EXPONENT : INVALID;
    case POINT: return digit ? FRACTION : INVALID;
    case FRACTION: return digit ? FRACTION : c == 'e' ? EXPONENT : INVALID;
    case EXPONENT: return sign ? EXPONENT_SIGN : digit ? SCIENTIFIC : INVALID;
    case EXPONENT_SIGN: return digit ? SCIENTIFIC : INVALID;
    case SCIENTIFIC: return digit ? SCIENTIFIC : INVALID;
    default: return INVALID;
    }
}

static uint16_t states(uint16_t seed, uint16_t crc) {
    static const char *const samples[] = {"5012",    "-874",   "+122",   "+0.64400", "-110.700", ".5",
                                          "1.9e+5",  "-.7e-9", "6.02e23", "T0.3e-1F", "-T.T++Tq", "1T3.4e4z",
                                          "34.0e-T^", "7e",     "+",      "12e+x"};
    char text[256];
    int length = 0;
    for (;;) {
        seed = seed * 25173u + 13849u;
        const char *sample = samples[seed >> 5 & 15];
        if (length + 10 > (int)sizeof text) break;
        while (*sample) text[length++] = *sample++;
        text[length++] = ',';
    }
    uint32_t finals[STATES] = {0}, steps[STATES] = {0};
    for (int pass = 0; pass < 2; pass++) {
        enum state state = START;
        for (int i = 0; i < length; i++) {
            if (text[i] == ',') {
                finals[state]++;
                state = START;
                continue;
            }
            state = scan(state, text[i]);
            steps[state]++;
        }
        // The second pass reads a damaged text.
        for (int i = seed & 7; i < length; i += 11)
            if (text[i] != ',') text[i] ^= 1;
    }
    for (int i = 0; i < STATES; i++) {
        crc = crc16(crc, finals[i], 8);
        crc = crc16(crc, steps[i], 16);
    }
    return crc;
}

int integer(long rounds) {
    uint16_t crc = 0xffff;
    for (long i = 0; i < rounds; i++) {
        crc = lists((uint16_t)(i * 31 + 5), crc);
        crc = matrices((uint16_t)(i * 17 + crc), crc);
        crc = states((uint16_t)(i + 3), crc);
    }
    printf("coremark %04x\n", crc);
    return 0;
}
