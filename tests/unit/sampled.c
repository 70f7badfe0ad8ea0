/* Tests that every call treats sampled blocks like other blocks, that sampled blocks are told from other blocks, and that mistakes with them are
 * reported. */
#include "unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/message.h"
#include "guard/block_checks.h"
#include "guard/sampled.h"
#include "hakmem.h"
#include "prof/hooks.h"
#include "support/rng.h"

#define PAGE hk_system_page()
enum { TRIES = 1000000, SLOTS = 200, STEPS = 100000, LARGE = 20000, ERROR = 12345, ROOM = 100000 };

static void start(void)
{
    hk_options.guard_sample = 1;
    unit_start();
}

/* Makes calls of one size until a block is sampled. The other blocks stay allocated, so that the bin becomes empty. */
static char *sampled_by(void *(*call)(size_t size), size_t size)
{
    for (int i = 0; i < TRIES; i++) {
        char *block = call(size);
        if (hk_slots_hold(block))
            return block;
    }
    fail_msg("none of %d allocations was sampled", TRIES);
    return NULL;
}

static void *zeroed(size_t size) { return hak_calloc(1, size); }
static void *aligned(size_t size) { return hak_memalign(256, size); }
static void *grown(size_t size) { return hak_realloc(hak_malloc(1), size); }
static void *shrunk(size_t size) { return hak_realloc(hak_malloc(3 * size), size); }

static void try_every_call(void)
{
    void *(*const calls[])(size_t) = {hak_malloc, zeroed, aligned, grown, shrunk};
    start();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (size_t size = 100; size <= 8000; size *= 3) {
            char *block = sampled_by(calls[i], size);
            assert_int_equal(hak_malloc_usable_size(block), hk_guard_size(size));
            if (calls[i] == zeroed)
                assert_int_equal(block[0] | block[size / 2] | block[size - 1], 0);
            if (calls[i] == aligned)
                assert_int_equal((uintptr_t)block % 256, 0);
            memset(block, 0x3c, size);
            hak_free(block);
        }
    assert_true(hk_load(hk_global_counts[HK_GLOBAL_guard_samples]) >= 16);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_guard_faults]), 0);
}

UNIT_TEST(every_call) { try_every_call(); }

UNIT_TEST(every_call_while_frees_are_checked)
{
    hk_options.safe_free = 1;
    try_every_call();
}

UNIT_TEST(every_call_while_remote_frees_are_traced)
{
    hk_options.trace_remote = 1;
    try_every_call();
}

UNIT_TEST(every_call_hardened)
{
    hk_options.hardened = "1";
    try_every_call();
}

UNIT_TEST(every_call_with_a_canary)
{
    hk_options.hardened = "canary";
    try_every_call();
}

UNIT_TEST(errno_stays)
{
    start();
    for (int i = 0; i < 5; i++) {
        errno = ERROR;
        char *block = sampled_by(hak_malloc, 100);
        assert_int_equal(errno, ERROR);
        hak_free(block);
        assert_int_equal(errno, ERROR);
    }
}

UNIT_TEST(resized)
{
    start();
    char *block = sampled_by(hak_malloc, 100);
    memset(block, 0x5d, 100);
    char *larger = hak_realloc(block, 1000);
    assert_false(hk_slots_hold(larger) && larger == block);
    for (int i = 0; i < 100; i++)
        assert_int_equal(larger[i], 0x5d);
    assert_int_equal(hk_slot_find(block), HK_SLOT_FREE_ALREADY);
    block = sampled_by(hak_malloc, 1000);
    memset(block, 0x6e, 1000);
    char *smaller = hak_realloc(block, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(smaller[i], 0x6e);
    block = sampled_by(hak_malloc, 10);
    assert_null(hak_realloc(block, 0));
    assert_int_equal(hk_slot_find(block), HK_SLOT_FREE_ALREADY);
}

UNIT_TEST(off)
{
    unit_start();
    for (int i = 0; i < TRIES; i++)
        assert_false(hk_slots_hold(hak_malloc(100)));
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_guard_samples]), 0);
    assert_int_equal(hk_load(hk_slot_range.xbytes), 0);
    assert_int_equal(fake_os_calls(FAKE_BAR), 0);
}

/* Allocates `bytes` bytes and returns the number of samples. On average there is a sample in every `mean` bytes. */
static uint64_t samples_of(size_t size, uint64_t mean, uint64_t bytes)
{
    hk_options.guard_sample = mean;
    uint64_t before = hk_load(hk_global_counts[HK_GLOBAL_guard_samples]);
    for (uint64_t i = 0; i < bytes / size; i++) {
        void *block = hak_malloc(size);
        if (hk_slots_hold(block))
            hak_free(block);
    }
    return hk_load(hk_global_counts[HK_GLOBAL_guard_samples]) - before;
}

/* Without a background thread, the bytes of refills count. */
UNIT_TEST(rate)
{
    hk_options.background = HK_BACKGROUND_OFF;
    start();
    for (size_t size = 64; size <= 4096; size *= 8) {
        uint64_t samples = samples_of(size, 8 << 20, 1000 << 20);
        if (samples < 70 || samples > 180)
            fail_msg("%lu samples of blocks of %zu bytes, not about 125", samples,
                     size); /* plus or minus five standard deviations */
    }
    assert_int_equal(samples_of(LARGE, 1, 100 << 20), 0);
}

