/* Message: formats text without malloc; the only writer to stderr. A bounded buffer on the caller's stack, formatted by a subset of
 * printf and written to a file descriptor when full and at flush.
 * Formats  %s string  %d int  %u unsigned  %zu size_t  %lu uint64_t  %x %zx hexadecimal  %c char  %%
 *          %.300s %.*s string that a user or a file has chosen: at most 300 bytes; bytes that a terminal obeys, and bytes that are not
 *          UTF-8, are shown as \xNN
 * Stderr   descriptor 2 counts as stderr while it refers to the same file (device and inode) as at start. A program that closed it
 *          may have its database there now: unsolicited output is then dropped. Output that the program requests by a call goes
 *          to the descriptor regardless, as with malloc_stats() of the C library.
 * Never    allocates, takes a lock, or changes errno. */
#ifndef HK_MESSAGE_H
#define HK_MESSAGE_H

#include "base/base.h"

/* The texts of messages.def. An array is a format that the compiler checks, and needs no relocation. */
#define HK_MESSAGE(name, then, format, meaning) static const char HK_TEXT_##name[] __attribute__((unused)) = format;
#include "base/messages.def"

enum {
    HK_NOWHERE = -1,
    HK_STDERR = 2,
    HK_STDERR_ASKED_FOR = -2, /* descriptor 2 regardless of its target */
};

/* Records the identity of stderr: at start, before the first line. */
void hk_stderr_begin(void);
/* True while descriptor 2 still refers to the recorded file. */
bool hk_stderr_is_there(void);
/* The only function that writes output. */
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
void hk_text_flush(struct hk_text *text);
/* Returns the bytes of the UTF-8 character that begins here; 0 if none does. */
size_t hk_utf8_bytes(const char *s);
/* Writes one line, prefixed with "hakmem: ", to stderr if hk_stderr_is_there(). */
void hk_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

extern _Atomic bool hk_is_aborting; /* the program is about to abort, perhaps with locks held */

/* Called after the line, if not NULL: what else there is to say. */
extern void (*hk_last_words)(void);
/* Prints one line, then calls abort(). */
_Noreturn void hk_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void hk_assert_failed(const char *expression, const char *file, int line);

/* Checked in debug builds only, compiled in all. */
#define hk_assert(x)                                                                                                   \
    do {                                                                                                               \
        if (HK_DEBUG && HK_UNLIKELY(!(x)))                                                                             \
            hk_assert_failed(#x, __FILE__, __LINE__);                                                                  \
    } while (0)

#endif
