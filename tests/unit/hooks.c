/* Tests that the hooks see every call on every path. If every block is sampled, the live bytes of the sites are those of the program. */
#include "unit/unit.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prof/hooks.h"
#include "hakmem.h"
#include "runtime/lifecycle.h"
#include "support/rng.h"
#include "unit/live_sites.h"

enum { SLOTS = 300, STEPS = 20000, LEAST = 64, MOST = 3 << 20 };

struct slot {
    char *block;
    size_t size;
};

static void assert_live(int64_t blocks, int64_t bytes)
{
    struct live live = live_now();
    assert_int_equal(live.blocks, blocks);
    assert_int_equal(live.bytes, bytes);
}

/* Starts sampling with a mean of one byte. The probability that a block of 64 bytes or more is not sampled is then at most e^-64. */
static void start_watching(void)
{
    hk_options.heap_sample = 1;
    unit_start();
    assert_true(hk_mode_has(HK_MODE_HOOKS));
}

static char *fresh(struct rng *rng, size_t size)
{
    switch (rng_below(rng, 4)) {
    case 0: return hak_calloc(1, size);
    case 1: return hak_memalign((size_t)16 << rng_below(rng, 14), size);
    default: return hak_malloc(size);
    }
}

static size_t some_size(struct rng *rng)
{
    return LEAST + rng_below(rng, rng_below(rng, 50) == 0 ? MOST : rng_below(rng, 8) == 0 ? 200000 : 3000);
}

static void step(struct slot *slot, struct rng *rng)
{
    if (slot->block == NULL) {
        slot->size = some_size(rng);
        slot->block = fresh(rng, slot->size);
    } else if (rng_below(rng, 2) == 0) {
        slot->size = some_size(rng);
        slot->block = hak_realloc(slot->block, slot->size);
    } else {
        hak_free(slot->block);
        *slot = (struct slot){NULL, 0};
        return;
    }
    assert_non_null(slot->block);
}

static void use_heap(void *argument)
{
    struct slot *slots = argument;
    struct rng rng = rng_seeded(4);
    for (int i = 0; i < STEPS; i++)
        step(&slots[rng_below(&rng, SLOTS)], &rng);
}

static void assert_slots_live(const struct slot *slots)
{
    struct live live = {0, 0};
    for (int i = 0; i < SLOTS; i++) {
        live.blocks += slots[i].block != NULL;
        live.bytes += (int64_t)slots[i].size;
    }
    assert_true(live.blocks > 0);
    assert_live(live.blocks, live.bytes);
}

static void free_all(struct slot *slots)
{
    for (int i = 0; i < SLOTS; i++)
        hak_free(slots[i].block);
    assert_live(0, 0);
}

static struct slot slots[SLOTS];

UNIT_TEST(sites_hold_what_the_program_holds)
{
    hk_options.trace_ring = 16;
    start_watching();
    use_heap(slots);
    assert_slots_live(slots);
    free_all(slots);
    unit_heap_holds(0);
}

UNIT_TEST(across_threads)
{
    start_watching();
    unit_in_thread(use_heap, slots);
    assert_slots_live(slots);
    free_all(slots);
}

UNIT_TEST(without_a_cache)
{
    start_watching();
    hk_tcache_end();
    assert_true(hk_tcache_ended());
    void *block = hak_malloc(1000);
    assert_live(1, 1000);
    hak_free(block);
    assert_live(0, 0);
}

