/* Tests that the outbox collects neighboring blocks together, that the number of waiting bytes is bounded, and that all blocks reach the current
 * holder of their slab. */
#include "unit/unit.h"

#include <pthread.h>

#include "base/bits.h"
#include "tcache/tcache.h"
#include "slab/outbox.h"
#include "slab/abandoned.h"
#include "span/meta.h"
#include "large/large.h"

enum { CLASS = CLASS_OF_64, MEDIUM_CLASS = CLASS_OF_65536 };

/* Owners are embedded in caches because a fork reads the whole cache. */
static struct hk_tcache owner_cache, other_cache;
static struct hk_owner *const owner = &owner_cache.owner, *const other = &other_cache.owner;
static struct hk_owner freer;
static struct hk_outbox outbox;
static void *blocks[1024];

static struct hk_slab *start(unsigned class, unsigned taken)
{
    unit_start();
    assert_true(hk_owner_register(owner) && hk_owner_register(other));
    hk_owner_open(owner);
    hk_owner_open(other);
    hk_outbox_open(&outbox, &freer);
    struct hk_slab *slab = unit_slab(class, owner->id);
    assert_non_null(slab);
    hk_slab_alloc(slab, blocks + taken, taken);
    return slab;
}

/* Puts a block into the outbox, as free does. Returns true if the fast path accepted the block. */
static bool put(void *block)
{
    struct hk_outbox_entry *entry = hk_outbox_entry_of(&outbox, block);
    bool fast = entry != NULL && hk_outbox_put_fast(&outbox, entry, block);
    if (!fast)
        hk_outbox_put(&outbox, block);
    return fast;
}

static size_t waiting(void)
{
    int64_t bytes[HK_CLASSES] = {0}, sum = 0;
    hk_outbox_count(&outbox, bytes);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        sum += bytes[class];
    return (size_t)sum;
}

static size_t remote_bytes(const struct hk_slab *slab) { return (size_t)hk_remote_blocks(slab) * slab->d.block_size; }

static void deliver(void *block) { hk_remote_free(block, hk_page_map_lookup((uintptr_t)block)); }

/* The outbox looks up only the first block of each bitmap word. The other blocks are marked word by word, and all are counted at once. */
UNIT_TEST(neighbours_wait)
{
    struct hk_slab *slab = start(CLASS, 200);
    outbox.allowed = HK_MIB;
    hk_outbox_send_all(&outbox);
    for (unsigned i = 0; i < 130; i++) /* The last put gets the block with the lowest address. */
        assert_int_equal(put(blocks[199 - i]), i % 64 != 0);
    assert_int_equal(waiting(), 130 * 64);
    assert_true(hk_load(slab->xremote[0]) == UINT64_MAX && hk_load(slab->xremote[1]) == UINT64_MAX);
    assert_int_equal(hk_load(slab->xremote[2]) | (uint64_t)hk_remote_blocks(slab), 0);
    hk_outbox_send_all(&outbox);
    assert_int_equal(waiting(), 0);
    assert_int_equal(remote_bytes(slab), 130 * 64);
    assert_ptr_equal(hk_inbox_take(owner, CLASS, 9), slab);
    assert_int_equal(hk_remote_collect(slab), 130);
    assert_int_equal(hk_load(freer.counts.xvalue[HK_THREAD_remote_frees]), 130);
}

/* All blocks reach their slab, in whatever order they are freed. The slab is pushed to the owner's inbox only when the outbox changes to another
 * slab. */
UNIT_TEST(all_arrive)
{
    struct hk_slab *slab = start(CLASS, 1000);
    outbox.allowed = HK_MIB;
    hk_outbox_send_all(&outbox);
    for (unsigned i = 0; i < 1000; i++)
        put(blocks[i * 7 % 1000]);
    assert_null(hk_inbox_take(owner, CLASS, 9));
    assert_int_equal(waiting(), 1000 * 64);
    hk_outbox_send_all(&outbox);
    assert_ptr_equal(hk_inbox_take(owner, CLASS, 9), slab);
    assert_int_equal(hk_remote_collect(slab), 1000);
    assert_true(hk_slab_all_free(slab));
}

/* The number of waiting bytes is bounded. A block that is larger than the bound is sent when the next one comes. */
UNIT_TEST(bounded)
{
    struct hk_slab *slab = start(CLASS, 1024);
    for (unsigned i = 0; i < 1024; i++) {
        put(blocks[i]);
        assert_true(waiting() <= outbox.allowed);
    }
    assert_true(remote_bytes(slab) >= 1024 * 64 - outbox.allowed);
    struct hk_slab *medium[2] = {unit_slab(MEDIUM_CLASS, owner->id), unit_slab(MEDIUM_CLASS, owner->id)};
    for (int i = 0; i < 2; i++) {
        void *block;
        hk_slab_alloc(medium[i], &block + 1, 1);
        put(block);
        assert_true(waiting() <= hk_max(outbox.allowed, 65536));
    }
    assert_int_equal(hk_remote_blocks(medium[0]), 1);
}