static void free_it(void *block) { hak_free(block); }

UNIT_TEST(freed_by_another_thread)
{
    start();
    char *block = sampled_by(hak_malloc, 64);
    unit_in_thread(free_it, block);
    assert_int_equal(hk_slot_find(block), HK_SLOT_FREE_ALREADY);
}

/* If all slots are in use, or the system refuses, the program gets ordinary blocks. */
UNIT_TEST(no_room)
{
    start();
    fake_os_refuse(fake_refuse_bar);
    for (int i = 0; i < 10000; i++)
        assert_non_null(hak_malloc(64));
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_guard_samples]), 0);
    fake_os_refuse(NULL);
    for (int i = 0; i < TRIES; i++)
        assert_non_null(hak_malloc(64));
    assert_int_equal(hk_slots_live(), HK_SLOTS_LIVE * (size_t)8192 / hk_max(8192, PAGE));
    assert_true(hk_load(hk_global_counts[HK_GLOBAL_guard_missed]) > 0);
}

static void add_live(void *context, const struct hk_site *site, unsigned number)
{
    (void)number;
    *(int64_t *)context += hk_load(site->xlive_blocks);
}

static uint64_t refusals;
static bool refuse_first(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    return ordinal <= refusals;
}

/* malloc tries again after a refusal. So it survives a few refusals, also if the block is to be sampled in this call. */
UNIT_TEST(short_of_memory_for_a_moment)
{
    /* If the system refuses this number of calls in succession, both tries of malloc fail. With pages of 64 KiB, malloc makes fewer calls. */
    const int survived = hk_system_page() < 64 * HK_KIB ? 8 : 6;
    if (UNIT_UNDER_TSAN)
        return; /* The sanitizer's mappings exceed the limit. */
    /* The limit makes the heap grow in small steps. */
    fake_os.address_limit = (size_t)1 << 40;
    hk_options.bin_cap = 1;
    start();
    for (int i = 0; i < 40000; i++) {
        refusals = (uint64_t)(i % survived);
        fake_os_refuse(refuse_first);
        /* With these numbers, one of the later tries makes a tick. */
        hk_tcache_self()->until_tick = (1 + i / survived % 4) * hk_tick_weight(CLASS_OF_8192) + 1;
        assert_non_null(hak_malloc(8000));
    }
}

/* The report counts sampled blocks as calls and live blocks, and their slots as metadata. */
UNIT_TEST(counted)
{
    struct hak_stats before, now;
    start();
    hak_free(sampled_by(hak_malloc, 100));
    assert_int_equal(hak_get_stats(&before, sizeof before), 0);
    uint64_t samples = hk_load(hk_global_counts[HK_GLOBAL_guard_samples]);
    assert_non_null(sampled_by(hak_malloc, 100));
    assert_int_equal(hak_get_stats(&now, sizeof now), 0);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_guard_samples]), samples + 1);
    assert_int_equal(now.frees, before.frees);
    assert_int_equal(now.mallocs - before.mallocs, now.live_blocks - before.live_blocks);
    assert_true(now.metadata >= hk_load(hk_slot_range.xbytes));
    fake_os.capturing = true; /* The report says how much of this memory is resident, so it also examines the slots. */
    assert_int_equal(hak_report("-"), 0);
    fake_os.capturing = false;
    assert_true(strlen(fake_os.captured) > 100);
    unit_heap_holds(now.live_blocks - 1);
}

/* While hooks are on, they see every call, also the calls for sampled blocks. */
UNIT_TEST(beside_the_heap_profile)
{
    static char *blocks[SLOTS];
    struct rng rng = rng_seeded(9);
    int64_t live = 0, expected = 0;
    hk_options.heap_sample = 1;
    hk_options.bin_cap = 1;
    start();
    unsigned sampled = 0;
    for (int i = 0; i < STEPS; i++) {
        char **at = &blocks[rng_below(&rng, SLOTS)];
        hak_free(*at);
        *at = rng_below(&rng, 3) == 0 ? NULL : hak_malloc(64 + rng_below(&rng, 3000));
        sampled += hk_slots_hold(*at);
    }
    assert_true(sampled > 10);
    hk_sites_visit(&hk_samples, add_live, &live);
    for (int i = 0; i < SLOTS; i++)
        expected += blocks[i] != NULL;
    assert_int_equal(live, expected);
}

/* Each function makes one mistake with this block, in a child. The test checks how the child ends, and its message. */
static char *victim;

static void write_behind(void) { victim[100 + (-(uintptr_t)(victim + 100) % PAGE)] = 1; }
static void read_freed(void)
{
    hak_free(victim);
    (void)*(volatile char *)victim;
}
static void write_before(void) { victim[-1 - (intptr_t)((uintptr_t)victim % PAGE)] = 1; }
static void free_twice(void)
{
    hak_free(victim);
    hak_free(victim);
}
static void free_inside(void) { hak_free(victim + 16); }
static void resize_freed(void)
{
    hak_free(victim);
    victim = hak_realloc(victim, 500);
}
static void measure_inside(void) { (void)hak_malloc_usable_size(victim + 1); }
static void free_damaged(void)
{
    victim[(uintptr_t)victim % PAGE == 0 ? 100 : -1] ^= 1;
    hak_free(victim);
}

