/* Looks up the C library's copying functions in a constructor, and copies byte by byte until the constructor has run. */
#include "checked/checked.h"
#include "os/forward.h"

struct hk_plain hk_plain;

/* Copies byte by byte. Without volatile, the compiler would turn the loops into calls of memmove, which would call this function again. */
void *hk_move_by_bytes(void *to, const void *from, size_t bytes)
{
    volatile char *at = to;
    const volatile char *source = from;
    if ((uintptr_t)to - (uintptr_t)from >= bytes)
        for (size_t i = 0; i < bytes; i++)
            at[i] = source[i];
    else
        for (size_t i = bytes; i > 0; i--)
            at[i - 1] = source[i - 1];
    return to;
}

void *hk_set_by_bytes(void *to, int value, size_t bytes)
{
    volatile char *at = to;
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)value;
    return to;
}

static size_t length_by_bytes(const char *text, size_t most)
{
    const volatile char *at = text;
    size_t length = 0;
    while (length < most && at[length] != 0)
        length++;
    return length;
}

size_t hk_plain_length(const char *text, size_t most)
{
    hk_length_call *length = hk_load(hk_plain.xlength);
    hk_length_to_call *length_to = hk_load(hk_plain.xlength_to);
    if (most == SIZE_MAX && HK_LIKELY(length != NULL))
        return length(text);
    return HK_LIKELY(length_to != NULL) ? length_to(text, most) : length_by_bytes(text, most);
}

/* HAKMEM's own calls of memcpy, memmove and memset go to these functions without checks, because base/base.h renames the calls. */
void *hk_plain_move(void *to, const void *from, size_t bytes) { return hk_plain_mover()(to, from, bytes); }
void *hk_plain_set(void *to, int value, size_t bytes) { return hk_plain_setter()(to, value, bytes); }

/* Looks up the functions at the start, because a copy must not call dlsym(), which takes the loader's lock and may call malloc. */
__attribute__((constructor)) static void find_plain(void)
{
    hk_store_release(hk_plain.xmove, (hk_move_call *)hk_forward_next("memmove"));
    hk_store_release(hk_plain.xset, (hk_set_call *)hk_forward_next("memset"));
    hk_store_release(hk_plain.xlength, (hk_length_call *)hk_forward_next("strlen"));
    hk_store_release(hk_plain.xlength_to, (hk_length_to_call *)hk_forward_next("strnlen"));
}
