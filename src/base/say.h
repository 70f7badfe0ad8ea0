/* Say: text without malloc. A bounded buffer on the caller's stack, formatted by a small subset of printf and written
 * to a file descriptor when full and at flush.
 * Formats  %s string  %d int  %u unsigned  %zu size_t  %lu uint64_t  %x %zx hexadecimal  %c char  %%
 * Never    allocates, takes a lock, or changes errno. */
#ifndef HK_SAY_H
#define HK_SAY_H

#include <stdarg.h>

#include "base/base.h"

enum { HK_STDERR = 2 };

struct hk_text {
    int fd; /* -1: keep what fits, drop the rest */
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

/* One line on stderr, beginning with "hakmem: ". */
void hk_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void hk_vsay(const char *format, va_list args);

#endif