/* The outbox gets one block of each owner in turn, and there are more owners than entries. The table does not grow, and one slab is pushed to
 * each owner's inbox. */
UNIT_TEST(many_owners)
{
    enum { MANY = 200 };
    static struct hk_owner many[MANY];
    static void *theirs[MANY][8];
    start(CLASS, 1);
    for (int i = 0; i < MANY; i++) {
        assert_true(hk_owner_register(&many[i]));
        hk_owner_open(&many[i]);
        struct hk_slab *slab = unit_slab(CLASS, many[i].id);
        assert_non_null(slab);
        hk_slab_alloc(slab, theirs[i] + 8, 8);
    }
    for (int block = 0; block < 8; block++)
        for (int i = 0; i < MANY; i++)
            put(theirs[i][block]);
    assert_int_equal(outbox.size, HK_OUTBOX_LEAST);
    assert_true(outbox.evicted > 0);
    hk_outbox_send_all(&outbox);
    for (int i = 0; i < MANY; i++) {
        struct hk_slab *slab = hk_inbox_take(&many[i], CLASS, 10);
        assert_non_null(slab);
        assert_null(hk_inbox_next(slab));
        assert_int_equal(hk_remote_collect(slab), 8);
        assert_true(hk_slab_all_free(slab));
    }
}

/* The table grows if entries evict each other and the heap is large enough. A table that is not used is freed. */
UNIT_TEST(grows_and_goes)
{
    start(CLASS, 64);
    put(blocks[0]);
    hk_outbox_tune(&outbox, 64 * HK_MIB);
    assert_int_equal(outbox.size, HK_OUTBOX_LEAST);
    assert_int_equal(outbox.allowed, HK_OUTBOX_LEAST * 4 * HK_KIB);
    outbox.evicted = HK_OUTBOX_LEAST;
    hk_outbox_tune(&outbox, HK_KIB); /* A heap of 1 KiB is too small for a larger table. */
    assert_int_equal(outbox.size, HK_OUTBOX_LEAST);
    for (unsigned i = 1; outbox.size < HK_OUTBOX_MOST; i++) {
        size_t size = outbox.size;
        put(blocks[i]);
        outbox.evicted = size;
        hk_outbox_tune(&outbox, 64 * HK_MIB);
        assert_true(outbox.size > size);
        assert_int_equal(waiting(), 0); /* Before the table changed, all blocks were sent. */
    }
    assert_int_equal(outbox.size, HK_OUTBOX_MOST);
    hk_outbox_drop_idle(&outbox); /* The table stays because it was used since the previous call. */
    assert_non_null(outbox.table);
    hk_outbox_drop_idle(&outbox);
    assert_null(outbox.table);
    assert_null(hk_outbox_entry_of(&outbox, blocks[60]));
}

UNIT_TEST(no_table)
{
    struct hk_slab *slab = start(CLASS, 10);
    fake_os_refuse(fake_refuse_all);
    while (hk_meta_alloc(HK_OUTBOX_LEAST * sizeof(struct hk_outbox_entry)) != NULL)
        continue;
    put(blocks[4]);
    assert_null(outbox.table);
    assert_ptr_equal(hk_inbox_take(owner, CLASS, 1), slab);
    assert_int_equal(hk_remote_collect(slab), 1);
}

/* The owner has ended, so its inbox is closed and its slab is abandoned. Blocks that are sent afterwards are freed in the slab directly. */
UNIT_TEST(owner_is_gone)
{
    struct hk_slab *slab = start(CLASS, 10);
    for (int i = 0; i < 4; i++)
        put(blocks[i]);
    hk_inboxes_close(owner);
    hk_abandoned_add(slab);
    unsigned free = slab->free;
    hk_outbox_send_all(&outbox);
    assert_int_equal(slab->free, free + 4);
    deliver(blocks[5]);
    assert_int_equal(slab->free, free + 5);
    for (int i = 6; i < 10; i++)
        put(blocks[i]);
    deliver(blocks[4]);
    assert_int_equal(slab->d.start != 0, true);
    hk_outbox_send_all(&outbox); /* The last block is free, so the slab is released. */
    assert_int_equal(slab->d.start, 0);
}

/* If another thread has adopted the slab, the sent blocks reach the inbox of this new owner. */
UNIT_TEST(owner_changed)
{
    struct hk_slab *slab = start(CLASS, 10);
    put(blocks[0]);
    hk_inboxes_close(owner);
    hk_abandoned_add(slab);
    assert_ptr_equal(hk_abandoned_adopt(CLASS, other), slab);
    hk_outbox_send_all(&outbox);
    assert_ptr_equal(hk_inbox_take(other, CLASS, 1), slab);
}

