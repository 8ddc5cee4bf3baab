// Workloads of the guest program `bench`. Each takes a count that sets how long it runs, does a
// fixed amount of work from fixed seeds, prints a result that must be the same everywhere, and
// returns the exit status.
#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>

int chase(long steps);
int copy(long rounds);
int generate(const char *path, long megabytes);

int nbody(long steps);
int matmul(long rounds);
int lu(long rounds);

int getppid_calls(long count);
int pipe_pingpong(long count);
int forkexec(long count, char *program);

int integer(long rounds);

// Runs a program and waits for it; reports on the console what did not end with 0.
void spawn(char **arguments);

// xorshift64: the one source of numbers, so that every run does the same.
uint64_t next_number(void);

#endif
