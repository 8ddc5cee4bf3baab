// `bench`: the workloads that the whole-machine tests and the side-by-side measurements run.
//
//   bench run NAME command...   the command between the marks "@@B NAME ns" and "@@E NAME ns"
//   bench mark PLACE            one mark "@@M PLACE ns"
//   bench WORKLOAD [arguments]  a workload itself
//
// The times in the marks are the guest's own; whoever compares emulators stamps the lines with the
// host's.
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void mark(char kind, const char *name) {
    printf("@@%c %s %llu\n", kind, name, now());
    fflush(stdout);
}

void spawn(char **arguments) {
    pid_t child = fork();
    if (child == 0) {
        execvp(arguments[0], arguments);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        printf("!! %s: status %d\n", arguments[0], status);
}

uint64_t next_number(void) {
    static uint64_t x = 88172645463325252ull;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}

int main(int count, char **words) {
    setvbuf(stdout, 0, _IOLBF, 0);
    if (count < 3) {
        fprintf(stderr, "usage: bench run NAME command... | mark PLACE | WORKLOAD arguments\n");
        return 2;
    }
    const char *what = words[1];
    long n = atol(words[2]);
    if (!strcmp(what, "run") && count > 3) {
        mark('B', words[2]);
        spawn(words + 3);
        mark('E', words[2]);
        return 0;
    }
    if (!strcmp(what, "mark")) {
        mark('M', words[2]);
        return 0;
    }
    if (!strcmp(what, "chase")) return chase(n);
    if (!strcmp(what, "memcpy")) return copy(n);
    if (!strcmp(what, "nbody")) return nbody(n);
    if (!strcmp(what, "matmul")) return matmul(n);
    if (!strcmp(what, "lu")) return lu(n);
    if (!strcmp(what, "getppid")) return getppid_calls(n);
    if (!strcmp(what, "pipe")) return pipe_pingpong(n);
    if (!strcmp(what, "integer")) return integer(n);
    if (!strcmp(what, "forkexec") && count > 3) return forkexec(n, words[3]);
    if (!strcmp(what, "gen") && count > 3) return generate(words[2], atol(words[3]));
    fprintf(stderr, "bench: no workload %s\n", what);
    return 2;
}
