/* Tests that abandoned slabs are found while they have free blocks, and that they can be adopted, claimed, allocated from in place, and released. */
#include "unit/unit.h"

#include "tcache/tcache.h"
#include "slab/abandoned.h"
#include "span/meta.h"

#include <string.h>

enum { CLASS = CLASS_OF_2048 }; /* blocks of 2 KiB; a slab has 32 of them */

/* Owners are embedded in caches because the heap statistics read the whole cache. */
static struct hk_tcache owner_cache, other_cache;
static struct hk_owner *const owner = &owner_cache.owner, *const other = &other_cache.owner;

static void start(void)
{
    unit_start();
    assert_true(hk_owner_register(owner) && hk_owner_register(other));
    hk_owner_open(owner);
    hk_owner_open(other);
}

static struct hk_slab *slab_with(unsigned taken, void **blocks)
{
    struct hk_slab *slab = unit_slab(CLASS, owner->id);
    assert_non_null(slab);
    hk_slab_alloc(slab, blocks + taken, taken);
    return slab;
}

static uint32_t owner_of(const struct hk_slab *slab) { return hk_entry_owner(hk_page_map_lookup(slab->d.start)); }

UNIT_TEST(adopt)
{
    void *blocks[32];
    start();
    assert_null(hk_abandoned_adopt(CLASS, other));
    struct hk_slab *slab = slab_with(10, blocks);
    hk_abandoned_add(slab);
    assert_int_equal(owner_of(slab), HK_ABANDONED);
    assert_null(hk_abandoned_adopt(CLASS + 1, other));
    assert_ptr_equal(hk_abandoned_adopt(CLASS, other), slab);
    assert_int_equal(owner_of(slab), other->id);
    assert_null(hk_abandoned_adopt(CLASS, other));
}

/* While there are many threads, no thread adopts or claims a commons slab. Each thread takes blocks from it, and frees them in it, under the lock. */
UNIT_TEST(commons)
{
    void *blocks[40];
    start();
    hk_abandoned_crowd(true);
    assert_int_equal(hk_abandoned_take(CLASS, HK_COMMONS, blocks + 10, 10), 10);
    struct hk_slab *slab = hk_slab_at((uintptr_t)blocks[0]);
    assert_int_equal(owner_of(slab), HK_ABANDONED);
    assert_true(hk_abandoned_list(blocks[0]) == HK_COMMONS);
    assert_false(hk_abandoned_has(CLASS));
    assert_null(hk_abandoned_adopt(CLASS, other));
    assert_null(hk_abandoned_claim(blocks[3], CLASS, other));
    assert_int_equal(hk_abandoned_take(CLASS, HK_COMMONS, blocks + 40, 30),
                     22); /* Only 22 blocks of the slab are free. */
    assert_int_equal(slab->free, 0);
    assert_true(hk_abandoned_free(blocks[5], CLASS));
    assert_int_equal(slab->free, 1);
    assert_int_equal(hk_abandoned_take(CLASS, HK_COMMONS, blocks + 6, 2), 1);
    void *more;
    assert_int_equal(hk_abandoned_take(CLASS, HK_COMMONS, &more + 1, 1), 1); /* This block comes from a second slab. */
    assert_ptr_not_equal(hk_slab_at((uintptr_t)more), slab);
    assert_true(hk_abandoned_free(more, CLASS));
    /* The slab was released because all its blocks are free. */
    assert_int_equal(hk_page_map_lookup((uintptr_t)more), 0);
}

