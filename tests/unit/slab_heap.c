/* Tests that batches of blocks come from the slabs in order, that empty slabs are released, and that medium blocks are resized in place. */
#include "unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tcache/tcache.h"
#include "hakmem.h"
#include "slab/slab_heap.h"

static struct hk_owner *start(void)
{
    unit_start();
    return &hk_tcache_self()->owner;
}

UNIT_TEST(batches)
{
    static void *blocks[3000];
    struct hk_owner *owner = start();
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_64, blocks + 100, 100), 100);
    for (int i = 1; i < 100; i++)
        assert_ptr_equal(blocks[99 - i], (char *)blocks[100 - i] + 64);
    /* A batch may be shorter if its slab has no more free blocks. No new slab is made for the missing blocks. */
    unsigned got = 100;
    while (got < 1024) {
        unsigned n = hk_slab_heap_alloc(owner, CLASS_OF_64, blocks + got + 1000, 1000);
        assert_in_range(n, 1, 924);
        memmove(blocks + got, blocks + got + 1000 - n, n * sizeof *blocks);
        got += n;
    }
    assert_int_equal(got, 1024);
    unit_heap_holds(1024);
    hk_slab_heap_free(owner, blocks, got);
    unit_heap_holds(0);
}

/* Releases all free slabs of the owner, and purges free pages in its other slabs. Returns the purged bytes. */
static size_t trim(struct hk_owner *owner)
{
    struct hk_trim trim = hk_trim_begin();
    while (hk_slab_heap_trim_some(owner, &trim))
        continue;
    return trim.bytes;
}

UNIT_TEST(one_empty_slab_is_kept)
{
    static void *blocks[4096];
    struct hk_owner *owner = start();
    static struct hk_heap_stats heap_stats;
    unsigned got = 0;
    while (got < 3000)
        got += hk_slab_heap_alloc(owner, CLASS_OF_64, blocks + got + 1, 1);
    hk_slab_heap_free(owner, blocks, got);
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.classes[CLASS_OF_64].slabs, 1);
    trim(owner);
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.classes[CLASS_OF_64].slabs, 0);
    /* An empty slab of this class is released at once. */
    got = hk_slab_heap_alloc(owner, CLASS_OF_65536, blocks + 1, 1);
    hk_slab_heap_free(owner, blocks, got);
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.classes[CLASS_OF_65536].slabs, 0);
}

static void give_tail(void *block)
{
    void *batch[] = {block, (char *)hk_slab_at((uintptr_t)block)->d.start + 51 * 1280};
    hk_slab_heap_free(&hk_tcache_self()->owner, batch, 2);
}

/* An address after the end of the slab's last block belongs to no block. hk_slab_heap_free() must report it, and not loop forever. */
UNIT_TEST(tail_is_refused)
{
    if (UNIT_UNDER_TSAN)
        return;
    void *block;
    struct hk_owner *owner = start();
    char expected[160];
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_1280, &block + 1, 1), 1);
    snprintf(
        expected, sizeof expected,
        "hakmem: free(), found later: pointer inside a block: address 0x%lx, class 1280 bytes, owner %u; HAKMEM_SAFE_FREE=1 ",
        (unsigned long)hk_slab_at((uintptr_t)block)->d.start + 51 * 1280, owner->id);
    unit_dies(give_tail, block, expected);
    hk_slab_heap_free(owner, &block, 1);
}

enum { PASSED_SIZE = 2048, PASSED = 1000, ROUNDS = 30, LONGER_THAN_AN_EPOCH_MS = 200 };

static void fill(unsigned char **blocks, unsigned from, unsigned step, int with)
{
    for (unsigned i = from; i < PASSED; i += step) {
        blocks[i] = hak_malloc(PASSED_SIZE);
        memset(blocks[i], with, PASSED_SIZE);
    }
}

static void drop(unsigned char **blocks, unsigned from, unsigned step, int with)
{
    for (unsigned i = from; i < PASSED; i += step) {
        assert_int_equal(blocks[i][0], with);
        assert_int_equal(blocks[i][PASSED_SIZE - 1], with);
        hak_free(blocks[i]);
    }
}

static _Atomic bool xdone;
static void need(void *unused)
{
    static unsigned char *needed[PASSED];
    (void)unused;
    for (unsigned round = 0; round < ROUNDS; round++) {
        fake_os_pass_ms(LONGER_THAN_AN_EPOCH_MS);
        fill(needed, 0, 1, 1);
        drop(needed, 0, 1, 1);
    }
    atomic_store(&xdone, true);
}
static void *need_beside(void *unused)
{
    need(unused);
    return NULL;
}

