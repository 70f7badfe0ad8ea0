/* Tests that the pages of remotely freed blocks are purged while their owner sleeps, and that no other pages are purged. */
#include "unit/unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tcache/tcache.h"
#include "hakmem.h"
#include "slab/slab_heap.h"
#include "support/knobs.h"
#include "decay/decay.h"

enum { COUNT = 4000, SIZE = 4096, SMALL = 192, DELAY_MS = 1000 };
static unsigned char *blocks[COUNT];

static void get(size_t size)
{
    unit_start();
    unit_keep_what_threads_leave(); /* The end of a thread must not purge remote frees in this test. */
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = hak_malloc(size);
        assert_non_null(blocks[i]);
        memset(blocks[i], i | 1, size);
    }
}

static bool (*chosen)(int i);
static bool all(int i) { return i >= 0; }
static bool odd_eights(int i) { return i / 8 % 2 == 1; }
static bool odd_hundreds(int i) { return i / 100 % 2 == 1; }
static void free_chosen(void *unused)
{
    (void)unused;
    for (int i = 0; i < COUNT; i++)
        if (chosen(i))
            hak_free(blocks[i]);
}

static void free_elsewhere(bool (*which)(int i))
{
    chosen = which;
    unit_in_thread(free_chosen, NULL);
}

static size_t resident_pages(void)
{
    size_t resident = 0;
    for (int i = 0; i < COUNT; i++) {
        unsigned char in_core;
        uintptr_t page = (uintptr_t)blocks[i] & ~(uintptr_t)4095;
        resident += mincore((void *)page, 4096, &in_core) == 0 && (in_core & 1) != 0;
    }
    return resident;
}

static uint64_t purged(void) { return hk_load(hk_global_counts[HK_GLOBAL_purged_remote]); }

static void expect_others_whole(size_t size)
{
    for (int i = 0; i < COUNT; i++)
        for (size_t at = 0; !chosen(i) && at < size; at++)
            assert_int_equal(blocks[i][at], (unsigned char)(i | 1));
}

static void expect_all_home(void)
{
    static struct hk_heap_stats heap_stats;
    for (int i = 0; i < COUNT; i++)
        if (!chosen(i))
            hak_free(blocks[i]);
    unit_heap_holds(0);
    hak_malloc_trim(0);
    unit_heap_holds(0);
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.sum.slabs, 0);
    assert_int_equal(hk_remote_clean(), 0);
}

static void trim(void *unused)
{
    (void)unused;
    hak_malloc_trim(0);
}

UNIT_TEST(trimmed_by_anybody)
{
    get(SIZE);
    free_elsewhere(all);
    assert_int_equal(resident_pages(), COUNT);
    unit_in_thread(trim, NULL);
    assert_true(resident_pages() <= 32); /* Up to 32 pages stay for the blocks in the owner's bin. */
    assert_true(purged() >= (COUNT - 64) * SIZE);
    assert_true(hk_remote_clean() >= (COUNT - 64) * SIZE);
    unit_heap_holds(0);
    expect_all_home();
}

/* Pages with a live block are not purged, while the owner allocates and frees. */
UNIT_TEST(only_what_is_free)
{
    get(SIZE);
    free_elsewhere(odd_eights);
    unit_in_thread(trim, NULL);
    assert_true(purged() > 0);
    expect_others_whole(SIZE);
    unit_heap_holds(COUNT / 2);
    expect_all_home();
}

UNIT_TEST(small_blocks)
{
    get(SMALL);
    free_elsewhere(odd_hundreds);
    unit_in_thread(trim, NULL);
    assert_true(purged() > COUNT / 2 * SMALL / 2);
    expect_others_whole(SMALL);
    expect_all_home();
}

static void sweep(void *over)
{
    struct hk_sweep share = {.now = hk_os.clock_ms(), .touched = hk_os.clock_ms(), .work = INT64_MAX};
    *(bool *)over = hk_idle_inboxes_sweep(&share);
}

/* A sweep purges remote frees that no owner collected within the purge delay. It skips later remote frees, and those whose pages are already
 * purged. */
UNIT_TEST(swept_when_it_is_time)
{
    bool over = false;
    SET_KNOB(purge_delay, DELAY_MS);
    get(SIZE);
    free_elsewhere(odd_eights);
    unit_in_thread(sweep, &over);
    assert_true(over);
    fake_os_pass_ms(DELAY_MS / 2);
    unit_in_thread(sweep, &over);
    assert_int_equal(purged(), 0);
    fake_os_pass_ms(DELAY_MS);
    unit_in_thread(sweep, &over);
    uint64_t once = purged();
    assert_true(once > COUNT / 4 * SIZE);
    fake_os_pass_ms(DELAY_MS);
    unit_in_thread(sweep, &over);
    assert_int_equal(purged(), once);
    expect_others_whole(SIZE);
    expect_all_home();
}

