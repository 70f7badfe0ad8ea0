#include "span/meta.h"

#include <string.h>

#include "base/bits.h"
#include "base/fatal.h"
#include "base/lock.h"
#include "os/os.h"
#include "span/map.h"

#define GRAIN ((size_t)HK_CACHE_LINE)
#define COARSE_GRAIN (1 * HK_KIB) /* of sizes from COARSE_FROM on: there are few, and 1024 lists would lie over three pages */
#define COARSE_FROM (4 * HK_KIB)
#define LARGEST (64 * HK_KIB)
#define ROOMY_CHUNK (512 * HK_KIB)
#define SCARCE_CHUNK (64 * HK_KIB)

struct free_block {
    struct free_block *next;
};

static struct {
    struct hk_lock lock;
    char *next, *end; /* the part of the newest chunk that was never handed out */
    size_t mapped, listed;
    struct free_block *fine[COARSE_FROM / GRAIN], *coarse[LARGEST / COARSE_GRAIN + 1]; /* by size */
} meta = {.lock = HK_LOCK_INIT(HK_RANK_META)};

static size_t rounded(size_t size) { return hk_align_up(size, size < COARSE_FROM ? GRAIN : COARSE_GRAIN); }

static struct free_block **list_of(size_t size)
{
    return size < COARSE_FROM ? &meta.fine[size / GRAIN] : &meta.coarse[size / COARSE_GRAIN];
}

static void shelve(void *p, size_t size)
{
    struct free_block *block = p, **list = list_of(size);
    block->next = *list;
    *list = block;
    meta.listed += size;
}

/* What is left of a chunk: as a coarse block and a fine one. */
static void shelve_rest(char *rest, size_t size)
{
    size_t coarse = size < COARSE_FROM ? 0 : hk_min(hk_align_down(size, COARSE_GRAIN), LARGEST);
    if (coarse > 0)
        shelve(rest, coarse);
    if (size - coarse > 0 && size - coarse < COARSE_FROM)
        shelve(rest + coarse, size - coarse);
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
        shelve_rest(meta.next, left);
        meta.next = chunk;
        meta.end = chunk + size;
    }
    meta.mapped += size;
    return true;
}

static void *take(size_t size)
{
    struct free_block **list = list_of(size), *block = *list;
    if (block != NULL) {
        *list = block->next;
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
    hk_lock(&meta.lock);
    void *p = take(rounded(size));
    hk_unlock(&meta.lock);
    return p;
}

void hk_meta_free(void *p, size_t size)
{
    hk_lock(&meta.lock);
    shelve(p, rounded(size));
    hk_unlock(&meta.lock);
}

size_t hk_meta_mapped(void)
{
    hk_lock(&meta.lock);
    size_t bytes = meta.mapped;
    hk_unlock(&meta.lock);
    return bytes;
}

size_t hk_meta_unused(void)
{
    hk_lock(&meta.lock);
    size_t bytes = meta.listed + (size_t)(meta.end - meta.next);
    hk_unlock(&meta.lock);
    return bytes;
}

void hk_meta_fork_prepare(void) { hk_lock(&meta.lock); }
void hk_meta_fork_parent(void) { hk_unlock(&meta.lock); }
void hk_meta_fork_child(void) { hk_lock_reset(&meta.lock); }
