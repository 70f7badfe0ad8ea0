/* Declares helpers of tests that run their own program again under a limit. The limit then holds from the start of the process, not only in main. */
#ifndef TEST_LIMITS_RLIMIT_H
#define TEST_LIMITS_RLIMIT_H

#include <stdbool.h>
#include <stddef.h>

/* Starts /proc/self/exe with these arguments under RLIMIT_AS of `limit_mib`, and waits for it. If `errors` is not NULL, the function stores
 * there what the program writes to stderr, and ends it with a NUL. Returns the wait status. */
int rlimit_run_self(char *const arguments[], size_t limit_mib, char *errors, size_t room);

/* A chain of blocks. The first word of each block links to the next, so that the test needs no memory of its own. */
struct chain {
    void *head;
    size_t count;
};

/* Allocates until malloc returns NULL. Returns false if errno was not ENOMEM then. */
bool chain_fill(struct chain *chain, size_t size);
void chain_free(struct chain *chain);

#endif