/* A slab of a group serves only this group. No thread adopts or claims the slab, and the slab stays when all its blocks are free. */
UNIT_TEST(groups)
{
    start();
    void *first = hk_abandoned_alloc(CLASS, HK_FIRST_GROUP),
         *second = hk_abandoned_alloc(CLASS, HK_FIRST_GROUP + HK_GROUPS - 1);
    assert_non_null(first);
    assert_ptr_not_equal(hk_slab_at((uintptr_t)first), hk_slab_at((uintptr_t)second));
    assert_int_equal(hk_abandoned_group(first), 1);
    assert_null(hk_abandoned_adopt(CLASS, other));
    assert_null(hk_abandoned_claim(first, CLASS, other));
    void *plain = hk_abandoned_alloc(CLASS, HK_FOR_ADOPTION);
    assert_int_equal(hk_abandoned_group(plain), 0);
    assert_true(hk_abandoned_free(first, CLASS) && hk_abandoned_free(plain, CLASS));
    assert_int_equal(owner_of(hk_slab_at((uintptr_t)first)), HK_ABANDONED); /* The slab was not released. */
    assert_int_equal(hk_page_map_lookup((uintptr_t)plain), 0);              /* The slab was released. */
    memset(first, 1, 2048);
    assert_true(hk_abandoned_purge() > 0 && *(char *)first == 0);
    assert_ptr_equal(hk_abandoned_alloc(CLASS, HK_FIRST_GROUP), first);
}

/* If memory is refused, a group gets no block. */
UNIT_TEST(groups_refused)
{
    start();
    fake_os_refuse(fake_refuse_mappings);
    for (size_t bytes = 1 << 20; bytes >= HK_CACHE_LINE; bytes /= 2)
        while (hk_meta_alloc(bytes) != NULL)
            continue;
    assert_null(hk_abandoned_alloc(CLASS, HK_FIRST_GROUP));
    fake_os_refuse(NULL);
    assert_non_null(hk_abandoned_alloc(CLASS, HK_FIRST_GROUP));
}

UNIT_TEST(commons_of_few)
{
    void *blocks[10];
    start();
    hk_abandoned_crowd(true);
    assert_int_equal(hk_abandoned_take(CLASS, HK_COMMONS, blocks + 10, 10), 10);
    struct hk_slab *slab = hk_slab_at((uintptr_t)blocks[0]);
    hk_abandoned_crowd(false);
    assert_ptr_equal(hk_abandoned_adopt(CLASS, other), slab);
    assert_false(hk_abandoned_list(blocks[0]) == HK_COMMONS);
    assert_int_equal(owner_of(slab), other->id);
    hk_abandoned_add(slab); /* After its time in the commons, a slab can be abandoned like any other. */
    assert_true(hk_abandoned_has(CLASS));
    assert_ptr_equal(hk_abandoned_claim(blocks[0], CLASS, owner), slab);
}

static bool refuse_all(enum fake_call call, uint64_t ordinal)
{
    (void)call, (void)ordinal;
    return true;
}

UNIT_TEST(commons_refused)
{
    void *block[2000];
    start();
    unsigned taken = 1, all = 0;
    fake_os_refuse(refuse_all);
    while (all < 2000 && taken == 1) {
        taken = hk_abandoned_take(CLASS_OF_32768, HK_COMMONS, &block[all] + 1, 1);
        all += taken;
    }
    assert_int_equal(taken, 0);
    for (unsigned i = 0; i < all; i++)
        assert_true(hk_abandoned_free(block[i], CLASS_OF_32768));
    fake_os_refuse(NULL);
}

UNIT_TEST(commons_are_swept)
{
    void *blocks[32];
    start();
    hk_abandoned_crowd(true);
    assert_int_equal(hk_abandoned_take(CLASS, HK_COMMONS, blocks + 32, 32), 32);
    for (int i = 0; i < 32; i++)
        *(char *)blocks[i] = 1;
    for (int i = 1; i < 32; i++)
        assert_true(hk_abandoned_free(blocks[i], CLASS));
    struct hk_sweep sweep = {.now = 0, .work = 1000 * HK_WORK_OF_CALL};
    assert_true(hk_abandoned_sweep(&sweep));
    assert_true(hk_abandoned_sweep(&sweep)); /* A second sweep must end too, on both lists of slabs. */
    assert_true(hk_abandoned_purge() >= 14 * HK_PAGE);
    assert_true(hk_abandoned_free(blocks[0], CLASS));
}

