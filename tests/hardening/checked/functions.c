#include "functions.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

char source[SOURCE + 1], target[SOURCE + 1];

void *__mempcpy(void *to, const void *from, size_t n);
char *__stpcpy(char *to, const char *from);

/* It is volatile because clang turns a call without a limit into a call of the plain function. */
static volatile size_t no_limit = SIZE_MAX;

#define FUNCTION(name, call)                                                                                           \
    static void act_##name(char *to, const char *from, size_t n)                                                       \
    {                                                                                                                  \
        (void)from, (void)n;                                                                                           \
        call;                                                                                                          \
    }
FUNCTION(memcpy, memcpy(to, from, n))
FUNCTION(memmove, memmove(to, from, n))
FUNCTION(mempcpy, (void)mempcpy(to, from, n))
FUNCTION(__mempcpy, (void)__mempcpy(to, from, n))
FUNCTION(bcopy, bcopy(from, to, n))
FUNCTION(memset, memset(to, 'z', n))
FUNCTION(bzero, bzero(to, n))
FUNCTION(strcpy, strcpy(to, from))
FUNCTION(stpcpy, (void)stpcpy(to, from))
FUNCTION(strncpy, strncpy(to, from, n))
FUNCTION(stpncpy, (void)stpncpy(to, from, n))
FUNCTION(strcat, *to = 0; strcat(to, from))
FUNCTION(strncat, *to = 0; strncat(to, from, n - 1))
FUNCTION(__memcpy_chk, __memcpy_chk(to, from, n, no_limit))
FUNCTION(__memmove_chk, __memmove_chk(to, from, n, no_limit))
FUNCTION(__mempcpy_chk, (void)__mempcpy_chk(to, from, n, no_limit))
FUNCTION(__memset_chk, __memset_chk(to, 'z', n, no_limit))
FUNCTION(__strcpy_chk, __strcpy_chk(to, from, no_limit))
FUNCTION(__stpcpy_chk, (void)__stpcpy_chk(to, from, no_limit))
FUNCTION(__strncpy_chk, __strncpy_chk(to, from, n, no_limit))
FUNCTION(__stpncpy_chk, (void)__stpncpy_chk(to, from, n, no_limit))
FUNCTION(__strcat_chk, *to = 0; __strcat_chk(to, from, no_limit))
FUNCTION(__strncat_chk, *to = 0; __strncat_chk(to, from, n - 1, no_limit))
FUNCTION(__stpcpy, (void)__stpcpy(to, from))

#define ROW(name, line, shape)                                                                                         \
    {                                                                                                                  \
#name, #line "()", shape, act_##name                                                                           \
    }
const struct function functions[] = {
    ROW(memcpy, memcpy, COPIES),
    ROW(memmove, memmove, COPIES),
    ROW(mempcpy, mempcpy, COPIES),
    ROW(__mempcpy, mempcpy, COPIES),
    ROW(bcopy, bcopy, COPIES),
    ROW(memset, memset, FILLS),
    ROW(bzero, bzero, FILLS),
    ROW(strcpy, strcpy, TEXT),
    ROW(stpcpy, stpcpy, TEXT),
    ROW(strncpy, strncpy, TEXT),
    ROW(stpncpy, stpncpy, TEXT),
    ROW(strcat, strcat, TEXT),
    ROW(strncat, strncat, TEXT),
    ROW(__memcpy_chk, memcpy, COPIES),
    ROW(__memmove_chk, memmove, COPIES),
    ROW(__mempcpy_chk, mempcpy, COPIES),
    ROW(__memset_chk, memset, FILLS),
    ROW(__strcpy_chk, strcpy, TEXT),
    ROW(__stpcpy_chk, stpcpy, TEXT),
    ROW(__strncpy_chk, strncpy, TEXT),
    ROW(__stpncpy_chk, stpncpy, TEXT),
    ROW(__strcat_chk, strcat, TEXT),
    ROW(__strncat_chk, strncat, TEXT),
    ROW(__stpcpy, stpcpy, TEXT),
};
const size_t function_count = sizeof functions / sizeof functions[0];

void act(const struct function *function, char *to, size_t n)
{
    char kept = source[n - 1];
    if (function->shape == TEXT)
        source[n - 1] = 0;
    function->act(to, source, n);
    source[n - 1] = kept;
}
