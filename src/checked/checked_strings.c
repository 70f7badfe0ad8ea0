/* Defines the checked forms of strcpy, strncpy, strcat and similar functions. */
#include "checked/checked.h"

/* Returns strnlen(text, most). Ends the program if the block that contains the text ends before a zero byte and before `most` bytes. */
static size_t length(const char *call, const char *text, size_t most)
{
    if (most == 0)
        return 0;
    size_t room = hk_bounds_room((uintptr_t)text);
    if (HK_UNLIKELY(room == 0))
        room = hk_examine_room(call, text);
    if (HK_LIKELY(room >= most))
        return hk_plain_length(text, most);
    size_t found = hk_plain_length(text, room);
    if (HK_LIKELY(found < room))
        return found;
    hk_examine(call, HK_READS, text, room + 1);
    return hk_plain_length(text, most);
}

/* Copies a string with its final zero. Returns the address of the zero in the copy. Ends the program if the copy has more than `most` bytes. */
static char *copy(const char *call, char *to, const char *from, size_t most)
{
    size_t found = length(call, from, SIZE_MAX);
    if (HK_UNLIKELY(found >= most))
        hk_refuse_fortified();
    if (HK_UNLIKELY(found >= hk_bounds_room((uintptr_t)to)))
        hk_examine(call, HK_WRITES, to, found + 1);
    return (char *)hk_plain_mover()(to, from, found + 1) + found;
}

/* Copies the first `bytes` bytes of a string. If the string is shorter, fills the rest with zeros. Returns the end of the copied string. */
static char *copy_padded(const char *call, char *to, const char *from, size_t bytes)
{
    size_t found = length(call, from, bytes);
    if (HK_UNLIKELY(bytes > hk_bounds_room((uintptr_t)to)))
        hk_examine(call, HK_WRITES, to, bytes);
    (void)hk_plain_mover()(to, from, found);
    return hk_plain_setter()(to + found, 0, bytes - found);
}

static char *append(const char *call, char *to, const char *from, size_t bytes, size_t most)
{
    size_t had = length(call, to, SIZE_MAX), more = length(call, from, bytes);
    if (HK_UNLIKELY(had >= most || more >= most - had))
        hk_refuse_fortified();
    char *end = to + had;
    if (HK_UNLIKELY(more >= hk_bounds_room((uintptr_t)end)))
        hk_examine(call, HK_WRITES, end, more + 1);
    (void)hk_plain_mover()(end, from, more);
    end[more] = 0;
    return to;
}

HK_FORTIFIED(char *, strcpy, (char *to, const char *from), copy("strcpy()", to, from, most), to)
HK_FORTIFIED(char *, stpcpy, (char *to, const char *from), copy("stpcpy()", to, from, most))
HK_FORTIFIED(char *, strncpy, (char *to, const char *from, size_t bytes),
             copy_padded("strncpy()", to, from, hk_within_object(bytes, most)), to)
HK_FORTIFIED(char *, stpncpy, (char *to, const char *from, size_t bytes),
             copy_padded("stpncpy()", to, from, hk_within_object(bytes, most)))
HK_FORTIFIED(char *, strcat, (char *to, const char *from), append("strcat()", to, from, SIZE_MAX, most))
HK_FORTIFIED(char *, strncat, (char *to, const char *from, size_t bytes), append("strncat()", to, from, bytes, most))
HK_CHECKED(char *, __stpcpy, (char *to, const char *from)) { return copy("stpcpy()", to, from, SIZE_MAX); }