static uint64_t times_taken(void) { return hk_load(hk_global_counts[HK_GLOBAL_slabs_taken_over]); }

/* Another thread takes slabs over, first from a thread that waits, and then from a thread that allocates and frees at the same time. */
UNIT_TEST(taken_over)
{
    static unsigned char *blocks[PASSED];
    pthread_t needy;
    start();
    hk_slab_lists_shared = true;
    fill(blocks, 0, 1, 2);
    drop(blocks, 0, 2, 2);
    uint64_t before = times_taken();
    unit_in_thread(need, NULL);
    assert_true(times_taken() > before);
    drop(blocks, 1, 2, 2);
    fill(blocks, 0, 1, 3);
    atomic_store(&xdone, false);
    assert_int_equal(pthread_create(&needy, NULL, need_beside, NULL), 0);
    while (!atomic_load(&xdone)) {
        drop(blocks, 0, 2, 3);
        fill(blocks, 0, 2, 3);
    }
    pthread_join(needy, NULL);
    drop(blocks, 0, 1, 3);
    hk_tcache_flush(hk_tcache_self());
    hk_slab_lists_shared = false;
    unit_heap_holds(0);
}

UNIT_TEST(refused)
{
    void *blocks[1000];
    struct hk_owner *owner = start();
    fake_os_refuse(fake_refuse_all);
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_65536, blocks + 1, 1), 0);
    fake_os_refuse(NULL);
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_65536, blocks + 1, 1), 1);
    hk_slab_heap_free(owner, blocks, 1);
    unit_heap_holds(0);
}

static void resize(struct hk_owner *owner, void *block, size_t size, bool expected)
{
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    bool resized = hk_slab_heap_resize(owner, slab, size);
    assert_int_equal(resized, expected);
    if (!resized)
        return;
    assert_true(slab->d.block_size >= size);
    assert_int_equal(slab->d.class, hk_class_of(size));
    assert_int_equal(hk_slab_index(slab, slab->d.start + slab->d.block_size - 1), 0);
    unit_heap_holds(1);
}

/* A block grows and shrinks through all classes that have one block in each slab. The block must not move. */
UNIT_TEST(resized_in_place)
{
    void *block;
    struct hk_owner *owner = start();
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_65536, &block + 1, 1), 1);
    memset(block, 0x5a, 65536);
    for (size_t size = 65536; size <= 1048576; size += 65536)
        if (hk_classes[hk_class_of(size)].slab_bytes / hk_classes[hk_class_of(size)].size == 1)
            resize(owner, block, size, true);
    memset((char *)block + 65536, 0x5a, 1048576 - 65536);
    resize(owner, block, 1048577, false);
    for (size_t size = 1048576; size >= 65536; size -= 65536)
        resize(owner, block, size, true);
    for (size_t slice = 1; slice < 16; slice++) /* The block has returned the slices after its first. */
        assert_int_equal(hk_page_map_lookup((uintptr_t)block + slice * HK_SLICE), 0);
    resize(owner, block, 32768, false);
    for (size_t i = 0; i < 65536; i++)
        assert_int_equal(((char *)block)[i], 0x5a);
    hk_slab_heap_free(owner, &block, 1);
    unit_heap_holds(0);
}

UNIT_TEST(no_room_to_grow)
{
    void *first, *second;
    struct hk_owner *owner = start();
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_65536, &first + 1, 1), 1);
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_65536, &second + 1, 1), 1);
    assert_ptr_equal(second, (char *)first + 65536);
    resize(owner, first, 70000, false);
    hk_slab_heap_free(owner, &second, 1);
    resize(owner, first, 120000, true);
    hk_slab_heap_free(owner, &first, 1);
    unit_heap_holds(0);
}

static void leave_blocks(void *given)
{
    void **blocks = given;
    unit_start();
    assert_int_equal(hk_slab_heap_alloc(&hk_tcache_self()->owner, CLASS_OF_64, blocks + 10, 10), 10);
}

/* A thread that needs blocks of this class adopts the slabs of a thread that has ended. */
UNIT_TEST(abandoned_first)
{
    void *left[10], *block;
    struct hk_owner *owner = start();
    unit_in_thread(leave_blocks, left);
    unit_heap_holds(10);
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_64, &block + 1, 1), 1);
    assert_ptr_equal(hk_slab_at((uintptr_t)block), hk_slab_at((uintptr_t)left[0]));
    assert_true(hk_slab_heap_has_partial(owner, CLASS_OF_64));
    hk_slab_heap_free(owner, left, 10);
    hk_slab_heap_free(owner, &block, 1);
    unit_heap_holds(0);
}

