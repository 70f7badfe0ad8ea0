/* Fatal: prints one line on stderr, then calls abort(). Never allocates. */
#ifndef HK_FATAL_H
#define HK_FATAL_H

#include "base/base.h"
#include "base/messages.h"

/* The program is about to abort, perhaps with locks held. */
extern _Atomic bool hk_is_aborting;

/* Called after the line, if not NULL: what else there is to say. */
extern void (*hk_last_words)(void);

_Noreturn void hk_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void hk_assert_failed(const char *expression, const char *file, int line);

/* Checked in debug builds only, compiled in all. */
#define hk_assert(x)                                                                                                   \
    do {                                                                                                               \
        if (HK_DEBUG && HK_UNLIKELY(!(x)))                                                                             \
            hk_assert_failed(#x, __FILE__, __LINE__);                                                                  \
    } while (0)

#endif
