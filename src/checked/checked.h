/* These functions replace the C library's copying functions. They check that a copy stays in the block that it writes and in the block that it reads.
 *
 *   memcpy() first asks hk_bounds_room() how many bytes surely belong to each block, which is fast. If both ranges fit, memcpy() jumps to the C
 *   library's function. Otherwise hk_examine() looks up the block. If the range is wrong, hk_examine() prints one line and ends the program. Some
 *   right ranges also come to hk_examine(), because hk_bounds_room() does not know the bounds of large and joined blocks.
 *
 * Owns       The files of src/checked own the names that only libhakmem-hardened.so exports, and the table of the C library's functions.
 * Invariant  A range of no bytes passes each check, wherever it begins.
 * Threads    Any thread may call these functions, also before main, in signal handlers and in fork children.
 * Never      No function allocates memory or waits for a lock. */
#pragma once

#include "base/base.h" /* included first, because it renames memcpy before <string.h> declares it */
#include "guard/bounds.h"

typedef void *hk_move_call(void *to, const void *from, size_t bytes);
typedef void *hk_set_call(void *to, int value, size_t bytes);
typedef size_t hk_length_call(const char *text);
typedef size_t hk_length_to_call(const char *text, size_t most);

/* The C library's own functions. The pointers are NULL until a constructor has run. Earlier copies, for example in the loader and in IFUNC resolvers,
 * go byte by byte. There is no pointer for memcpy, because the checked memcpy calls the C library's memmove. An old version of memcpy copies
 * overlapping ranges correctly, and old programs may depend on this. */
extern struct hk_plain {
    _Atomic(hk_move_call *) xmove;
    _Atomic(hk_set_call *) xset;
    _Atomic(hk_length_call *) xlength;
    _Atomic(hk_length_to_call *) xlength_to;
} hk_plain __attribute__((visibility("hidden")));

hk_move_call hk_move_by_bytes, hk_plain_move;
hk_set_call hk_set_by_bytes, hk_plain_set;

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
/* Returns strlen(text), or `most` if the first `most` bytes of the text contain no zero byte. */
size_t hk_plain_length(const char *text, size_t most);

enum hk_copying { HK_WRITES, HK_READS };

/* Ends the program if the range of a copy leaves its block, or touches free memory of HAKMEM. The message names `call`. */
void hk_examine(const char *call, enum hk_copying access, const void *at, size_t bytes);
/* Returns the bytes from `at` to the end of its block, or SIZE_MAX if HAKMEM knows no block there. Ends the program if the byte at `at` is free. */
size_t hk_examine_room(const char *call, const void *at);

/* Ends the program. Called if a copy is larger than the object that the compiler saw (_FORTIFY_SOURCE). */
HK_COLD _Noreturn void hk_refuse_fortified(void);
/* Returns `bytes`, the size of a copy into an object of `most` bytes. Ends the program if the copy is larger than the object. */
HK_INLINE size_t hk_within_object(size_t bytes, size_t most)
{
    if (HK_UNLIKELY(bytes > most))
        hk_refuse_fortified();
    return bytes;
}
/* Defines the checked functions `name` and __name_chk. With _FORTIFY_SOURCE, compilers call the second one, which has one more parameter: `most`, the
 * size of the object to which it writes. In the first one, `most` is SIZE_MAX. The last arguments are what both return. */
#define HK_FORTIFIED(type, name, parameters, ...)                                                                      \
    HK_CHECKED(type, name, parameters)                                                                                 \
    {                                                                                                                  \
        const size_t most = SIZE_MAX;                                                                                  \
        return __VA_ARGS__;                                                                                            \
    }                                                                                                                  \
    HK_CHECKED(type, __##name##_chk, (HK_IN_LIST parameters, size_t most)) { return __VA_ARGS__; }