UNIT_TEST(full_ones_wait_for_a_free)
{
    void *blocks[32];
    start();
    struct hk_slab *slab = slab_with(32, blocks);
    assert_int_equal(slab->free, 0);
    hk_abandoned_add(slab);
    assert_null(hk_abandoned_adopt(CLASS, other));
    assert_true(hk_abandoned_free(blocks[5], CLASS));
    assert_ptr_equal(hk_abandoned_adopt(CLASS, other), slab);
    assert_false(hk_abandoned_free(blocks[6], CLASS)); /* The call refuses because the slab has an owner. */
}

UNIT_TEST(empty_ones_are_released)
{
    void *blocks[32];
    start();
    struct hk_slab *slab = slab_with(0, blocks);
    uintptr_t start_of_it = slab->d.start;
    hk_abandoned_add(slab);
    assert_int_equal(hk_page_map_lookup(start_of_it), 0);
    slab = slab_with(3, blocks);
    start_of_it = slab->d.start;
    hk_abandoned_add(slab);
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(hk_page_map_lookup(start_of_it), 0);
        assert_true(hk_abandoned_free(blocks[i], CLASS));
    }
    assert_int_equal(hk_page_map_lookup(start_of_it), 0);
    assert_null(hk_abandoned_adopt(CLASS, other));
    unit_heap_holds(0);
}

UNIT_TEST(claim)
{
    void *blocks[32];
    start();
    struct hk_slab *slab = slab_with(32, blocks);
    assert_null(hk_abandoned_claim(blocks[0], CLASS, other)); /* A slab that has an owner cannot be claimed. */
    hk_abandoned_add(slab);
    assert_ptr_equal(hk_abandoned_claim(blocks[0], CLASS, other), slab);
    assert_int_equal(owner_of(slab), other->id);
    assert_null(hk_abandoned_claim(blocks[0], CLASS, owner));
}

/* A thread without a cache allocates single blocks. Abandoned slabs serve them before a new slab is made. */
UNIT_TEST(alloc)
{
    void *blocks[32], *mine[40];
    start();
    struct hk_slab *slab = slab_with(30, blocks);
    hk_abandoned_add(slab);
    for (int i = 0; i < 40; i++) {
        mine[i] = hk_abandoned_alloc(CLASS, HK_FOR_ADOPTION);
        assert_non_null(mine[i]);
        assert_int_equal(hk_slab_at((uintptr_t)mine[i]) == slab, i < 2);
        assert_int_equal(owner_of(hk_slab_at((uintptr_t)mine[i])), HK_ABANDONED);
    }
    for (int i = 0; i < 40; i++)
        assert_true(hk_abandoned_free(mine[i], CLASS));
    for (int i = 0; i < 30; i++)
        assert_true(hk_abandoned_free(blocks[i], CLASS));
    unit_heap_holds(0);
}

static void free_twice(void *block) { (void)hk_abandoned_free(block, CLASS); }

UNIT_TEST(double_free)
{
    void *blocks[32];
    start();
    hk_abandoned_add(slab_with(8, blocks));
    assert_true(hk_abandoned_free(blocks[2], CLASS));
    unit_dies(free_twice, blocks[2], "hakmem: free(), found later: block already free: address 0x");
    unit_dies(free_twice, (char *)blocks[3] + 8, "hakmem: free(), found later: pointer inside a block: address 0x");
}

/* After a fork, each slab of another thread becomes abandoned in the child, whichever list had the slab before. */
UNIT_TEST(abandoned_rest)
{
    void *blocks[3][32];
    start();
    struct hk_slab *gone = slab_with(32, blocks[0]), *half_gone = slab_with(4, blocks[1]);
    struct hk_slab *mine = unit_slab(CLASS, other->id);
    half_gone->free = 3; /* Simulates a wrong count, because the fork came in the middle of a change. */
    hk_abandoned_add_rest(other);
    assert_int_equal(owner_of(gone), HK_ABANDONED);
    assert_int_equal(owner_of(half_gone), HK_ABANDONED);
    assert_int_equal(half_gone->free, half_gone->d.blocks - 4);
    assert_int_equal(owner_of(mine), other->id);
    assert_ptr_equal(hk_abandoned_adopt(CLASS, other), half_gone);
    assert_null(hk_abandoned_adopt(CLASS, other));
}

