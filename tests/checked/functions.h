/* functions: the copying functions by one form each: "write (or read) so many bytes here". */
#ifndef TEST_CHECKED_FUNCTIONS_H
#define TEST_CHECKED_FUNCTIONS_H

#include <stddef.h>

enum { SOURCE = 4 * 1024 * 1024 };

enum shape {
    COPIES, /* n bytes from one place to another */
    FILLS,  /* n bytes, from nowhere */
    TEXT,   /* a text of n bytes, its end included */
};

struct function {
    const char *name;
    const char *line; /* its name in HAKMEM's line */
    enum shape shape;
    void (*act)(char *to, const char *from, size_t n);
};

extern const struct function functions[];
extern const size_t function_count;

/* Bytes that are no zeros, for copies of up to SOURCE bytes; and a place for what is read. */
extern char source[SOURCE + 1], target[SOURCE + 1];

/* The call of one function, which writes n bytes to `to`. A text is cut out of the source for it, until the next call. */
void act(const struct function *function, char *to, size_t n);

#endif
