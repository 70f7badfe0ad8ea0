/* Checked: the C library's copying functions with a check of the block that they write to and of the one that they read from.
 *
 *   memcpy(to, from, bytes) -> both ranges within their blocks: the C library's function, by a jump -> else hk_examine()
 *
 * Owns       the exported names of libhakmem-hardened.so; no other library has this room.
 * Threads    any, also before main and in signal handlers. */
#ifndef HK_CHECKED_H
#define HK_CHECKED_H

#include "checked/examine.h"
#include "checked/plain.h"

/* Writes a line and ends the program, for a copy that is larger than the object that the compiler saw (_FORTIFY_SOURCE). */
HK_COLD _Noreturn void hk_refuse_fortified(void);
/* Returns the size of a copy into an object of `most` bytes. */
HK_INLINE size_t hk_within_object(size_t bytes, size_t most)
{
    if (HK_UNLIKELY(bytes > most))
        hk_refuse_fortified();
    return bytes;
}

/* HK_CHECKED(type, own, parameters, name): declares `own`, exported as `name`. */
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