/* Makes `count` slabs of 16 blocks of 4 KiB, and frees all blocks except the first one of each slab. */
static void half_use(struct hk_owner *owner, struct hk_slab **slabs, unsigned count)
{
    void *blocks[16];
    for (unsigned i = 0; i < count; i++) {
        for (unsigned got = 0; got < 16;)
            got += hk_slab_heap_alloc(owner, CLASS_OF_4096, blocks + 16 - got, 16 - got);
        slabs[i] = hk_slab_at((uintptr_t)blocks[0]);
    }
    for (unsigned i = 0; i < count; i++)
        for (unsigned b = 1; b < 16; b++) {
            void *block = (void *)(slabs[i]->d.start + b * (size_t)4096);
            *(char *)block = 1;
            hk_slab_heap_free(owner, &block, 1);
        }
}

static struct hk_sweep share(int64_t work)
{
    uint64_t now = hk_load(fake_os.xclock_ms);
    return (struct hk_sweep){.touched = now - 10000, .now = now, .work = work};
}

/* A sweep makes small shares of work, and slabs are released between them. The sweep must look at each slab once, and end. */
UNIT_TEST(sweep_by_shares)
{
    enum { COUNT = 20 };
    struct hk_slab *slabs[COUNT];
    struct hk_owner *owner = start();
    half_use(owner, slabs, COUNT);
    fake_os_refuse(NULL);
    hk_slab_heap_sweep_begin(owner, HK_SWEEP_AGED);
    bool over = false;
    unsigned shares = 0;
    for (; !over && shares < 100; shares++) {
        struct hk_sweep sweep = share(1);
        over = hk_slab_heap_sweep(owner, &sweep);
        assert_true(fake_os_calls(FAKE_PURGE) <= shares + 1);
        if (shares == 5) { /* This share is followed by a release of the slab that the sweep would visit next. */
            struct hk_slab *next = hk_container_of(owner->sweep.at, struct hk_slab, link);
            void *last_in_use = (void *)next->d.start;
            hk_slab_heap_free(owner, &last_in_use, 1);
        }
    }
    assert_true(over);
    assert_in_range(shares, COUNT, 3 * COUNT);
    assert_int_equal(fake_os_calls(FAKE_PURGE), COUNT - 1);
    struct hk_sweep more = share(1000);
    assert_true(hk_slab_heap_sweep(owner, &more));
    assert_int_equal(more.work, 1000); /* After the end of a sweep, a further share does no work. */
}

/* After a sweep, blocks are allocated first from slabs that were not purged, because these cause no page faults. */
UNIT_TEST(swept_go_behind)
{
    struct hk_slab *slabs[3];
    void *block;
    struct hk_owner *owner = start();
    half_use(owner, slabs, 3);
    hk_slab_heap_sweep_begin(owner, HK_SWEEP_AGED);
    struct hk_sweep sweep = share(1); /* The budget is enough for one slab. */
    assert_false(hk_slab_heap_sweep(owner, &sweep));
    for (int i = 0; i < 30; i++) {
        assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_4096, &block + 1, 1), 1);
        assert_int_equal(*(char *)block, 1);
    }
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS_OF_4096, &block + 1, 1), 1);
    assert_int_equal(*(char *)block, 0);
}

/* Takes all blocks of 4 KiB of `slabs` new slabs, and frees all but the first `used` ones of each slab. */
static void make_used(struct hk_owner *owner, struct hk_slab **slabs, const unsigned *used, unsigned count)
{
    void *blocks[16];
    for (unsigned i = 0; i < count; i++) {
        for (unsigned got = 0; got < 16;)
            got += hk_slab_heap_alloc(owner, CLASS_OF_4096, blocks + 16 - got, 16 - got);
        slabs[i] = hk_slab_at((uintptr_t)blocks[0]);
    }
    for (unsigned i = 0; i < count; i++)
        for (unsigned b = used[i]; b < 16; b++)
            hk_slab_heap_free(owner, &(void *){hk_slab_block(slabs[i], b)}, 1);
}

/* Returns the slab to which a block of `slab` should move, or NULL if the block should stay. */
static struct hk_slab *moves_to(struct hk_owner *owner, struct hk_slab *slab)
{
    void *place;
    unsigned got = hk_slab_heap_take_fuller(owner, CLASS_OF_4096, slab, &place + 1);
    return got == 1 ? hk_slab_at((uintptr_t)place) : NULL;
}

