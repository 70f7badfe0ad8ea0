#include "span/meta.h"

#include <string.h>

#include "base/bits.h"
#include "base/fatal.h"
#include "base/lock.h"
#include "os/os.h"

#define GRAIN ((size_t)HK_CACHE_LINE)
#define COARSE_GRAIN (1 * HK_KIB) /* of sizes from COARSE_FROM on: there are few, and 1024 lists would lie over three pages */
#define COARSE_FROM (4 * HK_KIB)
#define LARGEST (64 * HK_KIB)
#define ROOMY_CHUNK (512 * HK_KIB)

struct free_block {
    struct free_block *next;
};

/* At the start of each chunk. */
struct chunk {
    struct chunk *older;
    size_t size;
};

static struct {
    struct hk_lock lock;
    struct chunk *newest;
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

/* One that follows the newest makes that longer. */
static void enter_chunk(char *memory, size_t size)
{
    meta.mapped += size;
    if (meta.end == memory) {
        meta.end += size;
        meta.newest->size += size;
        return;
    }
    shelve_rest(meta.next, (size_t)(meta.end - meta.next));
    struct chunk *chunk = (struct chunk *)(void *)memory;
    *chunk = (struct chunk){meta.newest, size};
    meta.newest = chunk;
    meta.next = memory + GRAIN;
    meta.end = memory + size;
}

/* When a chunk is refused, a page or two may not be. */
static bool new_chunk(size_t wanted)
{
    size_t least = hk_align_up(wanted + GRAIN, HK_PAGE);
    size_t size = hk_max(least, ROOMY_CHUNK);
    char *memory = hk_os.map(size);
    if (memory == NULL) {
        size = least;
        memory = hk_os.map(size);
    }
    if (memory == NULL)
        return false;
    enter_chunk(memory, size);
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

bool hk_meta_next(uintptr_t *from, uintptr_t *to)
{
    uintptr_t start = *to, end = *to;
    hk_lock(&meta.lock);
    for (const struct chunk *chunk = meta.newest; chunk != NULL; chunk = chunk->older) {
        uintptr_t first = hk_max((uintptr_t)chunk, *from), behind = hk_min((uintptr_t)chunk + chunk->size, *to);
        if (first < behind && first < start) {
            start = first;
            end = behind;
        }
    }
    hk_unlock(&meta.lock);
    *from = start;
    *to = end;
    return start < end;
}

void hk_meta_fork_prepare(void) { hk_lock(&meta.lock); }
void hk_meta_fork_parent(void) { hk_unlock(&meta.lock); }
void hk_meta_fork_child(void) { hk_lock_reset(&meta.lock); }
