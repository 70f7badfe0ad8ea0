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

/* What a compiler calls with _FORTIFY_SOURCE: the last argument is the size of the object that it saw. */
void *__memcpy_chk(void *to, const void *from, size_t n, size_t most);
void *__memmove_chk(void *to, const void *from, size_t n, size_t most);
void *__mempcpy_chk(void *to, const void *from, size_t n, size_t most);
void *__memset_chk(void *to, int value, size_t n, size_t most);
char *__strcpy_chk(char *to, const char *from, size_t most);
char *__stpcpy_chk(char *to, const char *from, size_t most);
char *__strncpy_chk(char *to, const char *from, size_t n, size_t most);
char *__stpncpy_chk(char *to, const char *from, size_t n, size_t most);
char *__strcat_chk(char *to, const char *from, size_t most);
char *__strncat_chk(char *to, const char *from, size_t n, size_t most);

#endif
