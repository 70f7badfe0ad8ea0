/* Defines the checked forms of memcpy, memmove, memset and similar functions. */
#include "checked/checked.h"
#include <stdlib.h>

extern _Noreturn void __chk_fail(void) __attribute__((weak));

void hk_refuse_fortified(void)
{
    if (&__chk_fail != NULL)
        __chk_fail();
    abort();
}

HK_INLINE void *copy(void *to, const void *from, size_t bytes, const char *call)
{
    if (HK_UNLIKELY(bytes > hk_bounds_room((uintptr_t)to) || bytes > hk_bounds_room((uintptr_t)from))) {
        hk_examine(call, HK_WRITES, to, bytes);
        hk_examine(call, HK_READS, from, bytes);
    }
    return hk_plain_mover()(to, from, bytes);
}

HK_INLINE void *set(void *to, int value, size_t bytes, const char *call)
{
    if (HK_UNLIKELY(bytes > hk_bounds_room((uintptr_t)to)))
        hk_examine(call, HK_WRITES, to, bytes);
    return hk_plain_setter()(to, value, bytes);
}

HK_INLINE void *copy_to_end(void *to, const void *from, size_t bytes)
{
    return (char *)copy(to, from, bytes, "mempcpy()") + bytes;
}

HK_CHECKED(void *, memcpy, (void *to, const void *from, size_t bytes)) { return copy(to, from, bytes, "memcpy()"); }
HK_CHECKED(void *, memmove, (void *to, const void *from, size_t bytes)) { return copy(to, from, bytes, "memmove()"); }
HK_CHECKED(void *, mempcpy, (void *to, const void *from, size_t bytes)) { return copy_to_end(to, from, bytes); }
HK_CHECKED(void *, __mempcpy, (void *to, const void *from, size_t bytes)) { return copy_to_end(to, from, bytes); }
HK_CHECKED(void *, memset, (void *to, int value, size_t bytes)) { return set(to, value, bytes, "memset()"); }
HK_CHECKED(void, bcopy, (const void *from, void *to, size_t bytes)) { (void)copy(to, from, bytes, "bcopy()"); }
HK_CHECKED(void, bzero, (void *to, size_t bytes)) { (void)set(to, 0, bytes, "bzero()"); }

HK_CHECKED(void *, __memcpy_chk, (void *to, const void *from, size_t bytes, size_t most))
{
    return copy(to, from, hk_within_object(bytes, most), "memcpy()");
}

HK_CHECKED(void *, __memmove_chk, (void *to, const void *from, size_t bytes, size_t most))
{
    return copy(to, from, hk_within_object(bytes, most), "memmove()");
}

HK_CHECKED(void *, __mempcpy_chk, (void *to, const void *from, size_t bytes, size_t most))
{
    return copy_to_end(to, from, hk_within_object(bytes, most));
}

HK_CHECKED(void *, __memset_chk, (void *to, int value, size_t bytes, size_t most))
{
    return set(to, value, hk_within_object(bytes, most), "memset()");
}