/* A block moves only to a slab that is at least as full, so that sparse slabs become empty. A slab without enough free blocks is not emptied. */
UNIT_TEST(moved_to_the_fuller)
{
    enum { FEW, MORE, NEARLY_ALL };
    struct hk_slab *slabs[3];
    struct hk_owner *owner = start();
    make_used(owner, slabs, (unsigned[]){4, 8, 15}, 3);
    assert_null(
        moves_to(owner, slabs[NEARLY_ALL])); /* It has less than an eighth of free blocks, and is filled next. */
    assert_ptr_equal(moves_to(owner, slabs[FEW]), slabs[NEARLY_ALL]);
    assert_int_equal(slabs[NEARLY_ALL]->free, 0);
    assert_null(moves_to(owner, slabs[NEARLY_ALL]));
    assert_ptr_equal(moves_to(owner, slabs[FEW]), slabs[MORE]);
    assert_null(moves_to(owner, slabs[MORE]));
    hk_slab_heap_free(owner, &(void *){hk_slab_block(slabs[NEARLY_ALL], 0)}, 1);
    assert_ptr_equal(moves_to(owner, slabs[MORE]), slabs[NEARLY_ALL]);
    for (unsigned b = 0; b < 4; b++)
        hk_slab_heap_free(owner, &(void *){hk_slab_block(slabs[FEW], b)}, 1);
    assert_null(
        moves_to(owner, slabs[MORE])); /* No other slab has free blocks, because the emptied slab was released. */
    assert_ptr_equal(hk_slab_heap_partial(owner, CLASS_OF_4096), slabs[MORE]);
    unit_heap_holds(9 + 16);
}

/* Of slabs with the same number of used blocks, some become empty. */
UNIT_TEST(moved_to_the_equal)
{
    struct hk_slab *slabs[2];
    struct hk_owner *owner = start();
    make_used(owner, slabs, (unsigned[]){5, 5}, 2);
    assert_ptr_equal(moves_to(owner, slabs[0]), slabs[1]);
    assert_null(moves_to(owner, slabs[1]));
    assert_ptr_equal(moves_to(owner, slabs[0]), slabs[1]);
}

/* A thread moves blocks out of another thread's slabs into its own fuller slabs. If it has none, the other thread must be asleep. */
static void move_beside(void *given)
{
    struct hk_slab **slabs = given, *own[1];
    struct hk_owner *owner = start();
    uint64_t taken = times_taken();
    assert_null(moves_to(owner, slabs[0]));
    assert_int_equal(times_taken(), taken);
    make_used(owner, own, (unsigned[]){12}, 1);
    assert_ptr_equal(moves_to(owner, slabs[0]), own[0]);
    assert_int_equal(times_taken(), taken);
    fake_os_pass_ms(LONGER_THAN_AN_EPOCH_MS);
    hk_tcache_grew(hk_tcache_self(), HK_MEDIUM_MAX); /* The thread reads the clock. */
    assert_null(moves_to(owner, slabs[1]));          /* It is the fullest slab, and this thread fills it next. */
    assert_int_equal(times_taken(), taken + 1);
    assert_int_equal(hk_load(slabs[1]->xowner), owner->id);
    assert_ptr_equal(moves_to(owner, own[0]), slabs[1]);
}

UNIT_TEST(moved_between_threads)
{
    struct hk_slab *slabs[2];
    struct hk_owner *owner = start();
    hk_slab_lists_shared = true;
    hk_tcache_grew(hk_tcache_self(), HK_MEDIUM_MAX);
    make_used(owner, slabs, (unsigned[]){4, 14}, 2);
    unit_in_thread(move_beside, slabs);
}

UNIT_TEST(trim_gives_pages)
{
    struct hk_slab *slabs[3];
    struct hk_owner *owner = start();
    half_use(owner, slabs, 3);
    assert_int_equal(trim(owner), 3 * 15 * 4096);
    assert_int_equal(trim(owner), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches),
        cmocka_unit_test(one_empty_slab_is_kept),
        cmocka_unit_test(tail_is_refused),
        cmocka_unit_test(refused),
        cmocka_unit_test(resized_in_place),
        cmocka_unit_test(no_room_to_grow),
        cmocka_unit_test(abandoned_first),
        cmocka_unit_test(sweep_by_shares),
        cmocka_unit_test(swept_go_behind),
        cmocka_unit_test(trim_gives_pages),
        cmocka_unit_test(taken_over),
        cmocka_unit_test(moved_to_the_fuller),
        cmocka_unit_test(moved_to_the_equal),
        cmocka_unit_test(moved_between_threads),
    };
    return cmocka_run_group_tests_name("slab_heap", tests, NULL, NULL);
}