/* Even if each call of the sweep has a small work budget, the sweep reaches all remote frees. */
UNIT_TEST(swept_in_steps)
{
    get(SIZE);
    free_elsewhere(all);
    assert_int_equal(purged(), 0);
    SET_KNOB(purge_delay, 0);
    unsigned steps = 0;
    for (bool over = false; !over; steps++) {
        struct hk_sweep share = {.now = hk_os.clock_ms(), .work = 64};
        over = hk_idle_inboxes_sweep(&share);
        assert_true(steps < COUNT);
    }
    assert_true(steps > 4);
    assert_true(purged() >= (COUNT - 64) * SIZE);
    expect_all_home();
}

/* Makes slow calls, and lets time pass between them. Any thread may run it. */
static void work_elsewhere(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++) {
        fake_os_pass_ms(200);
        hak_free(hak_malloc(2 * HK_MIB));
    }
}

UNIT_TEST(swept_by_passes)
{
    get(SIZE);
    free_elsewhere(all);
    unit_in_thread(work_elsewhere, NULL);
    assert_true(purged() >= (COUNT - 64) * SIZE);
    expect_all_home();
}

UNIT_TEST(swept_in_the_background)
{
    get(SIZE);
    hk_slab_lists_shared = true;
    free_elsewhere(all);
    for (int i = 0; i < 20; i++) {
        fake_os_pass_ms(200);
        hk_decay_in_background();
    }
    assert_true(purged() >= (COUNT - 64) * SIZE);
    hk_slab_lists_shared = false;
    expect_all_home();
}

/* If the system refuses the purge, no block is lost, and the next trim purges all pages. */
UNIT_TEST(refused)
{
    get(SIZE);
    free_elsewhere(all);
    fake_os_refuse(fake_refuse_purge);
    unit_in_thread(trim, NULL);
    assert_int_equal(purged(), 0);
    assert_int_equal(hk_remote_clean(), 0);
    fake_os_refuse(NULL);
    unit_in_thread(trim, NULL);
    assert_true(purged() >= (COUNT - 64) * SIZE);
    expect_all_home();
}

static _Atomic bool over;

static void *trims_until_over(void *unused)
{
    unit_start();
    while (!atomic_load(&over))
        hk_idle_inboxes_purge();
    return unused;
}

/* While the owner allocates and frees, a second thread frees the owner's blocks, and a third thread purges pages. No byte in use may be lost. */
UNIT_TEST(while_all_work)
{
    pthread_t trimmer;
    chosen = odd_eights;
    get(SIZE);
    assert_int_equal(pthread_create(&trimmer, NULL, trims_until_over, NULL), 0);
    for (int round = 0; round < 20; round++) {
        free_elsewhere(odd_eights);
        for (int i = 0; i < COUNT; i++) {
            if (!chosen(i))
                continue;
            assert_non_null(blocks[i] = hak_malloc(SIZE));
            memset(blocks[i], i | 1, SIZE);
        }
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(blocks[i][i % SIZE], (unsigned char)(i | 1));
    }
    atomic_store(&over, true);
    pthread_join(trimmer, NULL);
    chosen = all;
    for (int i = 0; i < COUNT; i++)
        hak_free(blocks[i]);
    expect_all_home();
}

static sem_t purging;

/* Makes the first purge take long. */
static bool tell_of_purge(enum fake_call call, uint64_t ordinal)
{
    static _Atomic bool told;
    (void)ordinal;
    if (call == FAKE_PURGE && !atomic_exchange(&told, true)) {
        sem_post(&purging);
        usleep(300 * 1000);
    }
    return false;
}

static void *trim_once(void *unused)
{
    hk_idle_inboxes_purge();
    return unused;
}

/* Remote frees are claimed while their pages are purged. A process that forks during the purge must not lose them in the child. */
UNIT_TEST(fork_during_a_purge)
{
    pthread_t trimmer;
    static struct hk_heap_stats heap_stats;
    int status = 0;
    sem_init(&purging, 0, 0);
    get(SIZE);
    free_elsewhere(all);
    fake_os_refuse(tell_of_purge);
    assert_int_equal(pthread_create(&trimmer, NULL, trim_once, NULL), 0);
    sem_wait(&purging);
    pid_t child = fork();
    if (child == 0) {
        fake_os_refuse(NULL);
        hak_malloc_trim(0);
        hk_heap_stats_take(&heap_stats);
        _exit(heap_stats.sum.slabs == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pthread_join(trimmer, NULL);
    fake_os_refuse(NULL);
    expect_all_home();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trimmed_by_anybody),
        cmocka_unit_test(only_what_is_free),
        cmocka_unit_test(small_blocks),
        cmocka_unit_test(swept_when_it_is_time),
        cmocka_unit_test(swept_in_steps),
        cmocka_unit_test(swept_by_passes),
        cmocka_unit_test(swept_in_the_background),
        cmocka_unit_test(refused),
        cmocka_unit_test(while_all_work),
        cmocka_unit_test(fork_during_a_purge),
    };
    return cmocka_run_group_tests_name("idle_inboxes", tests, NULL, NULL);
}
