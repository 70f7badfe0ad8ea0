/* These functions replace the C library's copying functions. They check that a copy stays in the block that it writes and in the block that it reads.
 *
 *   memcpy(to, from, bytes) -> both ranges lie within their blocks -> the C library's function, by a jump
 *                           -> more bytes than hk_bounds_room()    -> hk_examine(): the range is right after all (a joined block, a large block,
 *                              no block), or one line and abort()
 *
 * Owns       The files of src/checked own the names that only libhakmem-hardened.so exports, and the table of the C library's functions.
 * Invariant  A range of no bytes passes each check, wherever it begins.
 * Threads    Any thread may call these functions, also before main, in signal handlers and in fork children.
 * Never      No function allocates memory or waits for a lock. */
#ifndef HK_CHECKED_H
#define HK_CHECKED_H

#include "base/base.h" /* included first, because it renames memcpy before <string.h> declares it */
#include "guard/bounds.h"

typedef void *hk_move_call(void *to, const void *from, size_t bytes);
typedef void *hk_set_call(void *to, int value, size_t bytes);
typedef size_t hk_length_call(const char *text);
typedef size_t hk_length_to_call(const char *text, size_t most);

/* The C library's own functions. The pointers are NULL until the constructor has run. Earlier copies, for example in the loader and in IFUNC
 * resolvers, go byte by byte. The checked memcpy calls memmove, because the older of the C library's two versions of memcpy copies overlapping ranges
 * correctly, and programs that bind to that version may depend on this. */
extern struct hk_plain {
    _Atomic(hk_move_call *) xmove;
    _Atomic(hk_set_call *) xset;
    _Atomic(hk_length_call *) xlength;
    _Atomic(hk_length_to_call *) xlength_to;
} hk_plain __attribute__((visibility("hidden")));

hk_move_call hk_move_by_bytes;
hk_set_call hk_set_by_bytes;

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
/* Returns strlen(text), or `most` if the text has no end within that many bytes. */
size_t hk_plain_length(const char *text, size_t most);

enum hk_copying { HK_WRITES, HK_READS };

/* Ends the program if the range of a copy leaves its block, or touches free memory of the heap. `call` is the name of the exported function. */
void hk_examine(const char *call, enum hk_copying access, const void *at, size_t bytes);
/* Returns the bytes from `at` to the end of its block, or SIZE_MAX if no block is known there. Ends the program if no byte may be read there. */
size_t hk_examine_room(const char *call, const void *at);

/* Writes a line and ends the program. Called if a copy is larger than the object that the compiler saw (_FORTIFY_SOURCE). */
HK_COLD _Noreturn void hk_refuse_fortified(void);
/* Returns `bytes`, the size of a copy into an object of `most` bytes. Ends the program if the copy is larger than the object. */
HK_INLINE size_t hk_within_object(size_t bytes, size_t most)
{
    if (HK_UNLIKELY(bytes > most))
        hk_refuse_fortified();
    return bytes;
}

/* HK_CHECKED(type, own, parameters, name) declares `own`, which the library exports as `name`. */
HK_CHECKED(void *, hk_checked_memcpy, (void *to, const void *from, size_t bytes), memcpy)
HK_CHECKED(void *, hk_checked_memmove, (void *to, const void *from, size_t bytes), memmove)
HK_CHECKED(void *, hk_checked_mempcpy, (void *to, const void *from, size_t bytes), mempcpy)
HK_CHECKED(void *, hk_checked_mempcpy_too, (void *to, const void *from, size_t bytes), __mempcpy)
HK_CHECKED(void *, hk_checked_memset, (void *to, int value, size_t bytes), memset)
HK_CHECKED(void, hk_checked_bcopy, (const void *from, void *to, size_t bytes), bcopy)
HK_CHECKED(void, hk_checked_bzero, (void *to, size_t bytes), bzero)
HK_CHECKED(void *, hk_fortified_memcpy, (void *to, const void *from, size_t bytes, size_t most), __memcpy_chk)
HK_CHECKED(void *, hk_fortified_memmove, (void *to, const void *from, size_t bytes, size_t most), __memmove_chk)
HK_CHECKED(void *, hk_fortified_mempcpy, (void *to, const void *from, size_t bytes, size_t most), __mempcpy_chk)
HK_CHECKED(void *, hk_fortified_memset, (void *to, int value, size_t bytes, size_t most), __memset_chk)

HK_CHECKED(char *, hk_checked_strcpy, (char *to, const char *from), strcpy)
HK_CHECKED(char *, hk_checked_stpcpy, (char *to, const char *from), stpcpy)
HK_CHECKED(char *, hk_checked_stpcpy_too, (char *to, const char *from), __stpcpy)
HK_CHECKED(char *, hk_checked_strncpy, (char *to, const char *from, size_t bytes), strncpy)
HK_CHECKED(char *, hk_checked_stpncpy, (char *to, const char *from, size_t bytes), stpncpy)
HK_CHECKED(char *, hk_checked_strcat, (char *to, const char *from), strcat)
HK_CHECKED(char *, hk_checked_strncat, (char *to, const char *from, size_t bytes), strncat)
HK_CHECKED(char *, hk_fortified_strcpy, (char *to, const char *from, size_t most), __strcpy_chk)
HK_CHECKED(char *, hk_fortified_stpcpy, (char *to, const char *from, size_t most), __stpcpy_chk)
HK_CHECKED(char *, hk_fortified_strncpy, (char *to, const char *from, size_t bytes, size_t most), __strncpy_chk)
HK_CHECKED(char *, hk_fortified_stpncpy, (char *to, const char *from, size_t bytes, size_t most), __stpncpy_chk)
HK_CHECKED(char *, hk_fortified_strcat, (char *to, const char *from, size_t most), __strcat_chk)
HK_CHECKED(char *, hk_fortified_strncat, (char *to, const char *from, size_t bytes, size_t most), __strncat_chk)

#endif
