/* Say: text without malloc, and the one door to stderr. A bounded buffer on the caller's stack, formatted by a small subset of printf and written
 * to a file descriptor when full and at flush.
 * Formats  %s string  %d int  %u unsigned  %zu size_t  %lu uint64_t  %x %zx hexadecimal  %c char  %%
 * Stderr   descriptor 2 is stderr as long as it is what it was when HAKMEM started (device and inode). A program that has closed it
 *          may have its database there by now: what nobody asked for at that moment is dropped then. What the program asks for by a
 *          call goes where the descriptor leads, as malloc_stats() of the C library does.
 * Never    allocates, takes a lock, or changes errno. */
#ifndef HK_MESSAGE_H
#define HK_MESSAGE_H

#include <stdarg.h>

#include "base/base.h"

enum {
    HK_NOWHERE = -1,
    HK_STDERR = 2,
    HK_STDERR_ASKED_FOR = -2, /* whatever it is by now */
};

/* Remembers what stderr is: at the start, before the first line. */
void hk_stderr_begin(void);
/* Is it that still? */
bool hk_stderr_is_there(void);
/* All of HAKMEM's writing. */
void hk_put(int fd, const void *bytes, size_t size);

struct hk_text {
    int fd; /* HK_NOWHERE: keep what fits, drop the rest */
    size_t used;
    char bytes[1024];
};

HK_INLINE void hk_text_init(struct hk_text *text, int fd)
{
    text->fd = fd;
    text->used = 0;
}

void hk_text_add(struct hk_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hk_text_vadd(struct hk_text *text, const char *format, va_list args);
void hk_text_flush(struct hk_text *text);

/* One line on stderr, if that is there, beginning with "hakmem: ". */
void hk_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
void hk_vmessage(const char *format, va_list args);

#endif
