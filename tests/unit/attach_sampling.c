/* Tests sampling that starts while the process runs. Inside a round of sampling each allocation counts down. Outside a round, allocations of
 * fine sizes do not. A sampled block is known until it is freed. A tick answers a request from outside the process (attach.h). */
#include "unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "os/os.h"
#include "prof/hooks.h"
#include "prof/attach_sampling.h"
#include "runtime/attach.h"
#include "support/rng.h"
#include "tcache/tcache.h"
#include "unit/live_sites.h"

enum { SLOTS = 300, STEPS = 6000, MOST = 3 << 20, THREADS = 4, ROUNDS = 20000, MANY = 20000 };

struct slot {
    unsigned char *block;
    size_t size;
};

static bool is_open(void) { return !hk_mode_has(HK_MODE_OPEN); }

static void begin(uint64_t mean)
{
    unit_start();
    assert_true(hk_hooks_watch(mean));
}

static size_t some_size(struct rng *rng)
{
    return 64 + rng_below(rng, rng_below(rng, 50) == 0 ? MOST : rng_below(rng, 8) == 0 ? MOST / 16 : 3000);
}

static unsigned char *fresh(struct rng *rng, size_t size)
{
    switch (rng_below(rng, 4)) {
    case 0: return hak_calloc(1, size);
    case 1: return hak_memalign((size_t)16 << rng_below(rng, 8), size);
    default: return hak_malloc(size);
    }
}

static void step(struct slot *slot, struct rng *rng)
{
    size_t size = some_size(rng);
    if (slot->block != NULL)
        assert_int_equal(slot->block[slot->size - 1], slot->size & 255);
    if (slot->block != NULL && rng_below(rng, 3) == 0) {
        hak_free(slot->block);
        slot->block = NULL;
        return;
    }
    slot->block = slot->block == NULL ? fresh(rng, size) : hak_realloc(slot->block, size);
    slot->size = size;
    assert_non_null(slot->block);
    assert_true(hak_malloc_usable_size(slot->block) >= size);
    memset(slot->block, (int)(size & 255), size);
}

/* Samples each block by a mean of one byte and a new round before each call. */
UNIT_TEST(each_call_in_a_round)
{
    static struct slot slots[SLOTS];
    struct rng rng = rng_seeded(3);
    struct live expected = {0, 0};
    begin(1);
    for (unsigned i = 0; i < STEPS; i++) {
        hk_attach_sampling_tick();
        step(&slots[rng_below(&rng, SLOTS)], &rng);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i].block != NULL) {
            expected.blocks++;
            expected.bytes += (int64_t)slots[i].size;
        }
    assert_int_equal(live_now().blocks, expected.blocks);
    assert_int_equal(live_now().bytes, expected.bytes);
    for (unsigned i = 0; i < SLOTS; i++)
        hak_free(slots[i].block);
    assert_int_equal(live_now().blocks, 0);
}

UNIT_TEST(hits_outside)
{
    static void *blocks[MANY];
    begin(1);
    uint64_t before = hk_tcaches_served(CLASS_OF_112);
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = hak_malloc(100);
    assert_int_equal(live_now().blocks, 0);
    for (unsigned i = 0; i < HK_CLASSES; i++)
        hk_attach_sampling_tick();
    uint64_t served = hk_tcaches_served(CLASS_OF_112) - before;
    assert_true(served > 0 && served <= MANY);
    assert_int_equal(hk_load(hk_attach_sampling.xserved[CLASS_OF_112]), hk_tcaches_served(CLASS_OF_112) - before);
    for (unsigned i = 0; i < MANY; i++)
        hak_free(blocks[i]);
}

/* Allocations of sizes that no hit serves count down at all times, also outside rounds. */
UNIT_TEST(large_outside)
{
    begin(1);
    void *one = hak_malloc(40000), *other = hak_malloc(2 << 20);
    assert_int_equal(live_now().blocks, 2);
    other = hak_realloc(other, 5 << 20);
    assert_int_equal(live_now().bytes, 40000 + (5 << 20));
    hak_free(one);
    hak_free(other);
    assert_int_equal(live_now().blocks, 0);
}

static void allocate_in_round(unsigned most, unsigned *calls)
{
    for (*calls = 0; is_open() && *calls < most; ++*calls)
        hak_free(hak_malloc(100));
}

UNIT_TEST(a_round_ends)
{
    unsigned calls;
    begin(1);
    hk_attach_sampling_tick();
    assert_true(is_open());
    allocate_in_round(1000, &calls);
    assert_true(calls > 0 && calls <= 64);
    hk_store(hk_attach_sampling.xfine_mean, UINT32_MAX);
    hk_attach_sampling_tick();
    allocate_in_round(100000, &calls);
    assert_true(calls <= 32768 + 32);
    assert_false(is_open());
}

static uint64_t shown_ns;
static uint64_t clock_shown(void) { return shown_ns; }

