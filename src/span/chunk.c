#include "span/chunk.h"

#include <string.h>

#include "base/bits.h"
#include "base/fatal.h"

enum { PAGE_GRAINS = 64 };

void hk_chunk_init(struct hk_chunk *chunk)
{
    for (unsigned page = 0; page < HK_CHUNK_PAGES; page++)
        chunk->used[page] = ~(uint64_t)0;
    chunk->next = NULL;
    chunk->at = NULL;
    chunk->free = chunk->longest = chunk->aged = 0;
    chunk->lowest = HK_CHUNK_GRAINS;
    chunk->dirty = (1u << HK_CHUNK_PAGES) - 1;
}

/* The first grain from `at` on whose bit differs from those of `same`; some grain from `end` on if there is none before it. */
static unsigned next_other(const uint64_t *used, unsigned at, unsigned end, uint64_t same)
{
    for (; at < end; at = (at | (PAGE_GRAINS - 1)) + 1) {
        uint64_t other = (used[at / PAGE_GRAINS] ^ same) >> (at % PAGE_GRAINS);
        if (other != 0)
            return at + hk_ctz64(other);
    }
    return at;
}

static unsigned first_fit(struct hk_chunk *chunk, unsigned least, unsigned most, unsigned *behind)
{
    const unsigned all = HK_CHUNK_GRAINS;
    unsigned longest = 0, at = next_other(chunk->used, chunk->lowest, all, ~(uint64_t)0);
    chunk->lowest = (uint16_t)at;
    for (unsigned end; at < all; at = next_other(chunk->used, end, all, ~(uint64_t)0)) {
        end = next_other(chunk->used, at, (unsigned)hk_min(at + most, all), 0);
        *behind = (unsigned)hk_min(end, at + most);
        if (end - at >= least)
            return at;
        longest = (unsigned)hk_max(longest, end - at);
    }
    chunk->longest = (uint16_t)longest;
    return all;
}

static void mark(struct hk_chunk *chunk, unsigned from, unsigned grains, bool used)
{
    for (unsigned at = from, end = from + grains, next; at < end; at = next) {
        next = (unsigned)hk_min((at | (PAGE_GRAINS - 1)) + 1, end);
        uint64_t bits = (~(uint64_t)0 >> (PAGE_GRAINS - (next - at))) << (at % PAGE_GRAINS);
        hk_assert((chunk->used[at / PAGE_GRAINS] & bits) == (used ? 0 : bits));
        chunk->used[at / PAGE_GRAINS] ^= bits;
    }
    chunk->free = (uint16_t)(used ? chunk->free - grains : chunk->free + grains);
    chunk->lowest = (uint16_t)(used ? chunk->lowest : hk_min(chunk->lowest, from));
}

struct hk_stretch hk_chunk_take(struct hk_chunk *chunk, unsigned least, unsigned most)
{
    unsigned end, at = first_fit(chunk, least, most, &end);
    if (at == HK_CHUNK_GRAINS)
        return (struct hk_stretch){NULL, NULL, true, 0};
    unsigned pages = (2u << (end - 1) / PAGE_GRAINS) - (1u << at / PAGE_GRAINS);
    struct hk_stretch taken = {
        .start = (char *)chunk + (size_t)at * HK_CHUNK_GRAIN,
        .end = (char *)chunk + (size_t)end * HK_CHUNK_GRAIN,
        .zero = (chunk->dirty & pages) == 0,
        .soiled = pages & ~(unsigned)chunk->dirty,
    };
    mark(chunk, at, end - at, true);
    chunk->longest = (uint16_t)hk_min(chunk->longest, chunk->free);
    chunk->dirty = (uint16_t)(chunk->dirty | pages);
    return taken;
}

void hk_chunk_give(struct hk_chunk *chunk, void *block, unsigned grains)
{
    mark(chunk, (unsigned)(((uintptr_t)block - (uintptr_t)chunk) / HK_CHUNK_GRAIN), grains, false);
    chunk->longest = chunk->free; /* at most; who looks in vain will know better */
}

unsigned hk_chunk_idle(const struct hk_chunk *chunk, bool whole)
{
    unsigned pages = whole && chunk->free == HK_CHUNK_GRAINS - HK_CHUNK_HEADER;
    for (unsigned page = 1; page < HK_CHUNK_PAGES; page++)
        pages |= (chunk->used[page] == 0 ? 1u : 0u) << page;
    return pages & chunk->dirty;
}

void hk_chunk_withdraw(struct hk_chunk *chunk, unsigned pages)
{
    for (unsigned left = pages & ~1u; left != 0; left &= left - 1)
        mark(chunk, hk_ctz64(left) * PAGE_GRAINS, PAGE_GRAINS, true);
    chunk->longest = (uint16_t)hk_min(chunk->longest, chunk->free);
}

void hk_chunk_return(struct hk_chunk *chunk, unsigned pages, bool cleaned)
{
    for (unsigned left = pages & ~1u; left != 0; left &= left - 1)
        mark(chunk, hk_ctz64(left) * PAGE_GRAINS, PAGE_GRAINS, false);
    chunk->longest = chunk->free;
    if (cleaned)
        chunk->dirty = (uint16_t)(chunk->dirty & ~pages);
}
