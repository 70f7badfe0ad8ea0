#include "rlimit.h"

#include "support/check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int rlimit_run_self(char *const arguments[], size_t limit_mib, char *errors, size_t room)
{
    int pipe_ends[2] = {-1, -1};
    CHECK(!errors || pipe(pipe_ends) == 0, "pipe: errno %d", errno);
    pid_t child = fork();
    CHECK(child >= 0, "fork: errno %d", errno);
    if (child == 0) {
        struct rlimit limit = {limit_mib << 20, limit_mib << 20};
        if (errors) {
            dup2(pipe_ends[1], STDERR_FILENO);
            close(pipe_ends[0]);
            close(pipe_ends[1]);
        }
        setrlimit(RLIMIT_AS, &limit);
        execv("/proc/self/exe", arguments);
        _exit(126);
    }
    if (errors) {
        size_t length = 0;
        ssize_t got;
        close(pipe_ends[1]);
        while (length < room - 1 && (got = read(pipe_ends[0], errors + length, room - 1 - length)) > 0) {
            length += (size_t)got;
        }
        errors[length] = '\0';
        close(pipe_ends[0]);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child, "waitpid: errno %d", errno);
    return status;
}

bool chain_fill(struct chain *chain, size_t size)
{
    for (;;) {
        errno = 0;
        void **block = malloc(size);
        if (!block) {
            return errno == ENOMEM;
        }
        *block = chain->head;
        chain->head = block;
        chain->count++;
    }
}

void chain_free(struct chain *chain)
{
    while (chain->head) {
        void *next = *(void **)chain->head;
        free(chain->head);
        chain->head = next;
    }
    chain->count = 0;
}
