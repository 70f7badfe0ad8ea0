/* Tests which pages of a slab in use are purged, and when. */
#include "unit/unit.h"

#include <string.h>

#include "base/bits.h"
#include "support/knobs.h"
#include "slab/slab_purge.h"
#include "support/rng.h"

enum { OWNER = 7, MOST_BLOCKS = 4096, DELAY = 512 };

static void *blocks[MOST_BLOCKS]; /* a slab's blocks by index, or NULL for a free block */

static struct hk_slab *make_full(unsigned class)
{
    struct hk_slab *slab = unit_slab(class, OWNER);
    assert_non_null(slab);
    unsigned count = slab->d.blocks;
    hk_slab_alloc(slab, blocks + count, count);
    for (unsigned i = 0; i < count / 2; i++) {
        void *other = blocks[i];
        blocks[i] = blocks[count - 1 - i];
        blocks[count - 1 - i] = other;
    }
    memset((void *)slab->d.start, 0xa5, slab->d.bytes);
    return slab;
}

static void give(struct hk_slab *slab, unsigned index)
{
    hk_slab_free(slab, blocks[index]);
    blocks[index] = NULL;
}

/* Returns true if a block in use lies on the page. */
static bool in_use(const struct hk_slab *slab, uintptr_t page)
{
    for (unsigned i = 0; i < slab->d.blocks; i++) {
        uintptr_t start = slab->d.start + (size_t)i * slab->d.block_size;
        if (blocks[i] != NULL && start < page + HK_PAGE && start + slab->d.block_size > page)
            return true;
    }
    return false;
}

static size_t bytes_gone(const struct hk_slab *slab)
{
    size_t gone = 0;
    for (uintptr_t page = slab->d.start; page < slab->d.start + slab->d.bytes; page += HK_PAGE)
        gone += *(const unsigned char *)page == 0 ? HK_PAGE : 0;
    return gone;
}

static void expect_gone(const struct hk_slab *slab)
{
    for (uintptr_t page = slab->d.start; page < slab->d.start + slab->d.bytes; page += HK_PAGE)
        for (unsigned at = 0; at < HK_PAGE; at += HK_PAGE - 1)
            assert_int_equal(*(unsigned char *)(page + at), in_use(slab, page) ? 0xa5 : 0);
}

static size_t purge_all(struct hk_slab *slab)
{
    struct hk_trim trim = hk_trim_begin();
    while (!hk_slab_trim(slab, &trim))
        continue;
    assert_true(hk_slab_is_trimmed(slab, &trim));
    return trim.bytes;
}

/* Sweeps until the slab was visited. Returns true if the sweep purged pages of the slab, because it then moves the slab to the end of the list. */
static bool look(struct hk_slab *slab, struct hk_sweep *sweep)
{
    struct hk_list list;
    struct hk_link other = {NULL, NULL};
    hk_list_init(&list);
    hk_list_push_back(&list, &slab->link);
    hk_list_push_back(&list, &other);
    struct hk_walk walk = {.at = &slab->link, .within = 0};
    do {
        uint64_t calls = fake_os_calls(FAKE_PURGE);
        int64_t rest = hk_sweep_hold(sweep);
        hk_slab_sweep_under(&walk, &list, sweep);
        sweep->work += rest;
        assert_true(fake_os_calls(FAKE_PURGE) <= calls + 1);
        assert_ptr_equal(walk.at, walk.within != 0 ? &slab->link : &other);
    } while (walk.within != 0);
    bool went = list.head.next == &other;
    hk_link_remove(&slab->link);
    hk_link_remove(&other);
    return went;
}

/* For each class and each set of free blocks, the purge returns exactly the pages without a block in use. */
UNIT_TEST(which_pages)
{
    struct rng rng = rng_seeded(3);
    unit_start();
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        for (unsigned kept = 0; kept < 4; kept++) {
            struct hk_slab *slab = make_full(class);
            for (unsigned i = 0; i < slab->d.blocks; i++)
                if (rng_below(&rng, slab->d.blocks) >= kept)
                    give(slab, i);
            size_t bytes = purge_all(slab);
            expect_gone(slab);
            assert_int_equal(bytes, bytes_gone(slab));
            if (slab->d.bytes == HK_SLICE) /* If a slab has more slices, the purge does not remember every range. */
                assert_int_equal(purge_all(slab), 0);
            for (unsigned i = 0; i < slab->d.blocks; i++)
                if (blocks[i] != NULL)
                    give(slab, i);
            hk_slab_release(slab);
        }
}

