/* Keeps the magazines of a thread. A magazine is a batch of free blocks of one class. Also returns free blocks to their slabs. */
#include "tcache/layout.h"
#include "slab/slab_heap.h"
#include "span/meta.h"

enum {
    MAGAZINES_PER_AGING = 64, /* most magazines that an epoch flushes, which takes at most about 100 us */
    MAX_SPARES = 16,          /* most empty magazines that a depot keeps for reuse */
    MAX_SPREAD = 4,  /* blocks are close if the address range around them is at most 4 times as long as the blocks */
    SAMPLE_STEP = 8, /* the test of closeness looks at one block in 8 */
};

static struct hk_magazine *empty_magazine(struct hk_depot *depot)
{
    struct hk_magazine *magazine = depot->spare;
    if (magazine == NULL)
        return hk_meta_alloc(sizeof *magazine);
    depot->spare = magazine->next;
    depot->spares--;
    return magazine;
}

static void drop_magazine(struct hk_depot *depot, struct hk_magazine *magazine)
{
    if (depot->spares == MAX_SPARES) {
        hk_meta_free(magazine, sizeof *magazine);
        return;
    }
    magazine->next = depot->spare;
    depot->spare = magazine;
    depot->spares++;
}

static void free_spares(struct hk_depot *depot, unsigned most)
{
    for (; most > 0 && depot->spares > 0; most--)
        hk_meta_free(empty_magazine(depot), sizeof(struct hk_magazine));
}

/* Returns true if the blocks lie close together, as they do if a program frees a burst of blocks in the order of their allocation. The depot refuses
 * scattered blocks, because they would scatter the program's next objects. Refused blocks go to their slabs, which hand out blocks by address. */
static bool are_close(void *const *blocks, size_t n, size_t bytes)
{
    uintptr_t lowest = UINTPTR_MAX, highest = 0;
    for (size_t i = 0; i < n; i += SAMPLE_STEP) {
        lowest = hk_min(lowest, (uintptr_t)blocks[i]);
        highest = hk_max(highest, (uintptr_t)blocks[i]);
    }
    return highest - lowest <= MAX_SPREAD * bytes;
}

bool hk_depot_put(struct hk_depot *depot, unsigned class, void *const *blocks, size_t n)
{
    struct hk_depot_class *of_class = &depot->classes[class];
    size_t bytes = n * hk_classes[class].size;
    if (n > HK_MAGAZINE_BLOCKS || depot->bytes + bytes > HK_POLICY(depot) || !are_close(blocks, n, bytes))
        return false;
    struct hk_magazine *magazine = empty_magazine(depot);
    if (magazine == NULL)
        return false;
    memcpy(magazine->blocks, blocks, n * sizeof(void *));
    magazine->count = n;
    magazine->next = of_class->newest;
    of_class->newest = magazine;
    of_class->blocks += n;
    depot->bytes += bytes;
    return true;
}

static struct hk_magazine *unlink_newest(struct hk_depot *depot, unsigned class)
{
    struct hk_depot_class *of_class = &depot->classes[class];
    struct hk_magazine *magazine = of_class->newest;
    of_class->newest = magazine->next;
    of_class->blocks -= magazine->count;
    depot->bytes -= magazine->count * hk_classes[class].size;
    return magazine;
}

size_t hk_depot_take(struct hk_depot *depot, unsigned class, void **blocks, size_t room)
{
    struct hk_depot_class *of_class = &depot->classes[class];
    if (of_class->newest == NULL || of_class->newest->count > room)
        return 0;
    struct hk_magazine *magazine = unlink_newest(depot, class);
    size_t n = magazine->count;
    memcpy(blocks, magazine->blocks, n * sizeof(void *));
    drop_magazine(depot, magazine);
    of_class->drawn_on = true;
    return n;
}

/* Returns the blocks of up to `most` magazines of the class to their slabs. Returns the number of these magazines. */
static unsigned flush_magazines(struct hk_tcache *cache, unsigned class, unsigned most)
{
    struct hk_depot *depot = &cache->depot;
    unsigned magazines = 0;
    for (; depot->classes[class].newest != NULL && magazines < most; magazines++) {
        struct hk_magazine *magazine = unlink_newest(depot, class);
        hk_flush(cache, magazine->blocks, (unsigned)magazine->count);
        cache->flushed += magazine->count * hk_classes[class].size;
        drop_magazine(depot, magazine);
    }
    return magazines;
}

void hk_depot_reclaim(struct hk_tcache *cache, unsigned class, size_t bytes)
{
    struct hk_depot *depot = &cache->depot;
    size_t keep = depot->bytes - hk_min(depot->bytes, bytes), most = 0;
    unsigned fullest = class;
    for (unsigned other = 0; other < HK_CLASSES; other++) {
        size_t held = depot->classes[other].blocks * hk_classes[other].size;
        if (other != class && held > most) {
            fullest = other;
            most = held;
        }
    }
    while (depot->bytes > keep && flush_magazines(cache, fullest, 1) > 0)
        continue;
}

void hk_depot_age(struct hk_tcache *cache)
{
    struct hk_depot *depot = &cache->depot;
    unsigned left = MAGAZINES_PER_AGING;
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        if (!depot->classes[class].drawn_on)
            left -= flush_magazines(cache, class, left);
        depot->classes[class].drawn_on = false;
    }
    free_spares(depot, 1);
}

void hk_depot_empty(struct hk_tcache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES && cache->depot.bytes > 0; class ++)
        flush_magazines(cache, class, UINT32_MAX);
    free_spares(&cache->depot, UINT32_MAX);
}

size_t hk_depot_forget(struct hk_depot *depot)
{
    size_t blocks = 0;
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        blocks += depot->classes[class].blocks;
    memset(depot, 0, sizeof *depot);
    return blocks;
}

/* Frees a block that is not in a slab of this thread, but in another owner's slab or in an abandoned slab. */
static HK_NOINLINE void flush_remote(struct hk_tcache *cache, void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    if (hk_entry_owner(entry) >= HK_FIRST_OWNER)
        hk_outbox_put(&cache->outbox, block);
    else
        hk_remote_free(block, entry);
}

void hk_flush(struct hk_tcache *cache, void *const *blocks, unsigned n)
{
    for (unsigned done = hk_slab_heap_free(&cache->owner, blocks, n); done < n;) {
        flush_remote(cache, blocks[done++]);
        done += hk_slab_heap_free(&cache->owner, blocks + done, n - done);
    }
}
