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

HK_INLINE void *copy(void *to, const void *from, size_t bytes, size_t most, const char *call)
{
    bytes = hk_within_object(bytes, most);
    if (HK_UNLIKELY(bytes > hk_bounds_room((uintptr_t)to) || bytes > hk_bounds_room((uintptr_t)from))) {
        hk_examine(call, HK_WRITES, to, bytes);
        hk_examine(call, HK_READS, from, bytes);
    }
    return hk_plain_mover()(to, from, bytes);
}

HK_INLINE void *set(void *to, int value, size_t bytes, size_t most, const char *call)
{
    bytes = hk_within_object(bytes, most);
    if (HK_UNLIKELY(bytes > hk_bounds_room((uintptr_t)to)))
        hk_examine(call, HK_WRITES, to, bytes);
    return hk_plain_setter()(to, value, bytes);
}

HK_INLINE void *copy_to_end(void *to, const void *from, size_t bytes, size_t most)
{
    return (char *)copy(to, from, bytes, most, "mempcpy()") + bytes;
}

HK_FORTIFIED(void *, memcpy, (void *to, const void *from, size_t bytes), copy(to, from, bytes, most, "memcpy()"))
HK_FORTIFIED(void *, memmove, (void *to, const void *from, size_t bytes), copy(to, from, bytes, most, "memmove()"))
HK_FORTIFIED(void *, mempcpy, (void *to, const void *from, size_t bytes), copy_to_end(to, from, bytes, most))
HK_FORTIFIED(void *, memset, (void *to, int value, size_t bytes), set(to, value, bytes, most, "memset()"))
HK_CHECKED(void *, __mempcpy, (void *to, const void *from, size_t bytes))
{
    return copy_to_end(to, from, bytes, SIZE_MAX);
}
HK_CHECKED(void, bcopy, (const void *from, void *to, size_t bytes)) { copy(to, from, bytes, SIZE_MAX, "bcopy()"); }
HK_CHECKED(void, bzero, (void *to, size_t bytes)) { set(to, 0, bytes, SIZE_MAX, "bzero()"); }