/* Sweeps also purge the pages of abandoned slabs, one share of the work at a time. hk_abandoned_purge() purges all these pages at once. */
UNIT_TEST(sweep)
{
    enum { COUNT = 6 };
    void *blocks[COUNT][32];
    start();
    for (int i = 0; i < COUNT; i++)
        hk_abandoned_add(slab_with(2, blocks[i]));
    fake_os_refuse(NULL);
    uint64_t now = hk_load(fake_os.xclock_ms);
    bool over = false;
    for (int shares = 0; shares < COUNT; shares++) {
        struct hk_sweep sweep = {.touched = now - 10000, .now = now, .work = 1};
        over = hk_abandoned_sweep(&sweep);
        assert_false(over);
        assert_int_equal(fake_os_calls(FAKE_PURGE), shares + 1);
    }
    assert_true(hk_abandoned_free(blocks[0][0], CLASS));
    /* This free is the slab's last, so the slab leaves the list that the sweep walks. */
    assert_true(hk_abandoned_free(blocks[0][1], CLASS));
    for (int shares = 0; shares < 2 * COUNT && !over; shares++) {
        struct hk_sweep sweep = {.touched = now, .now = now, .work = 2};
        over = hk_abandoned_sweep(&sweep);
    }
    assert_true(over);
    assert_int_equal(fake_os_calls(FAKE_PURGE), COUNT);
    assert_true(hk_abandoned_free(blocks[1][0], CLASS));
    assert_int_equal(hk_abandoned_purge(), 0);
    hk_abandoned_alloc(CLASS, HK_FOR_ADOPTION);
    assert_true(hk_abandoned_purge() > 0);
}

/* Blocks of an abandoned slab were freed remotely before a fork. The child puts the slab on a list if the slab has free blocks, and releases the
 * slab if all its blocks are free. */
UNIT_TEST(abandoned_rest_of_abandoned)
{
    void *blocks[2][32];
    start();
    struct hk_slab *full = slab_with(32, blocks[0]), *ended = slab_with(32, blocks[1]);
    uintptr_t start_of_ended = ended->d.start;
    hk_abandoned_add(full);
    hk_abandoned_add(ended);
    assert_false(hk_abandoned_has(CLASS));
    hk_remote_mark(full, 0, 7);
    hk_remote_mark(ended, 0, UINT32_MAX);
    /* Simulates a thread that was changing the slab. The child does not have this thread. */
    hk_remote_count(ended, 32);
    hk_abandoned_add_rest(other);
    assert_int_equal(full->free, 3);
    assert_ptr_equal(hk_abandoned_adopt(CLASS, other), full);
    assert_int_equal(hk_page_map_lookup(start_of_ended), 0);
    assert_null(hk_abandoned_adopt(CLASS, other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adopt),
        cmocka_unit_test(commons),
        cmocka_unit_test(groups),
        cmocka_unit_test(groups_refused),
        cmocka_unit_test(commons_of_few),
        cmocka_unit_test(commons_refused),
        cmocka_unit_test(commons_are_swept),
        cmocka_unit_test(full_ones_wait_for_a_free),
        cmocka_unit_test(empty_ones_are_released),
        cmocka_unit_test(claim),
        cmocka_unit_test(alloc),
        cmocka_unit_test(double_free),
        cmocka_unit_test(abandoned_rest),
        cmocka_unit_test(abandoned_rest_of_abandoned),
        cmocka_unit_test(sweep),
    };
    return cmocka_run_group_tests_name("abandoned", tests, NULL, NULL);
}
