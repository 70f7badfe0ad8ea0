/* functions: calls the different copying functions by one interface, which writes (or reads) a number of bytes at an address. */
#ifndef TEST_CHECKED_FUNCTIONS_H
#define TEST_CHECKED_FUNCTIONS_H

#include <stddef.h>

enum { SOURCE = 4 * 1024 * 1024 };

enum shape {
    COPIES, /* copies n bytes from one place to another */
    FILLS,  /* writes n bytes without a source */
    TEXT,   /* copies a text of n bytes, including its end */
};

struct function {
    const char *name;
    const char *line; /* name of the function in HAKMEM's message */
    enum shape shape;
    void (*act)(char *to, const char *from, size_t n);
};

extern const struct function functions[];
extern const size_t function_count;

/* `source` contains no zero bytes, and serves copies of up to SOURCE bytes. `target` receives the bytes that a function reads. */
extern char source[SOURCE + 1], target[SOURCE + 1];

/* Calls one function, which writes n bytes to `to`. If it copies a text, `source` is cut to a text of this length until the next call. */
void act(const struct function *function, char *to, size_t n);

/* A compiler calls these functions with _FORTIFY_SOURCE. The last argument is the size of the object that the compiler knows. */
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
