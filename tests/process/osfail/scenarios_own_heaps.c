/* These scenarios allocate small, medium and large blocks in private heaps, reset the heaps, and destroy a heap after the system refused memory. */
#include <errno.h>

#include "hakmem.h"
#include "process/osfail/held.h"
#include "process/osfail/scenarios.h"
#include "support/check.h"
#include "support/pattern.h"

enum { MOST = 256 };

static void *must_or_refused(void *block, const char *what)
{
    CHECK(block != NULL || (!held_healthy && errno == ENOMEM), "%s: errno %d", what, errno);
    return block;
}

static hak_heap_t *created(size_t limit)
{
    hak_heap_t *heap = hak_heap_create("osfail", limit);
    CHECK(heap != NULL || !held_healthy, "create");
    return heap;
}

static void ended(hak_heap_t *heap)
{
    struct hak_heap_stats stats;
    CHECK(hak_heap_reset(heap) == 0, "reset");
    CHECK(hak_heap_get_stats(heap, &stats, sizeof stats) == 0 && stats.physical == 0 && stats.live == 0 &&
              stats.cached == 0,
          "%zu bytes are left", (size_t)stats.physical);
    CHECK(hak_heap_destroy(heap) == 0, "destroy");
}

/* Allocates sizes from `size` on, each larger by half, so that small, medium and large blocks occur. Resizes some blocks, and frees half. */
static void blocks_of_heap(size_t size, size_t count)
{
    unsigned char *blocks[MOST];
    size_t sizes[MOST];
    hak_heap_t *heap = created(0);
    for (size_t i = 0; heap != NULL && i < count; i++, size += size / 2) {
        sizes[i] = size;
        blocks[i] =
            must_or_refused(i % 3 == 0 ? hak_heap_calloc(heap, 1, size) : hak_heap_malloc(heap, size), "malloc");
        if (blocks[i] != NULL)
            pattern_fill(blocks[i], size, i);
    }
    for (size_t i = 0; heap != NULL && i < count; i++) {
        unsigned char *resized =
            blocks[i] != NULL ? must_or_refused(hak_realloc(blocks[i], sizes[i] * 2), "realloc") : NULL;
        blocks[i] = resized != NULL ? resized : blocks[i];
        CHECK(blocks[i] == NULL || (pattern_holds(blocks[i], sizes[i], i) && hak_heap_of(blocks[i]) == heap),
              "block %zu", i);
        if (i % 2 == 0)
            hak_free(blocks[i]);
    }
    if (heap != NULL)
        ended(heap);
}

/* Allocates many blocks of one size, so that the heap needs slabs, bins and the arrays of the bins. */
static void slabs_of_heap(size_t size, size_t count)
{
    hak_heap_t *heap = created(0);
    for (size_t round = 0; heap != NULL && round < 2; round++) {
        for (size_t i = 0; i < count; i++) {
            void *block = must_or_refused(hak_heap_malloc(heap, size), "malloc");
            if (i % 4 != 0)
                hak_free(block);
        }
        CHECK(hak_heap_reset(heap) == 0, "reset");
    }
    if (heap != NULL)
        ended(heap);
}

static void many_heaps(size_t size, size_t count)
{
    hak_heap_t *heaps[MOST];
    for (size_t i = 0; i < count; i++) {
        heaps[i] = created(1 << 20);
        void *block = heaps[i] != NULL ? must_or_refused(hak_heap_malloc(heaps[i], size), "malloc") : NULL;
        hak_free(block);
    }
    for (size_t i = 0; i < count; i++)
        if (heaps[i] != NULL)
            ended(heaps[i]);
}

const struct scenario scenarios_own_heaps[] = {
    {"own heap: blocks of each kind", blocks_of_heap, 20, 28, 0, 0},
    {"own heap: slabs", slabs_of_heap, 200, 3000, 0, 0},
    {"own heap: medium blocks", slabs_of_heap, 300000, 12, 0, 0},
    {"own heap: a hundred", many_heaps, 100, 100, 0, 0},
    {"own heap: scarce addresses", blocks_of_heap, 20, 24, (size_t)1 << 30, 0},
    {NULL, NULL, 0, 0, 0, 0},
};
