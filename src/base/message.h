/* Message: formats text without malloc, and is the only file that writes to stderr. A subset of printf fills a buffer of fixed size on the caller's
 * stack. The buffer is written to a file descriptor when it is full or flushed.
 * Formats  %s string  %d int  %u unsigned  %zu size_t  %lu uint64_t  %x %zx hexadecimal  %c char  %%
 *          %.300s %.*s string that a user or a file has chosen: at most 300 bytes; control characters, and bytes that are not UTF-8,
 *          are shown as \xNN
 *          %9lu %*lu %-16s a number padded with spaces on the left to a width of at most 24, or a string padded on the right
 * Stderr   Descriptor 2 counts as stderr while it refers to the same file (device and inode) as at the start. A program that closes stderr may open
 *          its database as descriptor 2. HAKMEM then prints no messages. Output that the program requests by a call always goes to descriptor 2.
 * Never    This file never allocates, takes a lock, or changes errno. */
#pragma once

#include "base/base.h"

/* Defines the texts of messages.def as arrays. Compilers check a format that is an array, and an array needs no relocation. */
#define HK_MESSAGE(name, then, format, meaning) static const char HK_TEXT_##name[] __attribute__((unused)) = format;
#include "base/messages.def"

enum {
    HK_NOWHERE = -1,
    HK_STDERR = 2,
    HK_STDERR_ASKED_FOR = -2, /* means descriptor 2, whatever file it refers to */
};

/* Stores the identity of the file that is stderr. Called at the start, before the first line is printed. */
void hk_stderr_begin(void);
/* Returns true if descriptor 2 still refers to the stored file. */
bool hk_stderr_is_there(void);
/* Writes bytes to a descriptor. All output of HAKMEM passes through this function. */
void hk_put(int fd, const void *bytes, size_t size);

struct hk_text {
    int fd; /* a file descriptor; with HK_NOWHERE, text that does not fit is dropped */
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
/* Returns the number of bytes of the UTF-8 character that begins at s, or 0 if none begins there. */
size_t hk_utf8_bytes(const char *s);
/* Writes one line, prefixed with "hakmem: ", to stderr. Writes nothing if hk_stderr_is_there() is false. */
void hk_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

extern _Atomic bool hk_is_aborting; /* true if the program is about to abort, perhaps while locks are held */

/* hk_fatal() prints its own line. If this pointer is not NULL, hk_fatal() then calls the function to print further lines. */
extern void (*hk_last_words)(void);
/* Prints one line, then calls abort(). */
_Noreturn void hk_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Aborts if x is false. Only debug builds check x, but all builds compile it. */
#define hk_assert(x)                                                                                                   \
    do {                                                                                                               \
        if (HK_DEBUG && HK_UNLIKELY(!(x)))                                                                             \
            hk_fatal(HK_TEXT_assertion, #x, __FILE__, __LINE__);                                                       \
    } while (0)
