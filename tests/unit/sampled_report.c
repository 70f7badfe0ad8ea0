/* Tests the reports about wrong accesses and wrong calls. A process writes only one report. If another thread makes a mistake during this time,
 * it waits until the report is complete. */
#include "unit/unit.h"

#include <string.h>

#include "guard/sampled.h"

enum { SIZE = 100, PAGE = 4096, RESTS = 100 };

static const struct hk_packed_stack by = {.thread = 4711};
static struct hk_slot *slot;

static uintptr_t take(void)
{
    hk_slots_init();
    slot = hk_slot_take(SIZE, 16);
    assert_non_null(slot);
    slot->allocated = by;
    fake_os_capture();
    return hk_load(slot->xblock);
}

static void assert_said(const char *words)
{
    if (strstr(fake_os.captured, words) == NULL)
        fail_msg("not said: \"%s\", but: %s", words, fake_os.captured);
}
static void assert_not_said(const char *words)
{
    if (strstr(fake_os.captured, words) != NULL)
        fail_msg("said: \"%s\": %s", words, fake_os.captured);
}
static unsigned times_said(const char *words)
{
    unsigned times = 0;
    for (const char *at = fake_os.captured; (at = strstr(at, words)) != NULL; at++)
        times++;
    return times;
}

static void tell_access(uintptr_t address, enum hk_access access)
{
    struct hk_fault fault = {.code = (uintptr_t)take, .access = access};
    hk_sampled_tell(slot, address, &fault, NULL, NULL);
}

UNIT_TEST(access_behind)
{
    tell_access(take() + SIZE + 3, HK_ACCESS_WRITE);
    assert_said("hakmem: access behind a block: write at 0x");
    assert_said(", 3 bytes behind the end of the block of 100 bytes at 0x");
    assert_said("  allocated by thread 4711:\n");
    assert_not_said("freed by");
    assert_said("  accessed by thread ");
    assert_said(" take+0x0 ("); /* The report names the place of the access. */
    assert_said("hakmem: `hakmem symbolize` adds files and lines (docs/GUARD.md)\n");
}

UNIT_TEST(access_before)
{
    tell_access(take() - 7, HK_ACCESS_READ);
    assert_said("hakmem: access before a block: read at 0x");
    assert_said(", 7 bytes before the start of the block of 100 bytes");
}

UNIT_TEST(access_after_free)
{
    static const struct hk_packed_stack freed_by = {.thread = 815};
    uintptr_t block = take();
    assert_int_equal(hk_slot_put((void *)block, &freed_by), HK_SLOT_BLOCK);
    tell_access(block + 5, HK_ACCESS);
    assert_said("hakmem: use after free: access at 0x");
    assert_said(", byte 5 of the freed block of 100 bytes");
    assert_said("  allocated by thread 4711:\n");
    assert_said("  freed by thread 815:\n");
}

/* The report about a block in a reused slot does not mention the free of the slot's previous block. */
UNIT_TEST(served_again)
{
    static const struct hk_packed_stack freed_by = {.thread = 815};
    uintptr_t block = take();
    const struct hk_slot *first = slot;
    hk_slot_put((void *)block, &freed_by);
    while ((slot = hk_slot_take(SIZE, 16)) != first)
        hk_slot_put((void *)hk_load(slot->xblock), &freed_by);
    tell_access(hk_load(slot->xblock) - 1, HK_ACCESS_READ);
    assert_not_said("freed");
}

/* The code of the access is in no module, so its caller is found by the frame pointer. The return address is that of the call. */
UNIT_TEST(frames)
{
    uintptr_t block = take(), call = (uintptr_t)tell_access + 1, chain[8] = {0};
    chain[0] = (uintptr_t)&chain[4], chain[1] = call;
    struct hk_fault fault = {(uintptr_t)chain, (uintptr_t)chain, (uintptr_t)chain, HK_ACCESS_READ};
    hk_sampled_tell(slot, block - 1, &fault, NULL, NULL);
    assert_int_equal(times_said(" tell_access+0x0 ("), 1);
    assert_said("    #1 0x");
    assert_not_said("    #2 0x"); /* A return address of 0 ends the stack. */
}

/* A chain of frame pointers that leads downward, or to invalid memory, is not followed. */
UNIT_TEST(broken_frames)
{
    uintptr_t block = take(), call = (uintptr_t)tell_access + 1, chain[4] = {0};
    chain[1] = call;
    struct hk_fault fault = {(uintptr_t)chain, (uintptr_t)&chain[0], (uintptr_t)&chain[2], HK_ACCESS_READ};
    hk_sampled_tell(slot, block - 1, &fault, NULL, NULL);
    assert_int_equal(times_said(" tell_access+0x0 ("), 0);
    assert_said("hakmem: `hakmem symbolize`");
}

UNIT_TEST(call)
{
    uintptr_t block = take();
    hk_sampled_tell(slot, block, NULL, "the block is already free:", &(struct hk_packed_stack){.thread = 99});
    assert_said("hakmem: the block is already free: 0x");
    assert_said(", byte 0 of the block of 100 bytes");
    assert_said("  allocated by thread 4711:\n");
    assert_said("  called by thread 99:\n");
}

UNIT_TEST(once)
{
    uintptr_t block = take();
    hk_sampled_tell(slot, block, NULL, "first:", &by);
    hk_sampled_tell(slot, block, NULL, "second:", &by);
    tell_access(block - 1, HK_ACCESS_READ);
    assert_said("hakmem: first:");
    assert_not_said("second:");
    assert_not_said("accessed by");
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_guard_faults]), 3);
}

static int (*really_open)(const char *path);
static unsigned rests;

static void count_rest(uint64_t ms)
{
    (void)ms;
    rests++;
}

/* Simulates another thread that reports while the first report is being written. */
static int open_and_tell(const char *path)
{
    hk_os.open = really_open;
    hk_sampled_tell(slot, hk_load(slot->xblock), NULL, "meanwhile:", &by);
    return really_open(path);
}

UNIT_TEST(at_once)
{
    really_open = hk_os.open;
    hk_os.open = open_and_tell;
    hk_os.rest = count_rest;
    tell_access(take() - 1, HK_ACCESS_READ);
    assert_int_equal(rests, RESTS);
    assert_not_said("meanwhile:");
    assert_said("hakmem: `hakmem symbolize`");
    hk_sampled_tell(slot, hk_load(slot->xblock), NULL, "afterwards:", &by);
    assert_int_equal(rests, RESTS); /* After the first report is complete, no thread waits. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(access_behind), cmocka_unit_test(access_before), cmocka_unit_test(access_after_free),
        cmocka_unit_test(served_again),  cmocka_unit_test(frames),        cmocka_unit_test(broken_frames),
        cmocka_unit_test(call),          cmocka_unit_test(once),          cmocka_unit_test(at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