UNIT_TEST(a_round_ends_by_the_clock)
{
    unsigned calls;
    begin(UINT32_MAX);
    hk_os.clock_ns = clock_shown;
    hk_attach_sampling_tick();
    for (unsigned i = 0; i < 100; i++)
        hak_free(hak_malloc(100));
    assert_true(is_open());
    shown_ns += 6000000;
    allocate_in_round(1000, &calls);
    assert_true(calls <= 32);
    assert_false(is_open());
}

/* Simulates another thread that closes the round after the calling thread has found the gate shut. */
UNIT_TEST(a_round_ends_amid_a_call)
{
    begin(1);
    hk_attach_sampling_tick();
    assert_true(hk_attach_sampling_picks(hk_tcache_self(), 100));
    hk_store(hk_attach_sampling.xround, false);
    for (unsigned i = 0; i < 100; i++)
        assert_false(hk_attach_sampling_picks(hk_tcache_self(), 100));
}

UNIT_TEST(the_end)
{
    begin(1);
    hk_attach_sampling_tick();
    void *block = hak_malloc(100), *large = hak_malloc(50000);
    assert_int_equal(live_now().blocks, 2);
    hk_attach_sampling_end();
    assert_false(is_open());
    hk_attach_sampling_tick();
    assert_false(is_open());
    void *later = hak_malloc(100), *later_large = hak_malloc(50000);
    assert_int_equal(live_now().blocks, 2);
    hak_free(block);
    hak_free(large);
    assert_int_equal(live_now().blocks, 0);
    hak_free(later);
    hak_free(later_large);
}

static void free_it(void *block) { hak_free(block); }

/* A picked block lies in a heap of HAKMEM's, of which the program sees nothing but ordinary blocks. */
UNIT_TEST(picked_blocks)
{
    struct hak_stats before, after;
    struct hak_heap *heap;
    begin(1);
    assert_non_null(heap = hak_heap_create("of the program", 0));
    assert_int_equal(hak_get_stats(&before, sizeof before), 0);
    hk_attach_sampling_tick();
    char *block = hak_malloc(100), *beside = hak_malloc(100);
    assert_true(hk_attach_sampling_has(hk_page_map_lookup((uintptr_t)block)));
    assert_true(hak_heap_of(block) == NULL);
    assert_int_equal(hak_get_stats(&after, sizeof after), 0);
    assert_int_equal(after.live_blocks, before.live_blocks + 2);
    assert_int_equal(after.mallocs, before.mallocs + 2);
    memset(beside, 7, 100);
    beside = hak_heap_realloc(heap, beside, 5000);
    assert_true(hak_heap_of(beside) == heap && beside[99] == 7);
    hak_heap_free(heap, block);
    assert_int_equal(live_now().blocks, 1);
    assert_int_equal(live_now().bytes, 5000);
    hak_free(beside);
    assert_int_equal(live_now().blocks, 0);
    block = hak_malloc(100);
    hak_free(block);
    unit_dies(free_it, block, "block already free");
    hk_attach_sampling_tick();
    block = hak_malloc(100);
    unit_dies(free_it, block + 16, "pointer inside a block");
    hak_free(block);
    assert_int_equal(hak_heap_destroy(heap), 0);
}

/* Returns this thread's open cache of the heap, or NULL. */
static struct hk_heap_cache *open_cache(const struct hak_heap *heap)
{
    const struct hk_heap_shelf *shelf = &hk_tcache_self()->shelf;
    struct hk_heap_cache *cache = heap->index < shelf->size ? hk_load(shelf->caches[heap->index]->xhit) : &hk_no_cache;
    return cache != &hk_no_cache ? cache : NULL;
}

static void *in_open_cache(struct hak_heap *heap, size_t size)
{
    hak_free(hak_heap_malloc(heap, size));
    assert_non_null(open_cache(heap));
    return hak_heap_malloc(heap, size);
}

/* Sampling shuts the caches of user heaps, so that it counts each allocation and sees each free of a sample. At its end, the caches open again. */
UNIT_TEST(user_heaps)
{
    unit_start();
    struct hak_heap *heap = hak_heap_create("of the program", 0);
    void *before = in_open_cache(heap, 100);
    assert_true(hk_hooks_watch(1));
    hk_attach_sampling_tick();
    uint64_t served = hk_load(hk_attach_sampling.xserved[CLASS_OF_112]);
    hak_free(before);
    void *freed = hak_heap_malloc(heap, 100), *stays = hak_heap_malloc(heap, 100);
    assert_null(open_cache(heap));
    assert_int_equal(live_now().blocks, 2);
    unit_in_thread(free_it, freed);
    assert_int_equal(live_now().blocks, 1);
    hk_attach_sampling_tick();
    assert_int_equal(hk_load(hk_attach_sampling.xserved[CLASS_OF_112]), served + 2);
    void *picked = hak_malloc(100);
    hk_hooks_unwatch();
    assert_int_equal(live_now().blocks, 1);
    hak_free(stays);
    hak_free(in_open_cache(heap, 100));
    hak_free(picked);
    unit_dies(free_it, picked, "block already free");
    assert_int_equal(live_now().blocks, 0);
    assert_int_equal(hak_heap_destroy(heap), 0);
}

