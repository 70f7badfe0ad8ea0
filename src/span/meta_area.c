/* Allocates and frees lines of one metadata area by the bitmap of the area. */
#include "span/meta_area.h"

#include <string.h>

#include "base/bits.h"
#include "base/message.h"
#include "os/os.h"

enum { PAGE_LINES = 64 };

void hk_meta_area_init(struct hk_meta_area *area)
{
    for (unsigned page = 0; page < HK_META_AREA_PAGES; page++)
        area->used[page] = ~(uint64_t)0;
    area->next = NULL;
    area->at = NULL;
    area->free = area->longest = area->aged = 0;
    area->lowest = HK_META_AREA_LINES;
    area->dirty = (1u << HK_META_AREA_PAGES) - 1;
}

/* The first line from `at` on whose bit differs from `same`; a line at or after `end` if none before it does. */
static unsigned next_other(const uint64_t *used, unsigned at, unsigned end, uint64_t same)
{
    for (; at < end; at = (at | (PAGE_LINES - 1)) + 1) {
        uint64_t other = (used[at / PAGE_LINES] ^ same) >> (at % PAGE_LINES);
        if (other != 0)
            return at + hk_ctz64(other);
    }
    return at;
}

static unsigned first_fit(struct hk_meta_area *area, unsigned least, unsigned most, unsigned *behind)
{
    const unsigned all = HK_META_AREA_LINES;
    unsigned longest = 0, at = next_other(area->used, area->lowest, all, ~(uint64_t)0);
    area->lowest = (uint16_t)at;
    for (unsigned end; at < all; at = next_other(area->used, end, all, ~(uint64_t)0)) {
        end = next_other(area->used, at, (unsigned)hk_min(at + most, all), 0);
        *behind = (unsigned)hk_min(end, at + most);
        if (end - at >= least)
            return at;
        longest = (unsigned)hk_max(longest, end - at);
    }
    area->longest = (uint16_t)longest;
    return all;
}

static void mark(struct hk_meta_area *area, unsigned from, unsigned lines, bool used)
{
    for (unsigned at = from, end = from + lines, next; at < end; at = next) {
        next = (unsigned)hk_min((at | (PAGE_LINES - 1)) + 1, end);
        uint64_t bits = (~(uint64_t)0 >> (PAGE_LINES - (next - at))) << (at % PAGE_LINES);
        hk_assert((area->used[at / PAGE_LINES] & bits) == (used ? 0 : bits));
        area->used[at / PAGE_LINES] ^= bits;
    }
    area->free = (uint16_t)(used ? area->free - lines : area->free + lines);
    area->lowest = (uint16_t)(used ? area->lowest : hk_min(area->lowest, from));
}

/* The pages that lie in one page of the system with one of these, or only in such pages. */
static unsigned together(unsigned pages, bool all)
{
    unsigned each = (unsigned)(hk_system_page() / HK_PAGE), group = (1u << each) - 1, found = 0;
    if (each == 1)
        return pages;
    for (unsigned at = 0; at < HK_META_AREA_PAGES; at += each) {
        unsigned here = pages >> at & group;
        found |= (all ? here == group : here != 0) ? group << at : 0;
    }
    return found;
}

struct hk_meta_range hk_meta_area_alloc(struct hk_meta_area *area, unsigned least, unsigned most)
{
    unsigned end, at = first_fit(area, least, most, &end);
    if (at == HK_META_AREA_LINES)
        return (struct hk_meta_range){NULL, NULL, true, 0};
    unsigned pages = together((2u << (end - 1) / PAGE_LINES) - (1u << at / PAGE_LINES), false);
    struct hk_meta_range taken = {
        .start = (char *)area + (size_t)at * HK_META_LINE,
        .end = (char *)area + (size_t)end * HK_META_LINE,
        .zero = (area->dirty & pages) == 0,
        .soiled = pages & ~(unsigned)area->dirty,
    };
    mark(area, at, end - at, true);
    area->longest = (uint16_t)hk_min(area->longest, area->free);
    area->dirty = (uint16_t)(area->dirty | pages);
    return taken;
}

void hk_meta_area_free(struct hk_meta_area *area, void *block, unsigned lines)
{
    mark(area, (unsigned)(((uintptr_t)block - (uintptr_t)area) / HK_META_LINE), lines, false);
    area->longest = area->free; /* an upper bound; a search in vain corrects it */
}

unsigned hk_meta_area_idle(const struct hk_meta_area *area, bool whole)
{
    unsigned pages = whole && area->free == HK_META_AREA_LINES - HK_META_AREA_HEADER;
    for (unsigned page = 1; page < HK_META_AREA_PAGES; page++)
        pages |= (area->used[page] == 0 ? 1u : 0u) << page;
    return together(pages, true) & area->dirty;
}

void hk_meta_area_withdraw(struct hk_meta_area *area, unsigned pages)
{
    for (unsigned left = pages & ~1u; left != 0; left &= left - 1)
        mark(area, hk_ctz64(left) * PAGE_LINES, PAGE_LINES, true);
    area->longest = (uint16_t)hk_min(area->longest, area->free);
}

void hk_meta_area_return(struct hk_meta_area *area, unsigned pages, bool cleaned)
{
    for (unsigned left = pages & ~1u; left != 0; left &= left - 1)
        mark(area, hk_ctz64(left) * PAGE_LINES, PAGE_LINES, false);
    area->longest = area->free;
    if (cleaned)
        area->dirty = (uint16_t)(area->dirty & ~pages);
}
