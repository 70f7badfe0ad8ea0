/* This program forks a child that leaks. The parent makes the same blocks before and after the fork, and frees them. */
#include "../run.h"

#include <sys/wait.h>

enum { RECORD = 500 };

static void *volatile record;

static __attribute__((noinline)) void *new_record(void) { return memset(malloc(RECORD), 'r', RECORD); /* LEAK */ }

static void serve(int leaks)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 5; i++) {
            record = new_record();
            if (i != 2 || !leaks)
                free(record);
        }
        work(20, 600);
        end_round();
    }
}

int main(void)
{
    serve(0);
    pid_t child = fork();
    if (child == 0) {
        serve(1);
        return 0;
    }
    serve(0);
    int status = 1;
    waitpid(child, &status, 0);
    return status;
}
