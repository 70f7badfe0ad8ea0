#include "span/meta.h"

#include <string.h>

#include "base/bits.h"
#include "base/fatal.h"
#include "base/lock.h"
#include "os/os.h"
#include "span/map.h"

#define GRAIN ((size_t)HK_CACHE_LINE)
#define LARGEST (64 * HK_KIB)
#define ROOMY_CHUNK (512 * HK_KIB)
#define SCARCE_CHUNK (64 * HK_KIB)

struct free_block {
    struct free_block *next;
};

static struct hk_lock meta_lock = HK_LOCK_INIT(HK_RANK_META);

static struct {
    char *next, *end; /* the part of the newest chunk that was never handed out */
    size_t mapped, listed;
    struct free_block *lists[LARGEST / GRAIN + 1]; /* by size / 64 */
} meta;

static void shelve(void *p, size_t size)
{
    struct free_block *block = p;
    block->next = meta.lists[size / GRAIN];
    meta.lists[size / GRAIN] = block;
    meta.listed += size;
}

/* Where address space is scarce, chunks are small; when even those are refused, a page is. */
static bool new_chunk(size_t wanted)
{
    size_t size = hk_max(wanted, hk_map.flat ? ROOMY_CHUNK : SCARCE_CHUNK);
    char *chunk = hk_os.map(size, HK_ACCESS_WRITE);
    if (chunk == NULL) {
        size = hk_align_up(wanted, HK_PAGE);
        chunk = hk_os.map(size, HK_ACCESS_WRITE);
    }
    if (chunk == NULL)
        return false;
    size_t left = (size_t)(meta.end - meta.next);
    if (meta.end == chunk)
        meta.end += size;
    else {
        if (left > 0)
            shelve(meta.next, left <= LARGEST ? left : LARGEST);
        meta.next = chunk;
        meta.end = chunk + size;
    }
    meta.mapped += size;
    return true;
}

static void *take(size_t size)
{
    struct free_block *block = meta.lists[size / GRAIN];
    if (block != NULL) {
        meta.lists[size / GRAIN] = block->next;
        meta.listed -= size;
        return memset(block, 0, size);
    }
    if ((size_t)(meta.end - meta.next) < size && !new_chunk(size))
        return NULL;
    void *p = meta.next;
    meta.next += size;
    return p;
}

void *hk_meta_alloc(size_t size)
{
    hk_assert(size > 0 && size <= LARGEST);
    hk_lock(&meta_lock);
    void *p = take(hk_align_up(size, GRAIN));
    hk_unlock(&meta_lock);
    return p;
}

void hk_meta_free(void *p, size_t size)
{
    hk_lock(&meta_lock);
    shelve(p, hk_align_up(size, GRAIN));
    hk_unlock(&meta_lock);
}

size_t hk_meta_mapped(void)
{
    hk_lock(&meta_lock);
    size_t bytes = meta.mapped;
    hk_unlock(&meta_lock);
    return bytes;
}

size_t hk_meta_unused(void)
{
    hk_lock(&meta_lock);
    size_t bytes = meta.listed + (size_t)(meta.end - meta.next);
    hk_unlock(&meta_lock);
    return bytes;
}

void hk_meta_fork_prepare(void) { hk_lock(&meta_lock); }
void hk_meta_fork_parent(void) { hk_unlock(&meta_lock); }
void hk_meta_fork_child(void) { hk_lock_reset(&meta_lock); }
