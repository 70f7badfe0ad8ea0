/* Plain: the C library's own copying functions, behind those that this library exports under the same names.
 *
 *   before HAKMEM's constructor (the loader relocates, IFUNC resolvers run): loops, byte by byte -> after it: the C library's
 *
 * Owns       the table of the C library's functions: written once, by the constructor.
 * Invariant  memmove serves memcpy too: of the C library's two versions of memcpy, the older one copies overlapping ranges correctly,
 *            and programs that bind to it may depend on that.
 * Threads    any, also in signal handlers and fork children. */
#ifndef HK_PLAIN_H
#define HK_PLAIN_H

#include "base/base.h"

typedef void *hk_move_call(void *to, const void *from, size_t bytes);
typedef void *hk_set_call(void *to, int value, size_t bytes);
typedef size_t hk_length_call(const char *text);
typedef size_t hk_length_to_call(const char *text, size_t most);

/* NULL until the constructor has run. */
extern struct hk_plain {
    _Atomic(hk_move_call *) xmove;
    _Atomic(hk_set_call *) xset;
    _Atomic(hk_length_call *) xlength;
    _Atomic(hk_length_to_call *) xlength_to;
} hk_plain __attribute__((visibility("hidden")));

hk_move_call hk_move_by_bytes;
hk_set_call hk_set_by_bytes;
size_t hk_length_by_bytes(const char *text, size_t most);

HK_INLINE hk_move_call *hk_plain_mover(void)
{
    hk_move_call *call = hk_load(hk_plain.xmove);
    return HK_LIKELY(call != NULL) ? call : hk_move_by_bytes;
}
HK_INLINE hk_set_call *hk_plain_setter(void)
{
    hk_set_call *call = hk_load(hk_plain.xset);
    return HK_LIKELY(call != NULL) ? call : hk_set_by_bytes;
}

/* strlen; `most` where the text has no end within so many bytes. */
size_t hk_plain_length(const char *text, size_t most);

#endif
