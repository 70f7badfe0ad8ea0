/* Tests the program's own heaps by their public functions. Each step is made by the first thread, or by a thread that lives for a few steps.
 * Blocks therefore change threads, and caches end with their threads. */
#include <errno.h>
#include <pthread.h>

#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/heap_block.h"
#include "unit/fuzz/shadow.h"
#include "unit/fuzz/world.h"
#include "hakmem.h"
#include "span/descriptor.h"
#include "support/pattern.h"
#include "unit/invariants.h"

enum { OWN_HEAPS = 4, OWN_SLOTS = 128, KIB = 1024, BATCH = 48 };

static struct own_heap {
    hak_heap_t *handle; /* NULL: the heap has ended */
    size_t limit;
    size_t most; /* the largest number of bytes that the program had at one time */
    uint64_t blocks, given, refused, resets;
} heaps[OWN_HEAPS];

static struct own_block {
    unsigned char *p; /* NULL: the slot is empty */
    size_t size, usable;
    uint64_t seed;
    struct own_heap *heap;
} own_slots[OWN_SLOTS];
static uint64_t next_seed;

static struct hak_heap_stats own_stats(const struct own_heap *heap)
{
    struct hak_heap_stats stats;
    FUZZ_CHECK(hak_heap_get_stats(heap->handle, &stats, sizeof stats) == 0 && stats.size == sizeof stats);
    return stats;
}

static size_t own_size(struct fuzz_input *in)
{
    uint8_t magnitude = fuzz_byte(in);
    if (magnitude < 140)
        return fuzz_below(in, 512);
    if (magnitude < 210)
        return fuzz_below(in, 5000);
    if (magnitude < 245)
        return fuzz_below(in, 70000);
    return magnitude < 252 ? fuzz_below(in, 1100000) : fuzz_below(in, 4000000);
}

/* Checks a failed call. The heap's limit refused it and counted the refusal, or the system refused it. */
static void expect_refusal(struct own_heap *heap)
{
    FUZZ_CHECK(errno == ENOMEM && (heap->limit != 0 || heap_rules.xmay_refuse), "(errno %d)", errno);
    uint64_t refused = own_stats(heap).refused;
    FUZZ_CHECK(refused == heap->refused + 1 || (heap_rules.xmay_refuse && refused == heap->refused));
    heap->refused = refused;
}

static void enter_block(struct own_block *block, struct own_heap *heap, void *p, size_t size, size_t align)
{
    *block = (struct own_block){p, size, hak_malloc_usable_size(p), ++next_seed, heap};
    FUZZ_CHECK(hak_heap_of(p) == heap->handle && (uintptr_t)p % align == 0 && block->usable >= size);
    FUZZ_CHECK(shadow_enter(p, block->usable), "(%zu bytes overlap another block)", size);
    pattern_fill(p, size, block->seed);
    heap->blocks++;
}

static void leave_block(struct own_block *block)
{
    FUZZ_CHECK(pattern_holds(block->p, block->size, block->seed) && shadow_leave(block->p, block->usable));
    block->heap->blocks--;
}

static void open_own(struct own_heap *heap, struct fuzz_input *in)
{
    static const size_t limits[] = {0, 0, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB};
    size_t limit = limits[fuzz_below(in, sizeof limits / sizeof limits[0])];
    *heap = (struct own_heap){
        .handle = hak_heap_create("fuzzed", limit), .limit = limit, .most = limit != 0 ? limit : SIZE_MAX};
    FUZZ_CHECK(heap->handle != NULL || heap_rules.xmay_refuse);
}

static void get_own(struct own_block *block, struct fuzz_input *in, uint8_t how)
{
    struct own_heap *heap = &heaps[fuzz_below(in, OWN_HEAPS)];
    size_t size = own_size(in), align = 16;
    if (heap->handle == NULL)
        open_own(heap, in);
    if (heap->handle == NULL)
        return;
    errno = 0;
    void *p;
    if (how % 8 == 0)
        p = hak_heap_calloc(heap->handle, 1, size);
    else if (how % 8 == 1)
        p = hak_heap_aligned_alloc(heap->handle, align = (size_t)16 << fuzz_below(in, 14), size);
    else
        p = hak_heap_malloc(heap->handle, size);
    if (p == NULL) {
        expect_refusal(heap);
        return;
    }
    FUZZ_CHECK(how % 8 != 0 || all_zero(p, size));
    enter_block(block, heap, p, size, align);
    heap->given++;
}

/* Frees the block. hak_heap_free() may get a wrong heap, because it must accept each heap. */
static void put_own(struct own_block *block, struct fuzz_input *in, uint8_t how)
{
    struct own_heap *named = how % 4 == 0 ? &heaps[fuzz_below(in, OWN_HEAPS)] : block->heap;
    leave_block(block);
    if (how % 2 == 0 && named->handle != NULL)
        hak_heap_free(named->handle, block->p);
    else
        hak_free(block->p);
    block->p = NULL;
}

