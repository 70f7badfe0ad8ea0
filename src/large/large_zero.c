/* Zeroes a long block that was used before, at a cost no higher than that of fresh pages. Resident pages that were used are overwritten, because
 * overwriting 64 KiB costs less than a page fault. All other pages are returned to the system, so that the program pays only for pages that it
 * touches. This includes pages that are not resident, because they may be swapped out. Slack that a purge may cut off is never written, because
 * another mapping may lie there. Only the new holder of the block calls hk_large_zero(). */
#include "large/large.h"
#include "base/inline_copy.h"
#include "span/page_heap.h"

/* bytes; in a block of at least this size, four pages are examined first. If they are unused, the system need not be asked about all other pages. */
#define PROBED_FROM (4 * HK_CHUNK)

struct gap { /* a run of pages to return to the system */
    char *start, *end;
    bool in_span;
};

/* Returns true if a page is not zero. Reads the page's first cache line first, because this line is rarely zero in a used page. */
static bool is_used(const char *page)
{
    return !hk_is_zero(page, HK_CACHE_LINE) || !hk_is_zero(page, hk_system_page());
}

/* Sets bit 0 of pages[i] if page i is resident. Returns false if the system cannot be asked. A seccomp filter might end the process at mincore. */
static bool resident(const char *p, size_t size, unsigned char *pages)
{
    return hk_os.unfiltered() && hk_os.resident(p, size, pages);
}

static bool is_used_if_resident(const char *page)
{
    unsigned char there;
    return resident(page, hk_system_page(), &there) && (there & 1) != 0 && is_used(page);
}

/* Returns true if four examined pages are unused. More of them lie near the start of the block, because most programs use a block from its start. */
static bool seems_unused(const char *block, size_t bytes)
{
    size_t page = hk_system_page(), eighth = hk_align_down(bytes / 8, page);
    return !is_used_if_resident(block + hk_align_down(eighth / 4, page)) && !is_used_if_resident(block + eighth) &&
           !is_used_if_resident(block + 3 * eighth) && !is_used_if_resident(block + 6 * eighth);
}

static void return_gap(const struct gap *gap)
{
    uintptr_t start = (uintptr_t)gap->start;
    size_t bytes = (size_t)(gap->end - gap->start);
    if (bytes == 0)
        return;
    /* If the gap is a small part of a huge page, overwrites it instead, because a purge would split the huge page. */
    bool gone = !gap->in_span
                    ? hk_os.purge(gap->start, bytes)
                    : (bytes >= HK_CHUNK / HK_PART_WORTH_A_SPLIT || !hk_load(hk_page_map_chunk(start)->xhuge)) &&
                          hk_span_purge(start, bytes);
    if (!gone)
        memset(gap->start, 0, bytes);
}

/* Overwrites the used pages from the end of the gap to `to`, and adds the other pages to the gap. All these pages must lie in one chunk. Judges
 * each run of resident pages (at most a slice) by its first and its middle page. */
static void zero_chunk(char *to, struct gap *gap)
{
    unsigned char pages[HK_CHUNK / HK_PAGE];
    size_t page = hk_system_page(), bytes = (size_t)(to - gap->end), count = bytes / page, most = HK_SLICE / page;
    if (!resident(gap->end, bytes, pages))
        memset(pages, 1, count);
    for (size_t i = 0, next = 0, n; i < count; i += n, gap->end += n * page) {
        if (i == next) { /* looks for the next page that is not like page i */
            const unsigned char *other = memchr(pages + i, pages[i] ^ 1, count - i);
            next = other != NULL ? (size_t)(other - pages) : count;
        }
        n = (pages[i] & 1) != 0 ? hk_min(next - i, most) : next - i;
        if ((pages[i] & 1) != 0 && (is_used(gap->end) || is_used(gap->end + n / 2 * page))) {
            return_gap(gap);
            memset(gap->end, 0, n * page);
            gap->start = gap->end + n * page;
        }
    }
}

void *hk_large_zero(void *block, size_t bytes)
{
    bool in_span = !hk_entry_is_large(hk_page_map_lookup((uintptr_t)block));
    if (!in_span) /* leaves out the slack that a purge may cut off */
        bytes = HK_UNDER(&hk_large.lock, hk_large_held(hk_large_at((uintptr_t)block)));
    size_t page = hk_system_page(), head = -(uintptr_t)block & (page - 1),
           tail = ((uintptr_t)block + bytes) & (page - 1);
    char *start = (char *)block + head, *end = (char *)block + bytes - tail;
    memset(block, 0, head);
    memset(end, 0, tail);
    bool unused = (size_t)(end - start) >= PROBED_FROM && seems_unused(start, (size_t)(end - start));
    struct gap gap = {start, unused ? end : start, in_span};
    for (char *at = gap.end; at < end; at = gap.end)
        zero_chunk(at + hk_min((size_t)(end - at), HK_CHUNK - ((uintptr_t)at & (HK_CHUNK - 1))), &gap);
    return_gap(&gap);
    return block;
}
