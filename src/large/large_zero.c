/* Zeroes a long block that was used before, at no more than the cost of fresh pages.
 *
 *   resident pages that were used   -> overwritten: a slice costs less than one page fault
 *   all others                      -> returned to the system: the next owner pays for what it touches
 *
 * A page that the system does not show may have been swapped out, so it is returned as well. No page of slack that may be cut off, and be
 * another mapping by now, changes. The thread that has just been given the block calls. */
#include "large/large.h"
#include <string.h>
#include "base/bits.h"
#include "base/inline_copy.h"
#include "os/os.h"
#include "span/page_heap.h"

#define PROBED_FROM (4 * HK_CHUNK) /* a call for the pages of each chunk would cost more than the four probes */

struct gap { /* pages to return */
    char *start, *end;
    bool in_span;
};

/* Looks at the first line first, because that of a page that was used is rarely all zeros. */
static bool is_used(const char *page)
{
    return !hk_is_zero(page, HK_CACHE_LINE) || !hk_is_zero(page, hk_system_page());
}

static bool is_used_if_resident(const char *page)
{
    unsigned char there;
    return hk_os.resident(page, hk_system_page(), &there) && (there & 1) != 0 && is_used(page);
}

/* Looks at four pages, most of them near the start of the block, where most uses begin. */
static bool seems_unused(const char *block, size_t bytes)
{
    size_t page = hk_system_page(), eighth = hk_align_down(bytes / 8, page);
    return !is_used_if_resident(block + hk_align_down(eighth / 4, page)) && !is_used_if_resident(block + eighth) &&
           !is_used_if_resident(block + 3 * eighth) && !is_used_if_resident(block + 6 * eighth);
}

/* A part of a huge page is purged only where that is worth a split. */
static bool purge_gap(const struct gap *gap, size_t bytes)
{
    uintptr_t start = (uintptr_t)gap->start;
    if (!gap->in_span)
        return hk_os.purge(gap->start, bytes);
    return (bytes >= HK_CHUNK / HK_PART_WORTH_A_SPLIT || !hk_load(hk_page_map_chunk(start)->xhuge)) &&
           hk_span_purge(start, bytes);
}

static void return_gap(const struct gap *gap)
{
    size_t bytes = (size_t)(gap->end - gap->start);
    if (bytes > 0 && !purge_gap(gap, bytes))
        memset(gap->start, 0, bytes);
}

/* The resident pages from the end of the gap on: slices of which the first page or the middle one is zero as well join the gap. */
static void zero_resident(char *to, struct gap *gap)
{
    for (char *from = gap->end, *end; from < to; from = end) {
        end = from + hk_min((size_t)(to - from), HK_SLICE);
        gap->end = from;
        if (is_used(from) || is_used(from + hk_align_down((size_t)(end - from) / 2, hk_system_page()))) {
            return_gap(gap);
            memset(from, 0, (size_t)(end - from));
            gap->start = end;
        }
        gap->end = end;
    }
}

/* Up to the end of a chunk, which may be one huge page. */
static void zero_chunk(char *to, struct gap *gap)
{
    unsigned char pages[HK_CHUNK / HK_PAGE];
    char *from = gap->end;
    size_t page = hk_system_page(), count = (size_t)(to - from) / page;
    if (!hk_os.resident(from, (size_t)(to - from), pages))
        memset(pages, 1, count);
    for (size_t i = 0, next; i < count; i = next) {
        const unsigned char *other = memchr(pages + i, pages[i] ^ 1, count - i);
        next = other != NULL ? (size_t)(other - pages) : count;
        if ((pages[i] & 1) != 0)
            zero_resident(from + next * page, gap);
        gap->end = from + next * page;
    }
}

static void zero_pages(char *start, char *end, bool in_span)
{
    size_t bytes = (size_t)(end - start);
    struct gap gap = {start, bytes >= PROBED_FROM && seems_unused(start, bytes) ? end : start, in_span};
    for (char *at = gap.end; at < end; at = gap.end)
        zero_chunk(at + hk_min((size_t)(end - at), HK_CHUNK - ((uintptr_t)at & (HK_CHUNK - 1))), &gap);
    return_gap(&gap);
}

/* Returns the bytes of a block that no purge cuts off. */
static size_t held(void *block)
{
    hk_lock(&hk_large.lock);
    size_t bytes = hk_large_held(hk_large_at((uintptr_t)block));
    hk_unlock(&hk_large.lock);
    return bytes;
}

void *hk_large_zero(void *block, size_t bytes)
{
    bool in_span = !hk_entry_is_large(hk_page_map_lookup((uintptr_t)block));
    if (!in_span)
        bytes = held(block);
    char *start = block, *end = start + bytes;
    size_t page = hk_system_page(), head = -(uintptr_t)start & (page - 1), tail = (uintptr_t)end & (page - 1);
    memset(start, 0, head);
    memset(end - tail, 0, tail);
    zero_pages(start + head, end - tail, in_span);
    return block;
}