/* A thread may have found the sampling on, and may sample a block of a user heap only after the sampling has ended. */
UNIT_TEST(user_heap_after_the_end)
{
    begin(1);
    struct hak_heap *heap = hak_heap_create("of the program", 0);
    hk_hooks_unwatch();
    void *block = hak_heap_malloc(heap, 100);
    hk_hooks_picked(block, 100, NULL);
    assert_int_equal(live_now().blocks, 0);
    hak_free(block);
}

static bool refuses;
static void *(*real_map)(size_t size);
static void *map_or_not(size_t size) { return refuses ? NULL : real_map(size); }

/* If memory is refused, the process continues without sampling, and a later request succeeds. */
UNIT_TEST(no_memory)
{
    unit_start();
    real_map = hk_os.map;
    hk_os.map = map_or_not;
    refuses = true;
    hk_store(hk_attach_state.xwanted, 4096);
    hk_gate_shut(HK_SHUT_FINE);
    hk_attach_look();
    assert_int_equal(hk_load(hk_attach_state.xstate), HK_ATTACHED_REFUSED);
    assert_false(is_open() || hk_mode_has(HK_MODE_HOOKS));
    refuses = false;
    hk_store(hk_attach_state.xwanted, 4096);
    hk_attach_look();
    assert_int_equal(hk_load(hk_attach_state.xstate), HK_ATTACHED);
    assert_true(is_open());
    assert_int_equal(hk_hooks.mean, 4096);
    hk_store(hk_attach_state.xwanted, HK_ATTACH_END);
    hk_attach_look();
    assert_int_equal(hk_load(hk_attach_state.xstate), HK_ATTACHED_ENDED);
    assert_int_equal(hk_load(hk_attach_state.xwanted), 0);
    assert_false(is_open());
}

/* The process is sampled from its start, so a request to begin changes nothing. Hits were disabled at the start for good because hooks are on. */
UNIT_TEST(with_hooks_already)
{
    hk_options.heap_sample = 4096;
    unit_start();
    hk_store(hk_attach_state.xwanted, 1);
    hk_attach_look();
    assert_int_equal(hk_load(hk_attach_state.xstate), HK_ATTACHED);
    assert_false(hk_hooks.watches);
    assert_int_equal(hk_hooks.mean, 4096);
}

UNIT_TEST(with_a_ring)
{
    hk_options.trace_ring = 16;
    unit_start();
    hk_store(hk_attach_state.xwanted, 4096);
    hk_attach_look();
    assert_int_equal(hk_load(hk_attach_state.xstate), HK_ATTACHED_REFUSED);
    assert_true(is_open());
}

static void *churn(void *seed)
{
    static const unsigned slots_each = 50;
    struct slot slots[50] = {{NULL, 0}};
    struct rng rng = rng_seeded((uintptr_t)seed);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct slot *slot = &slots[rng_below(&rng, slots_each)];
        hak_free(slot->block);
        slot->block = hak_malloc(slot->size = 16 + rng_below(&rng, 2000));
        slot->block[0] = 1;
    }
    for (unsigned i = 0; i < slots_each; i++)
        hak_free(slots[i].block);
    return NULL;
}

/* A tick reads counters that hits of other threads write without synchronization. The thread sanitizer would report this as a data race. */
UNIT_TEST(threads)
{
    pthread_t all[THREADS];
    if (UNIT_UNDER_TSAN)
        return;
    begin(2048);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&all[i], NULL, churn, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < 200; i++) {
        uint32_t before = (uint32_t)hk_load(hk_attach_sampling.xrounds);
        hk_attach_sampling_tick();
        assert_true(hk_load(hk_attach_sampling.xrounds) > before);
        usleep(100);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(all[i], NULL), 0);
    assert_int_equal(live_now().blocks, 0);
    /* No upper bound is checked because ticks of the learner open rounds too. */
    assert_in_range(hk_load(hk_attach_sampling.xrounds), 200, UINT32_MAX);
}

/* After a fork inside a round, the child's round ends as well. */
UNIT_TEST(fork_in_a_round)
{
    begin(1);
    hk_attach_sampling_tick();
    void *block = hak_malloc(100);
    pid_t child = fork();
    if (child == 0) {
        unsigned calls;
        hak_free(block);
        allocate_in_round(1000, &calls);
        _exit(live_now().blocks != 0 || is_open());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(live_now().blocks, 1);
    hak_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_in_a_round),
        cmocka_unit_test(hits_outside),
        cmocka_unit_test(large_outside),
        cmocka_unit_test(a_round_ends),
        cmocka_unit_test(a_round_ends_by_the_clock),
        cmocka_unit_test(a_round_ends_amid_a_call),
        cmocka_unit_test(the_end),
        cmocka_unit_test(picked_blocks),
        cmocka_unit_test(user_heaps),
        cmocka_unit_test(user_heap_after_the_end),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(with_hooks_already),
        cmocka_unit_test(with_a_ring),
        cmocka_unit_test(threads),
        cmocka_unit_test(fork_in_a_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
