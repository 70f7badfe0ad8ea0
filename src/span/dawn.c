#include "span/dawn.h"

#include "base/bits.h"

#define ARENA (1 * HK_MIB)

static char dawn_bytes[ARENA] HK_COLD_DATA HK_ALIGNED(16);
static size_t dawn_used;

/* Each block has its size in front. */
void *hk_dawn_alloc(size_t size, size_t align)
{
    uintptr_t start = (uintptr_t)dawn_bytes;
    size = hk_max(size, sizeof(size_t));
    size_t at = hk_align_up(start + dawn_used + sizeof(size_t), hk_max(align, 16)) - start;
    if (size > ARENA || at > ARENA - size)
        return NULL;
    dawn_used = at + size;
    ((size_t *)(void *)(dawn_bytes + at))[-1] = size;
    return dawn_bytes + at;
}

size_t hk_dawn_size(const void *p)
{
    uintptr_t offset = (uintptr_t)p - (uintptr_t)dawn_bytes;
    return offset < ARENA && offset > 0 ? ((const size_t *)p)[-1] : SIZE_MAX;
}
