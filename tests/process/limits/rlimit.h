/* rlimit: a program runs itself again under a limit, so that the limit holds at its start, not only in main. */
#ifndef TEST_LIMITS_RLIMIT_H
#define TEST_LIMITS_RLIMIT_H

#include <stdbool.h>
#include <stddef.h>

/* Starts /proc/self/exe with these arguments under RLIMIT_AS of so many MiB and waits for it.  Where `errors` is not
 * NULL, what it writes to stderr goes there, ended by a NUL, and not to the terminal.  Returns its wait status. */
int rlimit_run_self(char *const arguments[], size_t limit_mib, char *errors, size_t room);

/* A chain of blocks, each linked by its first word: the test needs no memory of its own. */
struct chain {
    void *head;
    size_t count;
};

/* Allocates until malloc says NULL; false if errno was not ENOMEM then. */
bool chain_fill(struct chain *chain, size_t size);
void chain_free(struct chain *chain);

#endif