/* Resizes a block in its heap, or moves it to another heap. A realloc that makes a block smaller in its heap must never fail. */
static void resize_own(struct own_block *block, struct fuzz_input *in, uint8_t how)
{
    struct own_block old = *block;
    struct own_heap *to = how % 4 == 0 ? &heaps[fuzz_below(in, OWN_HEAPS)] : old.heap;
    size_t size = own_size(in) + 1;
    if (to->handle == NULL)
        to = old.heap;
    leave_block(block);
    errno = 0;
    void *p = how % 2 == 0 ? hak_heap_realloc(to->handle, old.p, size) : hak_realloc(old.p, size);
    to = how % 2 == 0 ? to : old.heap;
    if (p == NULL) {
        FUZZ_CHECK(to != old.heap || size > old.usable);
        expect_refusal(to);
        size = old.size;
        to = old.heap;
        p = old.p;
    }
    /* The heap counts a refused move of a shrinking block, although realloc then succeeds in place. */
    to->refused = own_stats(to).refused;
    FUZZ_CHECK(pattern_holds(p, size < old.size ? size : old.size, old.seed));
    enter_block(block, to, p, size, 1);
}

static void end_own(struct own_heap *heap, bool stays)
{
    hak_heap_t *handle = heap->handle;
    if (handle == NULL)
        return;
    for (unsigned i = 0; i < OWN_SLOTS; i++)
        if (own_slots[i].p != NULL && own_slots[i].heap == heap) {
            leave_block(&own_slots[i]);
            own_slots[i].p = NULL;
        }
    FUZZ_CHECK(heap->blocks == 0 && (stays ? hak_heap_reset(handle) : hak_heap_destroy(handle)) == 0);
    if (stays) {
        heap->resets++;
        FUZZ_CHECK(own_stats(heap).physical == 0 && own_stats(heap).caches == 0);
        return;
    }
    heap->handle = NULL;
    errno = 0;
    FUZZ_CHECK(hak_heap_malloc(handle, 16) == NULL && errno == EINVAL && hak_heap_reset(handle) == -1);
}

static void limit_own(struct own_heap *heap, size_t limit)
{
    if (heap->handle == NULL)
        return;
    size_t peak = own_stats(heap).peak;
    heap->limit = limit;
    heap->most = limit == 0 ? SIZE_MAX : peak > limit ? peak : limit;
    FUZZ_CHECK(hak_heap_set_limit(heap->handle, limit) == 0 && own_stats(heap).limit == limit);
}

static void check_own(const struct own_heap *heap)
{
    struct hak_heap_stats stats = own_stats(heap);
    size_t small = 0, large = 0;
    for (unsigned i = 0; i < OWN_SLOTS; i++)
        if (own_slots[i].p != NULL && own_slots[i].heap == heap) {
            bool is_large = hk_entry_is_large(hk_page_map_lookup((uintptr_t)own_slots[i].p));
            *(is_large ? &large : &small) += own_slots[i].usable;
        }
    FUZZ_CHECK(stats.live_blocks == heap->blocks, "(%zu for %zu)", (size_t)stats.live_blocks, (size_t)heap->blocks);
    FUZZ_CHECK(stats.live - stats.large == small && stats.large >= large, "(%zu of %zu for %zu)", (size_t)stats.live,
               (size_t)stats.large, small);
    FUZZ_CHECK(stats.mallocs >= heap->given && stats.resets == heap->resets && stats.refused >= heap->refused);
    FUZZ_CHECK(stats.live + stats.cached <= stats.physical && stats.physical <= stats.peak);
    FUZZ_CHECK(stats.peak <= heap->most, "(%zu of %zu)", (size_t)stats.peak, heap->most);
}

static void check_heaps(void)
{
    static struct hk_heap_stats heap_stats;
    for (unsigned i = 0; i < OWN_HEAPS; i++)
        if (heaps[i].handle != NULL)
            check_own(&heaps[i]);
    const char *wrong = heap_is_wrong(&heap_stats);
    FUZZ_CHECK(wrong == NULL, "(%s)", wrong);
}

static void step_own(struct fuzz_input *in, uint8_t op)
{
    uint8_t how = fuzz_byte(in);
    struct own_block *block = &own_slots[fuzz_below(in, OWN_SLOTS)];
    if (op >= 250)
        end_own(&heaps[how % OWN_HEAPS], how % 16 >= 4);
    else if (op >= 246)
        limit_own(&heaps[how % OWN_HEAPS], (size_t)(how / 4) * 32 * KIB);
    else if (op >= 240)
        check_heaps();
    else if (op >= 236)
        world_pass_ms(how);
    else if (op >= 234)
        (void)hak_malloc_trim(0);
    else if (op >= 232)
        how < 64 ? world_refuse(how) : world_heal();
    else if (block->p == NULL)
        get_own(block, in, how);
    else if (op < 160)
        put_own(block, in, how);
    else
        resize_own(block, in, how);
}

static void *run_steps(void *given)
{
    struct fuzz_input *in = given;
    for (unsigned step = 0; step < BATCH && fuzz_next(in); step++)
        step_own(in, fuzz_byte(in));
    return NULL;
}

void fuzz_own_heaps(struct fuzz_input *in)
{
    pthread_t thread;
    shadow_begin();
    world_begin(in);
    while (fuzz_next(in)) {
        if (fuzz_byte(in) >= 64)
            (void)run_steps(in);
        else if (pthread_create(&thread, NULL, run_steps, in) == 0)
            pthread_join(thread, NULL);
    }
    world_heal();
    check_heaps();
    for (unsigned i = 0; i < OWN_SLOTS; i++)
        if (own_slots[i].p != NULL)
            put_own(&own_slots[i], in, 1);
    check_heaps();
    for (unsigned i = 0; i < OWN_HEAPS; i++)
        end_own(&heaps[i], false);
    check_heaps();
}