static uint64_t clock_now(void) { return hk_load(fake_os.xclock_ms); }

/* Returns the result of a sweep `ms` milliseconds after the last change of the slab. */
static bool look_after(struct hk_slab *slab, uint64_t ms)
{
    struct hk_sweep sweep = {.touched = clock_now(), .now = clock_now() + ms, .work = 1000};
    fake_os_pass_ms(ms);
    return look(slab, &sweep);
}

static struct hk_slab *start_with(unsigned class)
{
    SET_KNOB(purge_delay, DELAY);
    unit_start();
    return make_full(class);
}

UNIT_TEST(after_the_delay)
{
    struct hk_slab *slab = start_with(CLASS_OF_4096);
    give(slab, 3);
    give(slab, 4);
    assert_false(look_after(slab, DELAY - 128));
    assert_int_equal(bytes_gone(slab), 0);
    give(slab, 7); /* The delay starts again because these frees change the slab. */
    assert_false(look_after(slab, DELAY - 128));
    assert_true(look_after(slab, 192));
    expect_gone(slab);
}

/* If a thread did not run for a long time, its slabs did not change in this time, so all of it counts toward the delay. */
UNIT_TEST(a_rest_counts)
{
    struct hk_slab *slab = start_with(CLASS_OF_4096);
    give(slab, 3);
    assert_true(look_after(slab, DELAY));
    expect_gone(slab);
}

static uint64_t calls_of_look(struct hk_slab *slab)
{
    fake_os_refuse(NULL);
    look_after(slab, 2 * DELAY);
    return fake_os_calls(FAKE_PURGE);
}

/* Each range of free pages is purged by one system call. The range is purged again only if it has grown, or if its blocks were used since. */
UNIT_TEST(not_twice)
{
    struct hk_slab *slab = start_with(CLASS_OF_1024);
    for (unsigned i = 8; i < 16; i++)
        give(slab, i);
    give(slab, 40);
    assert_int_equal(calls_of_look(slab), 1);
    assert_int_equal(calls_of_look(slab), 0);
    give(slab, 42); /* This completes no page. */
    assert_int_equal(calls_of_look(slab), 0);
    give(slab, 41);
    give(slab, 43);
    assert_int_equal(calls_of_look(slab), 1);
    assert_int_equal(calls_of_look(slab), 0);
    void *block;
    hk_slab_alloc(slab, &block + 1, 1);
    memset(block, 0xa5, 1024);
    assert_int_equal(bytes_gone(slab), 2 * HK_PAGE);
    hk_slab_free(slab, block);
    assert_int_equal(calls_of_look(slab), 2);
    assert_int_equal(bytes_gone(slab), 3 * HK_PAGE);
}

/* Blocks larger than a page are freed one after the other. Each free adds whole pages, and these must be purged. */
UNIT_TEST(neighbours)
{
    static const unsigned classes[] = {CLASS_OF_6144, CLASS_OF_10240, CLASS_OF_20480, CLASS_OF_32768, CLASS_OF_57344};
    SET_KNOB(purge_delay, DELAY);
    unit_start();
    for (unsigned c = 0; c < sizeof classes / sizeof classes[0]; c++) {
        struct hk_slab *slab = make_full(classes[c]);
        for (unsigned i = 0; i + 1 < slab->d.blocks; i++) {
            give(slab, i);
            look_after(slab, 2 * DELAY);
            expect_gone(slab);
        }
    }
}

UNIT_TEST(refused)
{
    struct hk_slab *slab = start_with(CLASS_OF_4096);
    give(slab, 3);
    fake_os_refuse(fake_refuse_purge);
    assert_false(look_after(slab, 2 * DELAY));
    assert_int_equal(purge_all(slab), 0);
    assert_int_equal(bytes_gone(slab), 0);
    fake_os_refuse(NULL);
    assert_int_equal(purge_all(slab), HK_PAGE);
    expect_gone(slab);
}