UNIT_TEST(in_a_fork_child)
{
    int status = -1;
    start_watching();
    char *block = hak_malloc(1000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        hak_free(block);
        block = hak_malloc(5000);
        assert_live(1, 5000);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_live(1, 1000);
    hak_free(block);
}

/* If a block cannot be resized, it still exists, and the statistics count it as before. */
UNIT_TEST(refused_resize)
{
    start_watching();
    char *block = hak_malloc(8 << 20);
    assert_non_null(block);
    fake_os_refuse(fake_refuse_all);
    assert_null(hak_realloc(block, (size_t)1 << 30));
    fake_os_refuse(NULL);
    assert_live(1, 8 << 20);
    hak_free(block);
    assert_live(0, 0);
}

/* The samples contain each block of a user heap, on every path, until it is freed or its heap is reset. */
UNIT_TEST(user_heaps)
{
    start_watching();
    struct hak_heap *heap = hak_heap_create("tenant", 0), *other = hak_heap_create("other", 0);
    char *small = hak_heap_malloc(heap, 1000), *zeroed = hak_heap_calloc(heap, 10, 500),
         *freed = hak_heap_malloc(heap, 200);
    char *aligned = hak_heap_aligned_alloc(heap, 4096, 3000), *large = hak_heap_malloc(heap, 2 << 20);
    char *stays = hak_heap_malloc(other, 700);
    assert_live(6, 1000 + 5000 + 200 + 3000 + (2 << 20) + 700);
    unit_in_thread(hak_free, freed);
    hak_heap_free(heap, aligned);
    assert_live(4, 1000 + 5000 + (2 << 20) + 700);
    small = hak_realloc(small, 9000);
    large = hak_heap_realloc(heap, large, 5 << 20);
    assert_live(4, 9000 + 5000 + (5 << 20) + 700);
    fake_os_refuse(fake_refuse_all);
    assert_null(hak_realloc(large, (size_t)1 << 30));
    fake_os_refuse(NULL);
    assert_live(4, 9000 + 5000 + (5 << 20) + 700);
    assert_int_equal(hak_heap_reset(heap), 0);
    assert_live(1, 700);
    zeroed = hak_heap_malloc(heap, 400);
    assert_live(2, 1100);
    assert_int_equal(hak_heap_destroy(heap), 0);
    hak_free(stays);
    assert_live(0, 0);
    (void)small, (void)zeroed;
}

/* If there is no memory for the tables, one line says so and the heap works without sampling. */
UNIT_TEST(no_memory)
{
    if (UNIT_UNDER_TSAN)
        return;
    hk_options.heap_sample = 1;
    /* No file can be written at this path, but without sampling HAKMEM writes no file, so no message may appear. */
    hk_options.heap_profile = "/no/such/folder/profile";
    fake_os_capture();
    fake_os_refuse(fake_refuse_map);
    (void)hk_started();
    fake_os_refuse(NULL);
    fake_os.capturing = false;
    if (hk_hooks.mean != 0)
        fail_msg("the tables were not refused: \"%s\"", fake_os.captured);
    assert_string_equal(fake_os.captured, "hakmem: no memory for the heap profile: sampling is off\n");
    assert_false(hk_mode_has(HK_MODE_HOOKS));
    assert_null(hk_options.heap_profile);
    assert_int_equal(hak_heap_profile("-"), -1);
    void *block = hak_malloc(100);
    assert_non_null(block);
    hak_free(block);
}

UNIT_TEST(off)
{
    unit_start();
    assert_false(hk_mode_has(HK_MODE_HOOKS));
    void *block = hak_malloc(100);
    hak_free(block);
    assert_ptr_equal(hk_hit_malloc(100), block);
    struct hk_thread_state *hot;
    size_t offset;
    assert_int_equal(hk_hit_free(block, &hot, &offset), HK_FREE_DONE);
}

UNIT_TEST(gate_stays_shut)
{
    hk_options.trace_ring = 4;
    unit_start();
    void *block = hak_malloc(100);
    assert_null(hk_hit_malloc(100));
    struct hk_thread_state *hot;
    size_t offset;
    assert_int_equal(hk_hit_free(block, &hot, &offset), HK_FREE_ELSEWHERE);
    hak_free(block);
    assert_ptr_equal(hak_malloc(100), block);
    hak_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sites_hold_what_the_program_holds),
                                       cmocka_unit_test(across_threads),
                                       cmocka_unit_test(without_a_cache),
                                       cmocka_unit_test(in_a_fork_child),
                                       cmocka_unit_test(refused_resize),
                                       cmocka_unit_test(user_heaps),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(off),
                                       cmocka_unit_test(gate_stays_shut)};
    return cmocka_run_group_tests_name("hooks", tests, NULL, NULL);
}
