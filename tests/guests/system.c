// The kernel's ways in and out: a system call that does nothing, context switches between two
// processes over pipes, and process creation.
#define _GNU_SOURCE
#include "bench.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int getppid_calls(long count) {
    long sum = 0;
    for (long i = 0; i < count; i++) sum += syscall(SYS_getppid) > 0;
    printf("getppid %ld\n", sum);
    return 0;
}

int pipe_pingpong(long count) {
    int there[2], back[2];
    if (pipe(there) || pipe(back)) return 1;
    char byte = 1;
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        while (read(there[0], &byte, 1) == 1) {
            if (write(back[1], &byte, 1) != 1) _exit(1);
            if (byte == 9) break;
        }
        _exit(0);
    }
    for (long i = 0; i < count; i++) {
        byte = i == count - 1 ? 9 : 1; // 9 ends the other side
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
    }
    waitpid(child, 0, 0);
    printf("pipe %ld\n", count);
    return 0;
}

int forkexec(long count, char *program) {
    char *arguments[] = {program, "true", 0};
    for (long i = 0; i < count; i++) spawn(arguments);
    printf("forkexec %ld\n", count);
    return 0;
}
