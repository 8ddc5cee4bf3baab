// Memory: loads that miss every cache and TLB, block copies, and a file of compressible text.
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Follows one cycle through 2^23 nodes of 16 bytes (128 MiB). The successor is a full-period linear
// congruence, so the order is scattered and every node is on the cycle.
int chase(long steps) {
    struct node {
        uint64_t next, value;
    };
    const size_t count = 1u << 23;
    struct node *nodes = malloc(count * sizeof *nodes);
    if (!nodes) return 1;
    for (size_t i = 0; i < count; i++) {
        nodes[i].next = (i * 2862933555777941757ull + 3037000493ull) & (count - 1);
        nodes[i].value = i;
    }
    uint64_t at = 0, sum = 0;
    for (long i = 0; i < steps; i++) {
        sum += nodes[at].value;
        at = nodes[at].next;
    }
    printf("chase %llu\n", (unsigned long long)sum);
    free(nodes);
    return 0;
}

// memcpy of 48 MiB, then a plain loop of loads and stores over the same bytes.
int copy(long rounds) {
    const size_t size = 48u << 20;
    char *from = malloc(size), *to = malloc(size);
    if (!from || !to) return 1;
    memset(from, 1, size);
    memset(to, 2, size);
    for (long i = 0; i < rounds; i++) {
        memcpy(to, from, size);
        from[i]++;
    }
    volatile uint64_t *words = (uint64_t *)from;
    uint64_t sum = 0;
    for (long r = 0; r < rounds / 2; r++)
        for (size_t i = 0; i < size / 8; i++) {
            sum += words[i];
            words[i] = sum;
        }
    printf("memcpy %llu %d\n", (unsigned long long)sum, to[5]);
    free(from);
    free(to);
    return 0;
}

// Text of 4096 made-up words, small numbers more often than large, for hashing and compressing.
int generate(const char *path, long megabytes) {
    FILE *out = fopen(path, "w");
    if (!out) return 1;
    static char words[4096][12];
    for (int i = 0; i < 4096; i++) {
        int length = 2 + next_number() % 9;
        for (int k = 0; k < length; k++) words[i][k] = 'a' + next_number() % 26;
        words[i][length] = ' ';
    }
    for (long written = 0; written < megabytes << 20;) {
        uint64_t number = next_number();
        const char *word = words[(number & 4095) & ((number >> 12) & 4095)];
        written += strlen(word);
        fputs(word, out);
    }
    return fclose(out) != 0;
}
