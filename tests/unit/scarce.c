/* Tests the core if there is no memory for its own records, although blocks and slices are free. The core must serve the call without the record,
 * or refuse the call without any effect. Also tests the messages if no file can be opened. */
#include "unit/unit.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "hakmem.h"
#include "prof/hooks.h"
#include "prof/sample.h"
#include "report/report.h"
#include "runtime/exit_report.h"
#include "runtime/named_file.h"
#include "runtime/lifecycle.h"
#include "slab/joined_blocks.h"
#include "slab/abandoned.h"
#include "span/meta.h"
#include "tcache/pool.h"

static void exhaust(void)
{
    fake_os_refuse(fake_refuse_all);
    for (size_t size = 32 * HK_KIB; size >= 64; size -= 64)
        while (hk_meta_alloc(size) != NULL)
            continue;
}

/* A bin without an array serves single blocks, and counts them. */
UNIT_TEST(block_without_a_bin)
{
    void *block[30];
    unit_start();
    struct hk_tcache *cache = hk_tcache_self();
    block[0] = hak_malloc(1000);
    hk_bins_empty(cache, true);
    exhaust();
    uint64_t served = hk_tcaches_served(CLASS_OF_1024);
    for (int i = 1; i < 30; i++)
        assert_non_null(block[i] = hak_malloc(1000));
    assert_int_equal(hk_bin_capacity(&cache->hot.bins[CLASS_OF_1024]), 0);
    assert_int_equal(hk_tcaches_served(CLASS_OF_1024), served + 29);
    for (int i = 0; i < 30; i++)
        hak_free(block[i]);
    assert_int_equal(hk_bin_capacity(&cache->hot.bins[CLASS_OF_1024]), 0);
    fake_os_refuse(NULL);
    unit_heap_holds(0);
}

/* A slab of many blocks needs a bitmap. If there is no memory for the bitmap, the slab is not made and its descriptor is freed. */
UNIT_TEST(slab_without_bitmaps)
{
    unit_start();
    uint32_t owner = hk_tcache_self()->owner.id;
    struct hk_slab *slab = unit_slab(CLASS_OF_16, owner);
    assert_non_null(slab);
    hk_slab_release(slab);
    exhaust();
    uint64_t refusals = hk_load(hk_global_counts[HK_GLOBAL_os_refusals]);
    for (int i = 0; i < 300; i++)
        assert_null(unit_slab(CLASS_OF_16, owner));
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_os_refusals]), refusals + 300);
    assert_non_null(slab = unit_slab(CLASS_OF_4096, owner)); /* The descriptor has room for this bitmap. */
    hk_slab_release(slab);
    fake_os_refuse(NULL);
    unit_heap_holds(0);
}

/* If there is no memory for a descriptor, a request for a large block or a slab is refused. */
UNIT_TEST(nothing_without_a_descriptor)
{
    unit_start();
    exhaust();
    while (hk_descriptor_new() != NULL)
        continue;
    errno = 0;
    assert_null(hak_malloc(4 * HK_MIB));
    assert_int_equal(errno, ENOMEM);
    assert_null(unit_slab(CLASS_OF_4096, hk_tcache_self()->owner.id));
    fake_os_refuse(NULL);
    void *block = hak_malloc(4 * HK_MIB);
    assert_non_null(block);
    hak_free(block);
}

UNIT_TEST(no_joined_without_a_record)
{
    void *blocks[64], *joined_block;
    unit_start();
    struct hk_slab *slab = unit_slab(CLASS_OF_1024, hk_tcache_self()->owner.id);
    hk_slab_alloc(slab, blocks + 1, 1);
    unsigned free = slab->free;
    exhaust();
    assert_int_equal(hk_joined_take(slab, 2, &joined_block + 1, 1), 0);
    assert_false(slab->mixed);
    assert_int_equal(slab->free, free);
    fake_os_refuse(NULL);
    assert_int_equal(hk_joined_take(slab, 2, &joined_block + 1, 1), 1);
    assert_true(slab->mixed);
    assert_int_equal(slab->free, free - 2);
}

/* If there is no memory for the number of a new cache, the memory of this cache is kept for the next thread. */
UNIT_TEST(cache_without_a_number)
{
    static struct hk_tcache others[64];
    unit_start();
    assert_non_null(hk_meta_pages(HK_PAGE));       /* Later caches use the area of this page. */
    for (unsigned i = 0; hk_owner_end() < 64; i++) /* The first part of the table has 64 numbers. */
        assert_true(hk_owner_register(&others[i].owner));
    exhaust();
    assert_null(hk_pool_take());
    size_t unused = hk_meta_unused();
    for (int i = 0; i < 100; i++)
        assert_null(hk_pool_take());
    assert_int_equal(hk_meta_unused(), unused);
    fake_os_refuse(NULL);
    struct hk_tcache *cache = hk_pool_take();
    assert_non_null(cache);
    assert_int_equal(cache->owner.id, 64);
}

static const struct hk_stack here = {2, {(void *)0x1000, (void *)0x2000}};