/* A chunk is full of slabs, of which one is nearly empty. Its huge page is not split until a quarter of the chunk is free. */
UNIT_TEST(huge_pages_stay_whole)
{
    struct hk_slab *slabs[HK_CHUNK_SLICES];
    SET_KNOB(purge_delay, DELAY);
    unit_start();
    for (unsigned i = 0; i < HK_CHUNK_SLICES; i++)
        slabs[i] = make_full(CLASS_OF_4096);
    for (unsigned i = 0; i < HK_CHUNK_SLICES; i++)
        assert_int_equal(slabs[i]->d.start / HK_CHUNK, slabs[0]->d.start / HK_CHUNK);
    hk_page_map_chunk(slabs[0]->d.start)->xhuge = true;
    for (unsigned i = 0; i < 8; i++) {
        for (unsigned b = 0; b < 15; b++)
            hk_slab_free(slabs[i], (void *)(slabs[i]->d.start + b * (size_t)4096));
        assert_false(look_after(slabs[i], 2 * DELAY));
    }
    for (unsigned b = 0; b < 8; b++)
        hk_slab_free(slabs[8], (void *)(slabs[8]->d.start + b * (size_t)4096));
    for (unsigned i = 0; i < 9; i++)
        assert_true(look_after(slabs[i], 2 * DELAY));
}

static bool look_for_growth(struct hk_slab *slab)
{
    struct hk_sweep sweep = {.touched = clock_now(), .now = clock_now(), .work = 1000, .why = HK_SWEEP_GROWTH};
    return look(slab, &sweep);
}

static void take_and_give(struct hk_slab *slab)
{
    void *block;
    hk_slab_alloc(slab, &block + 1, 1);
    memset(block, 0xa5, slab->d.block_size);
    hk_slab_free(slab, block);
}

/* A sweep that runs because the heap grows does not wait for the delay. It skips only slabs whose blocks were allocated since the last sweep. */
UNIT_TEST(for_growth)
{
    struct hk_slab *slab = start_with(CLASS_OF_4096);
    give(slab, 3);
    assert_false(look_for_growth(slab)); /* The slab's blocks were allocated since the last sweep. */
    assert_true(look_for_growth(slab));
    expect_gone(slab);
    give(slab, 7);
    assert_false(look_after(slab, 0));
    give(slab, 8);
    assert_true(look_for_growth(slab)); /* Since the last sweep, blocks were only freed. */
    expect_gone(slab);
    take_and_give(slab);
    assert_false(look_for_growth(slab));
    assert_int_equal(bytes_gone(slab), 2 * HK_PAGE);
    assert_true(look_for_growth(slab));
    expect_gone(slab);
}

/* Purged pages count as clean until a block is allocated or the slab is released. */
UNIT_TEST(clean)
{
    struct hk_slab *slab = start_with(CLASS_OF_4096);
    assert_int_equal(hk_slabs_clean(), 0);
    give(slab, 3);
    give(slab, 4);
    assert_int_equal(hk_slabs_clean(), 0);
    look_after(slab, 2 * DELAY);
    assert_int_equal(hk_slabs_clean(), 2 * HK_PAGE);
    give(slab, 7);
    fake_os_refuse(fake_refuse_purge);
    purge_all(slab);
    assert_int_equal(hk_slabs_clean(), 2 * HK_PAGE);
    fake_os_refuse(NULL);
    purge_all(slab);
    assert_int_equal(hk_slabs_clean(), 3 * HK_PAGE);
    take_and_give(slab);
    assert_int_equal(hk_slabs_clean(), 0);
    for (unsigned i = 0; i < slab->d.blocks; i++)
        if (blocks[i] != NULL)
            give(slab, i);
    purge_all(slab);
    struct hk_slab *longer = make_full(CLASS_OF_32768);
    give(longer, 2);
    assert_int_equal(purge_all(longer), 32768);
    assert_int_equal(hk_slabs_clean(), slab->d.bytes + 32768);
    hk_slab_release(slab);
    assert_int_equal(hk_slabs_clean(), 32768);
    take_and_give(longer);
    assert_int_equal(hk_slabs_clean(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_pages),
        cmocka_unit_test(after_the_delay),
        cmocka_unit_test(a_rest_counts),
        cmocka_unit_test(not_twice),
        cmocka_unit_test(neighbours),
        cmocka_unit_test(refused),
        cmocka_unit_test(huge_pages_stay_whole),
        cmocka_unit_test(for_growth),
        cmocka_unit_test(clean),
    };
    return cmocka_run_group_tests_name("slab_purge", tests, NULL, NULL);
}
