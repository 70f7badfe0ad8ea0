/* Outbox: blocks are collected by owner and class, sent when a parcel is full, and reach whoever holds the slab by then. */
#include "unit/unit.h"

#include <pthread.h>

#include "base/bits.h"
#include "front/cache.h"
#include "slab/outbox.h"
#include "slab/registry.h"
#include "tiers/bigcache.h"

enum { CLASS = CLASS_OF_64, LARGE_CLASS = CLASS_OF_65536 };

/* Owners are parts of caches: a fork looks there. */
static struct hk_cache owner_cache, other_cache;
static struct hk_owner *const owner = &owner_cache.owner, *const other = &other_cache.owner;
static struct hk_outbox outbox;
static void *blocks[1024];

static struct hk_slab *start(unsigned class, unsigned taken)
{
    unit_start();
    assert_true(hk_owner_register(owner) && hk_owner_register(other));
    hk_owner_open(owner);
    hk_owner_open(other);
    struct hk_slab *slab = unit_slab(class, owner->id);
    assert_non_null(slab);
    hk_slab_take(slab, blocks + taken, taken);
    return slab;
}

static void put(void *block) { hk_outbox_put(&outbox, hk_map_lookup((uintptr_t)block), block); }

static size_t take_parcels(unsigned class, size_t *in_them)
{
    size_t parcels = 0;
    for (struct hk_parcel *next, *parcel = hk_inbox_take(owner, class, 100); parcel != NULL; parcel = next, parcels++) {
        next = parcel->next;
        *in_them += parcel->count == 0 ? 1 : parcel->count;
    }
    return parcels;
}

UNIT_TEST(fills_and_sends)
{
    size_t arrived = 0;
    start(CLASS, 200);
    for (unsigned i = 0; i < HK_PARCEL_BLOCKS - 1; i++)
        put(blocks[i]);
    assert_int_equal(hk_outbox_bytes(&outbox), (HK_PARCEL_BLOCKS - 1) * 64);
    assert_int_equal(take_parcels(CLASS, &arrived), 0);
    put(blocks[HK_PARCEL_BLOCKS - 1]);
    assert_int_equal(hk_outbox_bytes(&outbox), 0);
    assert_int_equal(take_parcels(CLASS, &arrived), 1);
    assert_int_equal(arrived, HK_PARCEL_BLOCKS);
    put(blocks[100]);
    hk_outbox_post_all(&outbox);
    assert_int_equal(hk_outbox_bytes(&outbox), 0);
    assert_int_equal(take_parcels(CLASS, &arrived), 1);
    assert_int_equal(arrived, HK_PARCEL_BLOCKS + 1);
}

/* 64 KiB of blocks do not wait. */
UNIT_TEST(large_ones_go_at_once)
{
    size_t arrived = 0;
    start(LARGE_CLASS, 1);
    put(blocks[0]);
    assert_int_equal(take_parcels(LARGE_CLASS, &arrived), 1);
    assert_int_equal(arrived, 1);
}

/* More owners than slots: who comes to a slot that is taken sends what was there. */
UNIT_TEST(many_owners)
{
    static struct hk_owner many[200];
    start(CLASS, 1);
    void *block;
    for (int i = 0; i < 200; i++) {
        assert_true(hk_owner_register(&many[i]));
        hk_owner_open(&many[i]);
        struct hk_slab *slab = unit_slab(CLASS, many[i].id);
        assert_non_null(slab);
        hk_slab_take(slab, &block + 1, 1);
        put(block);
    }
    assert_true(hk_popcount64(outbox.filled) <= HK_OUTBOX_SLOTS);
    hk_outbox_post_all(&outbox);
    for (int i = 0; i < 200; i++) {
        struct hk_parcel *parcel = hk_inbox_take(&many[i], CLASS, 10);
        assert_non_null(parcel);
        assert_int_equal(parcel->count, 1);
        assert_int_equal(hk_route_owner(hk_map_lookup((uintptr_t)parcel->blocks[0])), many[i].id);
    }
}

/* No memory for a parcel: the block is its own. */
UNIT_TEST(bare)
{
    start(CLASS, 10);
    fake_os_refuse(fake_refuse_all);
    size_t parcels = 0;
    while (hk_parcel_new() != NULL)
        parcels++;
    assert_true(parcels > 0);
    put(blocks[4]);
    struct hk_parcel *parcel = hk_inbox_take(owner, CLASS, 1);
    assert_ptr_equal(parcel, blocks[4]);
    assert_int_equal(parcel->count, 0);
    assert_int_equal(parcel->class, CLASS);
}

/* The owner ended: its inbox is closed, its slab an orphan. What is sent late goes straight into the slab. */
UNIT_TEST(owner_is_gone)
{
    struct hk_slab *slab = start(CLASS, 10);
    for (int i = 0; i < 4; i++)
        put(blocks[i]);
    assert_int_equal(hk_outbox_bytes(&outbox), 4 * 64);
    hk_inboxes_close(owner);
    hk_registry_abandon(slab);
    unsigned free = slab->free;
    hk_outbox_post_all(&outbox);
    assert_int_equal(slab->free, free + 4);
}

/* ... or somebody else's by now. */
UNIT_TEST(owner_changed)
{
    struct hk_slab *slab = start(CLASS, 10);
    put(blocks[0]);
    hk_inboxes_close(owner);
    hk_registry_abandon(slab);
    assert_ptr_equal(hk_registry_adopt(CLASS, other), slab);
    hk_outbox_post_all(&outbox);
    struct hk_parcel *parcel = hk_inbox_take(other, CLASS, 1);
    assert_ptr_equal(parcel, blocks[0]);
}

UNIT_TEST(forget)
{
    start(CLASS, 10);
    for (int i = 0; i < 7; i++)
        put(blocks[i]);
    assert_int_equal(hk_outbox_forget(&outbox), 7);
    assert_int_equal(hk_outbox_bytes(&outbox), 0);
    hk_outbox_post_all(&outbox);
    assert_null(hk_inbox_take(owner, CLASS, 1));
}

static void deliver(void *block) { hk_deliver(block); }

UNIT_TEST(nobody_to_deliver_to)
{
    struct hk_slab *slab = start(CLASS, 0);
    void *block = (void *)slab->start;
    hk_slab_release(slab);
    unit_dies(deliver, block, "hakmem: free(), found at a flush: block already free: address 0x");
}

/* Where its slab was, a big block begins: nobody's inbox is asked, and nothing is written there. */
UNIT_TEST(a_big_block_in_its_place)
{
    start(CLASS, 0);
    bool zeroed;
    void *big = hk_big_alloc(4 * HK_MIB, 16, &zeroed);
    assert_non_null(big);
    assert_int_equal(hk_route_owner(hk_map_lookup((uintptr_t)big)), HK_NOBODY);
    unit_dies(deliver, big, "hakmem: free(), found at a flush: block already free: address 0x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_and_sends), cmocka_unit_test(large_ones_go_at_once),
        cmocka_unit_test(many_owners),     cmocka_unit_test(bare),
        cmocka_unit_test(owner_is_gone),   cmocka_unit_test(owner_changed),
        cmocka_unit_test(forget),          cmocka_unit_test(nobody_to_deliver_to),
        cmocka_unit_test(a_big_block_in_its_place),
    };
    return cmocka_run_group_tests_name("outbox", tests, NULL, NULL);
}
