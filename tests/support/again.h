/* again: starts the program of a test again. Under an emulator the system cannot execute the program by itself, so the command begins with the
 * emulator. */
#ifndef TEST_SUPPORT_AGAIN_H
#define TEST_SUPPORT_AGAIN_H

#include <stddef.h>

struct again {
    char *words[16], path[4096];
};

/* Returns the command that runs this program with the given arguments, the last of which is NULL. The first word is a path. The words lie
 * in `room`. */
char **again(struct again *room, ...) __attribute__((sentinel));

/* Runs the command `words` in a child and waits for it. Stores what it writes to stderr in `said`, as a text of less than `room` bytes. Sets the
 * environment variable `option` to 1 in the child, unless it is NULL. Returns the wait status. */
int again_said(char **words, const char *option, char *said, size_t room);

#endif