/* Writes ROOM bytes of the stack before a mistake. Valgrind delivers a signal only on memory that the stack has used. */
static __attribute__((noinline)) void grow_stack(void)
{
    char room[ROOM];
    for (size_t at = 0; at < ROOM; at += 1024) {
        room[ROOM - 1 - at] = 1;
        HK_FORGET(room[ROOM - 1 - at]);
    }
}

static void assert_told(void (*mistake)(void), int number, const char *headline, const char *last_line)
{
    fake_os_capture();
    int ends[2];
    char text[8192] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        fake_os.capturing = false;
        hk_stderr_begin();
        grow_stack();
        mistake();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n, used = 0; (n = read(ends[0], text + used, sizeof text - 1 - (size_t)used)) > 0; used += n)
        text[used + n] = 0;
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    fake_os.capturing = false;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != number || strstr(text, headline) != text ||
        strstr(text, last_line) == NULL || strstr(text, "allocated by thread") == NULL)
        fail_msg("wait status 0x%x, stderr: %s", (unsigned)status, text);
}

UNIT_TEST(mistakes)
{
    signal(SIGSEGV, SIG_DFL); /* This replaces the handler of the test frame. */
    start();
    for (unsigned sides = 0, i = 0; sides != 3 && i < 40; i++) {
        victim = sampled_by(hak_malloc, 100);
        sides |= (uintptr_t)victim % PAGE == 0 ? 1 : 2;
        assert_told(write_behind, SIGSEGV, "hakmem: access behind a block: write",
                    " behind the end of the block of 100");
        assert_told(write_before, SIGSEGV, "hakmem: access before a block: write",
                    " before the start of the block of 100");
        assert_told(read_freed, SIGSEGV, "hakmem: use after free: read", "freed by thread");
        assert_told(free_twice, SIGABRT, "hakmem: the block is already free", "free(): block already free");
        assert_told(free_inside, SIGABRT, "hakmem: not the start of a block", "free(): pointer inside a block");
        assert_told(resize_freed, SIGABRT, "hakmem: the block is already free", "realloc(): block already free");
        assert_told(measure_inside, SIGABRT, "hakmem: not the start of a block",
                    "malloc_usable_size(): pointer inside");
        assert_told(free_damaged, SIGABRT, "hakmem: a byte beside a block was written", "free(): bytes beside");
        hak_free(victim);
    }
}

static void assert_untold(void (*act)(void), int number)
{
    int ends[2], status = -1;
    char text[8192] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        hk_stderr_begin();
        grow_stack();
        act();
        _exit(0);
    }
    close(ends[1]);
    (void)!read(ends[0], text, sizeof text - 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    if ((number == 0 ? !WIFEXITED(status) : !WIFSIGNALED(status) || WTERMSIG(status) != number) || text[0] != 0)
        fail_msg("wait status 0x%x, stderr: %s", (unsigned)status, text);
}

static void touch_unused(void) { *((volatile char *)hk_slot_range.xstart + hk_slot_range.xbytes - 1) = 1; }

static void recover(int number)
{
    (void)number;
    _exit(0);
}
static void touch_protected(void)
{
    char *page = victim - (uintptr_t)victim % PAGE;
    mprotect(page, PAGE, PROT_NONE);
    *(volatile char *)page = 1;
    _exit(1);
}

/* The program touches a slot that never had a block. */
UNIT_TEST(fault_at_no_block)
{
    signal(SIGSEGV, SIG_DFL);
    start();
    victim = sampled_by(hak_malloc, 100);
    assert_untold(touch_unused, SIGSEGV);
}

/* The program has protected a page of its own block, so HAKMEM must not report the fault. */
UNIT_TEST(fault_of_the_program)
{
    signal(SIGSEGV, recover);
    start();
    victim = sampled_by(hak_malloc, 100);
    assert_untold(touch_protected, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call),
                                       cmocka_unit_test(every_call_while_frees_are_checked),
                                       cmocka_unit_test(every_call_while_remote_frees_are_traced),
                                       cmocka_unit_test(every_call_hardened),
                                       cmocka_unit_test(every_call_with_a_canary),
                                       cmocka_unit_test(errno_stays),
                                       cmocka_unit_test(resized),
                                       cmocka_unit_test(off),
                                       cmocka_unit_test(rate),
                                       cmocka_unit_test(freed_by_another_thread),
                                       cmocka_unit_test(no_room),
                                       cmocka_unit_test(counted),
                                       cmocka_unit_test(short_of_memory_for_a_moment),
                                       cmocka_unit_test(beside_the_heap_profile),
                                       cmocka_unit_test(mistakes),
                                       cmocka_unit_test(fault_at_no_block),
                                       cmocka_unit_test(fault_of_the_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