UNIT_TEST(sample_without_a_site)
{
    assert_true(hk_samples_open(&hk_samples));
    exhaust();
    assert_true(hk_sample_enter(&hk_samples, (void *)0x7f0000000000, 100, &here) == HK_SAMPLE_SITES);
    fake_os_refuse(NULL);
    assert_true(hk_sample_enter(&hk_samples, (void *)0x7f0000000000, 100, &here) != HK_SAMPLE_SITES);
}

UNIT_TEST(statistics)
{
    struct hak_stats stats;
    struct mallinfo2 info = {.arena = 1}, zero = {.arena = 0};
    char text[64];
    FILE *file = fmemopen(text, sizeof text, "w");
    unit_start();
    struct hk_report *first = hk_report_open(); /* Simulates another thread that holds the static report. */
    fake_os_refuse(fake_refuse_all);
    errno = 0;
    assert_int_equal(hak_get_stats(&stats, sizeof stats), -1);
    assert_int_equal(errno, ENOMEM);
    info = hak_mallinfo2();
    assert_memory_equal(&info, &zero, sizeof info);
    assert_int_equal(hak_malloc_info(0, file), ENOMEM);
    fake_os_refuse(NULL);
    hk_report_close(first);
    assert_int_equal(hak_get_stats(&stats, sizeof stats), 0);
    fclose(file);
}

/* If there is no memory for a copy, realloc of another allocator's block leaves that block unchanged. */
UNIT_TEST(foreign_block_stays)
{
    static char other_heap[4096];
    unit_start();
    strcpy(other_heap + 64, "as it was");
    fake_os.break_start = (uintptr_t)other_heap;
    fake_os.break_end = (uintptr_t)other_heap + sizeof other_heap;
    fake_os_refuse(fake_refuse_all);
    errno = 0;
    assert_null(hak_realloc(other_heap + 64, 64 * HK_MIB));
    assert_int_equal(errno, ENOMEM);
    assert_string_equal(other_heap + 64, "as it was");
    fake_os_refuse(NULL);
    char *moved = hak_realloc(other_heap + 64, 64 * HK_MIB);
    assert_string_equal(moved, "as it was");
    hak_free(moved);
}

/* While malloc returns no block, HAKMEM assumes that it is the malloc of the process, and checks again in the next call. */
UNIT_TEST(served_is_decided_by_a_block)
{
    fake_os_refuse(fake_refuse_all);
    assert_true(hk_process_is_served());
    fake_os_refuse(NULL);
    assert_true(hk_process_is_served());
}

UNIT_TEST(profile_without_the_mappings)
{
    unit_start();
    assert_true(hk_samples_open(&hk_samples));
    fake_os_refuse(fake_refuse_open);
    fake_os_capture();
    hk_heap_profile_write(3, "");
    assert_non_null(strstr(fake_os.captured, "heap profile:"));
    assert_null(strstr(fake_os.captured, "r-xp"));
}

UNIT_TEST(names_that_are_too_long)
{
    static char name[20000];
    struct hk_text path;
    memset(name, 'a', sizeof name - 1);
    assert_false(hk_named_path(&path, name, NULL));
    assert_int_equal(hk_report_write(name), -ENAMETOOLONG);
    assert_true(hk_named_path(&path, name + sizeof name - 100, NULL));
    assert_string_equal(path.bytes, name + sizeof name - 100);
}

/* If the environment of the parent process cannot be read, the process does not count as a child. */
UNIT_TEST(a_parent_that_cannot_be_seen)
{
    struct hk_text path;
    unit_start();
    fake_os.environment = (char *[]){"LD_PRELOAD=/l", "HAKMEM_REPORT=/tmp/none/r.json", NULL};
    hk_options.report = "/tmp/none/r.json";
    fake_os_refuse(fake_refuse_open);
    hk_named_files_begin();
    assert_true(fake_os_calls(FAKE_OPEN) > 0);
    assert_true(hk_named_path(&path, hk_options.report, ".json"));
    assert_string_equal(path.bytes, "/tmp/none/r.json");
    hk_named_files_fork_child();
    assert_true(hk_named_path(&path, hk_options.report, ".json"));
    assert_string_not_equal(path.bytes, "/tmp/none/r.json");
    hk_named_files_begin();
    hk_options.report = NULL;
    fake_os_refuse(fake_refuse_open);
    hk_named_files_begin();
    assert_int_equal(fake_os_calls(FAKE_OPEN), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_without_a_bin),
        cmocka_unit_test(slab_without_bitmaps),
        cmocka_unit_test(nothing_without_a_descriptor),
        cmocka_unit_test(no_joined_without_a_record),
        cmocka_unit_test(cache_without_a_number),
        cmocka_unit_test(sample_without_a_site),
        cmocka_unit_test(statistics),
        cmocka_unit_test(foreign_block_stays),
        cmocka_unit_test(served_is_decided_by_a_block),
        cmocka_unit_test(profile_without_the_mappings),
        cmocka_unit_test(names_that_are_too_long),
        cmocka_unit_test(a_parent_that_cannot_be_seen),
    };
    return cmocka_run_group_tests_name("scarce", tests, NULL, NULL);
}
