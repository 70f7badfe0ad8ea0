/* again: starts the program of a test again. The system does not execute a program of another processor: an emulator's words come first. */
#ifndef TEST_SUPPORT_AGAIN_H
#define TEST_SUPPORT_AGAIN_H

struct again {
    char *words[16], path[4096];
};

/* Returns the words to execute, of which the first is a path: this program and the arguments, which end with NULL. They are in `room`. */
char **again(struct again *room, ...) __attribute__((sentinel));

#endif