UNIT_TEST(forget)
{
    struct hk_slab *slab = start(CLASS, 10);
    for (int i = 0; i < 7; i++)
        put(blocks[i]);
    assert_int_equal(hk_outbox_forget(&outbox), 7);
    assert_int_equal(waiting(), 0);
    hk_outbox_send_all(&outbox);
    assert_null(hk_inbox_take(owner, CLASS, 1));
    assert_int_equal(hk_load(slab->xremote[15]), 0);
}

/* A fork child counts the free blocks of each slab from its bits. Blocks that the forking thread has marked but not counted must not be counted
 * twice, because the slab would then never be released. */
UNIT_TEST(counted_by_the_child)
{
    struct hk_slab *slab = start(CLASS, 200);
    uintptr_t address = slab->d.start;
    outbox.allowed = HK_MIB;
    hk_outbox_send_all(&outbox);
    for (int i = 0; i < 100; i++)
        put(blocks[i]);
    /* No block is counted yet, although some are marked. */
    assert_true(waiting() == 100 * 64 && hk_remote_blocks(slab) == 0);
    hk_outboxes_recount(&outbox);
    hk_abandoned_add_rest(NULL);
    assert_true(waiting() <= 64 * 64); /* Only blocks of one bitmap word wait. */
    hk_outbox_send_all(&outbox);
    assert_int_equal(hk_load(slab->xstate), 0);
    assert_int_equal(hk_load(freer.counts.xvalue[HK_THREAD_remote_frees]), 100);
    for (int i = 100; i < 200; i++)
        assert_true(hk_abandoned_free(blocks[i], CLASS));
    assert_int_equal(hk_page_map_lookup(address), 0); /* The slab was released because all its blocks are free. */
}

static void put_it(void *block) { put(block); }
static void put_twice(void *block)
{
    put(block);
    put(block);
}
static void put_and_send_twice(void *block)
{
    put(block);
    hk_outbox_send_all(&outbox);
    put(block);
    hk_outbox_send_all(&outbox);
}

UNIT_TEST(what_is_no_block)
{
    struct hk_slab *slab = start(CLASS, 100);
    unit_dies(put_it, (char *)blocks[5] + 16, "free(), found later: pointer inside a block: address 0x");
    put(blocks[5]); /* After blocks[5], the fast path takes its neighbor. */
    unit_dies(put_it, (char *)blocks[6] + 16, "free(), found later: pointer inside a block: address 0x");
    unit_dies(put_twice, blocks[6], "free(), found later: block already free: address 0x");
    unit_dies(put_and_send_twice, blocks[6], "free(), found later: block already free: address 0x");
    struct hk_slab *tailed = unit_slab(CLASS_OF_1280, owner->id);
    unit_dies(put_it, (char *)tailed->d.start + (size_t)tailed->d.blocks * 1280,
              "free(), found later: pointer inside a block: address 0x");
    (void)slab;
}

UNIT_TEST(nobody_to_deliver_to)
{
    struct hk_slab *slab = start(CLASS, 0);
    void *block = (void *)slab->d.start;
    hk_slab_release(slab);
    unit_dies(deliver, block, "hakmem: free(), found later: block already free: address 0x");
}

/* If a large block lies at the address of a released slab, the outbox must not use an inbox or write to the block. */
UNIT_TEST(a_large_block_in_its_place)
{
    start(CLASS, 0);
    bool zeroed;
    void *large = hk_large_alloc(4 * HK_MIB, 16, &zeroed);
    assert_non_null(large);
    assert_int_equal(hk_entry_owner(hk_page_map_lookup((uintptr_t)large)), HK_NOBODY);
    unit_dies(deliver, large, "hakmem: free(), found later: block already free: address 0x");
}

/* All outboxes share one budget of waiting bytes. Each outbox with a table gets a share. An outbox without a table gets no share. */
UNIT_TEST(shares)
{
    start(CLASS, 64);
    put(blocks[0]);
    hk_outbox_tune(&outbox, 64 * HK_KIB);
    int64_t allowed = (int64_t)outbox.allowed;
    for (int i = 1; i < 60; i++) {
        hk_outbox_send_all(&outbox);
        hk_outbox_drop(&outbox);
        put(blocks[i]);
    }
    hk_outbox_tune(&outbox, 64 * HK_KIB);
    assert_int_equal(outbox.allowed, allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_wait),
        cmocka_unit_test(all_arrive),
        cmocka_unit_test(bounded),
        cmocka_unit_test(many_owners),
        cmocka_unit_test(grows_and_goes),
        cmocka_unit_test(shares),
        cmocka_unit_test(no_table),
        cmocka_unit_test(owner_is_gone),
        cmocka_unit_test(owner_changed),
        cmocka_unit_test(forget),
        cmocka_unit_test(counted_by_the_child),
        cmocka_unit_test(what_is_no_block),
        cmocka_unit_test(nobody_to_deliver_to),
        cmocka_unit_test(a_large_block_in_its_place),
    };
    return cmocka_run_group_tests_name("outbox", tests, NULL, NULL);
}
