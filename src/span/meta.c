/* Allocates metadata by lines of 64 bytes and by pages. */
#include "span/meta.h"

#include <string.h>

#include "base/bits.h"
#include "base/message.h"
#include "os/os.h"
#include "span/meta_regions.h"

#define LARGEST_BLOCK (32 * HK_KIB)
#define MOST_LISTED (32 * HK_KIB) /* blocks that come and go need no bitmap */
enum { RANGE_LINES = 2 * HK_PAGE / HK_META_LINE };

static void *from_range(size_t size)
{
    char *p = hk_meta.range.start;
    hk_meta.range.start += size;
    return hk_meta.range.zero ? p : memset(p, 0, size);
}

static void *from_fresh(size_t size)
{
    if (hk_meta_fresh_bytes() < size) {
        hk_meta_return_fresh();
        if (!hk_meta_more_areas())
            return NULL;
    }
    void *p = hk_meta.fresh;
    hk_meta.fresh += size;
    return p;
}

/* Prefers lines that were in use before to fresh ones. */
static HK_NOINLINE void *from_areas(size_t size)
{
    unsigned lines = hk_meta_lines(size);
    if (hk_meta_range_bytes() > 0)
        hk_meta_return_range();
    if (hk_meta.free >= size)
        hk_meta.range = hk_meta_take(lines, (unsigned)hk_max(lines, RANGE_LINES));
    return hk_meta_range_bytes() >= size ? from_range(size) : from_fresh(size);
}

static void *alloc_locked(size_t size)
{
    struct hk_meta_block **list = &hk_meta.listed[size < HK_META_LISTED_TO ? hk_meta_lines(size) : 0], *block = *list;
    if (block != NULL) {
        *list = block->next;
        hk_meta.listed_bytes -= size;
        return memset(block, 0, size);
    }
    return hk_meta_range_bytes() >= size ? from_range(size) : from_areas(size);
}

void *hk_meta_alloc(size_t size)
{
    hk_assert(size > 0);
    if (size > LARGEST_BLOCK)
        return hk_meta_pages(size);
    hk_lock(&hk_meta.lock);
    void *p = alloc_locked(hk_align_up(size, HK_META_LINE));
    hk_unlock(&hk_meta.lock);
    return p;
}

void hk_meta_free(void *p, size_t size)
{
    hk_assert(size <= LARGEST_BLOCK);
    size = hk_align_up(size, HK_META_LINE);
    hk_lock(&hk_meta.lock);
    if (size < HK_META_LISTED_TO && hk_meta.listed_bytes + size <= MOST_LISTED) {
        struct hk_meta_block *block = p, **list = &hk_meta.listed[hk_meta_lines(size)];
        block->next = *list;
        *list = block;
        hk_meta.listed_bytes += size;
    } else {
        hk_meta_return(p, size);
    }
    hk_unlock(&hk_meta.lock);
}

void *hk_meta_pages(size_t size)
{
    void *p = NULL;
    size = hk_in_system_pages(size);
    hk_lock(&hk_meta.lock);
    if ((size_t)(hk_meta.pages_end - hk_meta.next_page) >= size || hk_meta_more_pages(size)) {
        p = hk_meta.next_page;
        hk_meta.next_page += size;
        hk_meta.in_pages += size;
    }
    hk_unlock(&hk_meta.lock);
    return p;
}

bool hk_meta_rest(void *p, size_t size)
{
    bool gone = hk_os.purge(p, size);
    hk_lock(&hk_meta.lock);
    hk_meta.resting += gone ? size : 0;
    hk_unlock(&hk_meta.lock);
    return gone;
}

void hk_meta_wake(size_t size)
{
    hk_lock(&hk_meta.lock);
    hk_meta.resting -= hk_min(hk_meta.resting, size); /* a fork may have come between a purge and its count */
    hk_unlock(&hk_meta.lock);
}

size_t hk_meta_mapped(void)
{
    hk_lock(&hk_meta.lock);
    size_t bytes = hk_meta.mapped;
    hk_unlock(&hk_meta.lock);
    return bytes;
}

size_t hk_meta_unused(void)
{
    hk_lock(&hk_meta.lock);
    size_t in_areas =
        hk_meta.areas - hk_meta.free - hk_meta.listed_bytes - hk_meta_range_bytes() - hk_meta_fresh_bytes();
    size_t in_use = in_areas + hk_meta.in_pages - hk_meta.resting;
    size_t bytes = hk_meta.mapped - in_use;
    hk_unlock(&hk_meta.lock);
    return bytes;
}

size_t hk_meta_spare(void)
{
    hk_lock(&hk_meta.lock);
    size_t bytes = hk_meta_spare_locked();
    hk_unlock(&hk_meta.lock);
    return bytes;
}

bool hk_meta_next(uintptr_t *from, uintptr_t *to)
{
    uintptr_t start = *to, end = *to;
    hk_lock(&hk_meta.lock);
    for (const struct hk_region *region = hk_meta.newest; region != NULL; region = region->older) {
        uintptr_t first = hk_max(region->start, *from), behind = hk_min(region->end, *to);
        if (first < behind && first < start) {
            start = first;
            end = behind;
        }
    }
    hk_unlock(&hk_meta.lock);
    *from = start;
    *to = end;
    return start < end;
}

void hk_meta_init(void) { hk_lock_register(HK_RANK_META, &hk_meta.lock); }
