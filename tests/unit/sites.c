/* Tests the table of call sites. The table is bounded, and a report shows the sites that allocated recently. The idle times of a site's large
 * blocks decide whether its next freed blocks are kept, purged at once, or treated as usual. */
#include "unit/unit.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "prof/hooks.h"
#include "hakmem.h"
#include "support/knobs.h"
#include "large/large.h"

#define MB HK_MIB
enum { DELAY = 500, WORTH = 2000, LATE = 1000, GONE = 5000, ROUNDS = 8, NEWCOMERS = 10000, LINES = 100, PLACES = 4096 };

static void start(uint64_t mode)
{
    hk_options.site_rules = mode;
    hk_options.learn = HK_LEARN_OFF;
    hk_options.reuse_worth = WORTH;
    unit_start();
    SET_KNOB(purge_delay, DELAY);
    assert_true(hk_hooks.sites);
}

/* Makes enough slow calls for a tick of the learner. */
static void look_around(void)
{
    enum { BLOCKS = 512 };
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = hak_malloc(4096);
    for (int i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

static void pass(uint64_t ms)
{
    for (; ms > 0; ms -= hk_min(ms, 100)) {
        fake_os_pass_ms(hk_min(ms, 100));
        look_around();
    }
}

/* Allocates a block from the site under test. All other calls belong to other sites. */
static HK_NOINLINE void *block_of_site(size_t size)
{
    void *block = hak_malloc(size);
    assert_non_null(block);
    return block;
}

static struct hk_site_line line_of(size_t block)
{
    struct hk_site_line lines[LINES];
    unsigned count = hk_sites_top(lines, LINES);
    for (unsigned i = 0; i < count; i++)
        if ((size_t)1 << lines[i].site->size_bits == block)
            return lines[i];
    return (struct hk_site_line){0};
}

static void *caller_number(size_t number) { return (void *)(0x1000 + number * 16); }

static size_t cached(void)
{
    struct hk_large_totals totals = hk_large_total();
    return totals.cached;
}

/* A round allocates a block from the site under test, frees the block, and pauses. All rounds of a test have one call stack, and so one site. */
struct rounds {
    size_t size;
    unsigned most;
    uint64_t (*pause_after)(unsigned round);
    void (*look)(unsigned round);
};

static HK_NOINLINE void come_and_go(const struct rounds *rounds)
{
    for (unsigned round = 0; round < rounds->most; round++) {
        hak_free(block_of_site(rounds->size));
        rounds->look(round);
        pass(rounds->pause_after(round));
    }
}

static uint64_t late_then_gone(unsigned round) { return round < ROUNDS ? LATE : GONE; }
static uint64_t gone_always(unsigned round) { return round < ROUNDS ? GONE : 0; }

static uint64_t maps_before;

static void look_at_kept(unsigned round)
{
    struct hk_site_line line = line_of(4 * MB);
    assert_int_equal(cached(), 3 * MB);
    if (round == ROUNDS - 1)
        maps_before = fake_os_calls(FAKE_MAP);
    if (round == ROUNDS) {
        assert_int_equal(line.rule, HK_SITE_KEEP_WARM);
        assert_int_equal(line.bytes, (ROUNDS + 1) * 3 * MB);
        assert_int_equal(line.live, 0);
        assert_int_equal(fake_os_calls(FAKE_MAP), maps_before);
        assert_true(line.saved >= 3 * MB);
        assert_int_equal(line.wasted, 0);
    }
    if (round == ROUNDS + 1)
        assert_int_equal(line.wasted, 3 * MB);
}

UNIT_TEST(kept_warm)
{
    start(HK_SITE_RULES_ON);
    come_and_go(&(struct rounds){3 * MB, ROUNDS + 2, late_then_gone, look_at_kept});
    assert_int_equal(cached(), 0);
}

static void look_at_purged(unsigned round)
{
    if (round == ROUNDS)
        assert_int_equal(line_of(4 * MB).rule, HK_SITE_PURGE_AT_ONCE);
    if (round >= ROUNDS)
        assert_int_equal(cached(), 0);
    if (round == ROUNDS + 1)
        assert_int_equal(line_of(4 * MB).wasted, 3 * MB);
}

UNIT_TEST(purged_at_once)
{
    start(HK_SITE_RULES_ON);
    come_and_go(&(struct rounds){3 * MB, ROUNDS + 2, gone_always, look_at_purged});
}

static void look_at_watched(unsigned round)
{
    if (round == ROUNDS) {
        assert_int_equal(line_of(4 * MB).rule, HK_SITE_KEEP_WARM);
        assert_true(line_of(4 * MB).saved >= 3 * MB);
    }
    assert_int_equal(cached(), 3 * MB);
}

/* With HK_SITE_RULES_WATCH, sites are observed and get rules, but the rules have no effect. */
UNIT_TEST(watched)
{
    start(HK_SITE_RULES_WATCH);
    come_and_go(&(struct rounds){3 * MB, 3 * ROUNDS, late_then_gone, look_at_watched});
    assert_int_equal(line_of(4 * MB).rule, HK_SITE_PURGE_AT_ONCE);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_large_kept]), 0);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_large_dropped]), 0);
}

static size_t in_bin(size_t size) { return hk_bin_items(&hk_self->bins[hk_class_of(size)]); }
static uint64_t late_always(unsigned round) { return round < ROUNDS ? LATE : 0; }

static void look_away(unsigned round) { (void)round; }

/* A medium block that is used again late stays in its bin, from which nothing is purged, until only the purge delay is left. */
static void kept_in_bin(size_t size, uint64_t mode, size_t then)
{
    start(mode);
    come_and_go(&(struct rounds){size, ROUNDS, late_always, look_away});
    assert_int_equal(line_of(size).rule, HK_SITE_KEEP_WARM);
    assert_int_equal(in_bin(size), then);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_large_kept]) > 0, then > 0);
    pass(WORTH);
    assert_int_equal(in_bin(size), 0);
}

UNIT_TEST(medium_kept_warm) { kept_in_bin(256 * HK_KIB, HK_SITE_RULES_ON, 1); }
UNIT_TEST(smallest_kept_warm) { kept_in_bin(64 * HK_KIB, HK_SITE_RULES_ON, 1); }
UNIT_TEST(medium_watched) { kept_in_bin(256 * HK_KIB, HK_SITE_RULES_WATCH, 0); }

static void look_at_medium_purged(unsigned round)
{
    assert_int_equal(in_bin(256 * HK_KIB), 1);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_large_dropped]) > 0, round >= 4);
    if (round == ROUNDS + 1)
        assert_int_equal(line_of(256 * HK_KIB).wasted, 256 * HK_KIB);
}

/* A medium block that is not used again is purged when it is freed. Its bin gets the block as usual. */
UNIT_TEST(medium_purged_at_once)
{
    start(HK_SITE_RULES_ON);
    come_and_go(&(struct rounds){256 * HK_KIB, ROUNDS + 2, gone_always, look_at_medium_purged});
    uint64_t purged = hk_load(hk_global_counts[HK_GLOBAL_purged_bytes]);
    assert_true(purged >= ROUNDS / 2 * 256 * HK_KIB);
}

/* Another medium class uses the memory of a medium block from an epoch after the free on. The time until then is the idle time of the block. */
static void reuse_by_another_class(uint64_t after_ms, bool is_purged)
{
    for (int i = 0; i < ROUNDS; i++) {
        hk_sites_alloc(NULL, (void *)HK_SLICE, 512 * HK_KIB, caller_number(0), true);
        (void)hk_sites_free((void *)HK_SLICE);
        fake_os_pass_ms(after_ms);
        hk_sites_alloc(NULL, (void *)(16 * HK_SLICE), 300000, caller_number(1), true);
        fake_os_pass_ms(GONE);
        (void)hk_sites_free((void *)(16 * HK_SLICE));
    }
    assert_int_equal(line_of(512 * HK_KIB).rule == HK_SITE_PURGE_AT_ONCE, is_purged);
}

UNIT_TEST(medium_used_by_another_class)
{
    start(HK_SITE_RULES_WATCH);
    reuse_by_another_class(200, false);
}

UNIT_TEST(medium_still_in_its_bin)
{
    start(HK_SITE_RULES_WATCH);
    reuse_by_another_class(100, true);
}

/* A block of less than 64 KiB has no rule, even if all its blocks are recorded. */
UNIT_TEST(no_rule_below_64_kib)
{
    start(HK_SITE_RULES_ON);
    for (int i = 0; i < ROUNDS; i++) {
        hk_sites_alloc(NULL, (void *)HK_SLICE, 64 * HK_KIB - 1, (void *)0x1000, true);
        assert_int_equal(hk_sites_free((void *)HK_SLICE), HK_SITE_NO_RULE);
        fake_os_pass_ms(GONE);
    }
    struct hk_site_line line;
    assert_int_equal(hk_sites_top(&line, 1), 1);
    assert_int_equal(line.bytes, ROUNDS * (64 * HK_KIB - 1)); /* All blocks above 32 KiB are recorded. */
    assert_int_equal(line.rule, HK_SITE_NO_RULE);
}

/* If a site rule holds a bin, the bin is not emptied after the thread was idle. While memory is short, it is emptied all the same. */
UNIT_TEST(held_over_a_rest)
{
    start(HK_SITE_RULES_ON);
    struct hk_tcache *cache = hk_tcache_self();
    for (int short_of_memory = 0; short_of_memory < 2; short_of_memory++) {
        struct hk_knobs knobs;
        hak_free(hak_malloc(256 * HK_KIB));
        cache->held_until[hk_class_of(256 * HK_KIB) - HK_FINE_CLASSES] = hk_os.clock_ms() + 100000;
        hk_policy_read(&knobs);
        hk_policy_publish(&knobs, short_of_memory ? HK_PHASE_TIGHT : HK_PHASE_STEADY);
        fake_os_pass_ms(10 * DELAY);
        hk_tick(cache, HK_TICK_NOW);
        assert_int_equal(in_bin(256 * HK_KIB), !short_of_memory);
    }
}

static HK_NOINLINE void *through_one(void) { return block_of_site(3 * MB); }
static HK_NOINLINE void *through_other(void) { return block_of_site(3 * MB); }

/* Two stacks through one call of malloc are two sites, so that a wrapper of malloc does not mix blocks of different use. */
UNIT_TEST(site_is_a_stack)
{
    struct hk_site_line lines[LINES];
    start(HK_SITE_RULES_WATCH);
    void *blocks[] = {through_one(), through_other()};
    assert_int_equal(hk_sites_top(lines, LINES), 2);
    assert_ptr_equal(lines[0].site->stack[0], lines[1].site->stack[0]);
    unsigned same = 1; /* frames; without optimization, hak_malloc() has a frame too */
    while (lines[0].site->stack[same] == lines[1].site->stack[same])
        same++;
    assert_in_range(same, 1, 3);
    hak_free(blocks[0]);
    hak_free(blocks[1]);
}

/* A site that frees more blocks than there are ghosts does not remove the ghost of another site. */
UNIT_TEST(ghosts_of_others_stay)
{
    enum { BLOCKS = 100 };
    start(HK_SITE_RULES_WATCH);
    for (int i = 0; i < ROUNDS; i++) {
        hk_sites_alloc(NULL, (void *)HK_SLICE, 3 * MB, caller_number(0), true);
        (void)hk_sites_free((void *)HK_SLICE);
        for (size_t k = 2; k < BLOCKS; k++)
            hk_sites_alloc(NULL, (void *)(k * HK_SLICE), 64 * HK_KIB, caller_number(1), true);
        for (size_t k = 2; k < BLOCKS; k++)
            (void)hk_sites_free((void *)(k * HK_SLICE));
        fake_os_pass_ms(LATE);
    }
    assert_int_equal(line_of(4 * MB).rule, HK_SITE_KEEP_WARM);
}

/* If another site reuses a site's freed block at once, the idle time counts as short, even if each site pauses for long. */
UNIT_TEST(memory_that_goes_round)
{
    start(HK_SITE_RULES_ON);
    for (int i = 0; i < ROUNDS; i++) {
        void *one = block_of_site(3 * MB);
        hak_free(one);
        void *other = hak_calloc(1, 3 * MB);
        pass(LATE);
        hak_free(other);
        pass(10);
    }
    struct hk_site_line lines[LINES];
    unsigned count = hk_sites_top(lines, LINES);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(lines[i].rule, HK_SITE_NO_RULE);
}

UNIT_TEST(resized)
{
    start(HK_SITE_RULES_ON);
    char *block = block_of_site(3 * MB);
    for (int i = 0; i < ROUNDS; i++) {
        block = hak_realloc(block, (i % 2 == 0 ? 60 : 3) * MB);
        assert_non_null(block);
        pass(GONE);
    }
    assert_int_equal(line_of(4 * MB).live, 3 * MB);
    assert_int_equal(line_of(64 * MB).live, 0);
    assert_int_equal(line_of(4 * MB).rule, HK_SITE_NO_RULE);
    hak_free(block);
    assert_int_equal(line_of(4 * MB).live, 0);
}

/* While sites are observed, small blocks are still hits. For larger blocks, the estimate of the live bytes is about right. */
UNIT_TEST(smaller_blocks)
{
    enum { BLOCKS = 2000, SIZE = 20000 };
    static void *blocks[BLOCKS];
    start(HK_SITE_RULES_ON);
    void *small = hak_malloc(100);
    hak_free(small);
    assert_ptr_equal(hk_hit_malloc(100), small);
    assert_null(hk_hit_malloc(SIZE));
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = hak_malloc(SIZE);
    struct hk_site_line line = line_of(32768);
    assert_in_range(line.live, BLOCKS * SIZE / 2, BLOCKS * SIZE * 2);
    fake_os_pass_ms(100);
    for (int i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    assert_int_equal(line_of(32768).live, 0);
    assert_int_equal(line_of(32768).lifetime_ms, 128);
}

/* Simulates an allocation of a block at this address by a call site. */
static void allocate_from(size_t caller, size_t address)
{
    hk_sites_alloc(NULL, (void *)(address * HK_SLICE), 2 * MB, caller_number(caller), true);
}

static bool is_known(const void *caller)
{
    struct hk_site_line lines[LINES];
    unsigned count = hk_sites_top(lines, LINES);
    for (unsigned i = 0; i < count; i++)
        if (lines[i].site->stack[0] == caller)
            return true;
    return false;
}

/* Thousands of sites that allocate once do not overflow the table. They do not replace a site that allocates repeatedly. */
UNIT_TEST(bounded)
{
    start(HK_SITE_RULES_WATCH);
    for (size_t i = 1; i <= NEWCOMERS; i++) {
        allocate_from(i, 2 * i);
        if (i % 50 == 0)
            allocate_from(0, 2 * i + 1);
    }
    struct hk_site_line lines[LINES];
    assert_int_equal(hk_sites_top(lines, LINES), LINES);
    assert_true(is_known(caller_number(0)));
    assert_true(hk_load(hk_global_counts[HK_GLOBAL_sites_lost]) > 0);
    for (unsigned i = 1; i < LINES; i++)
        assert_true(lines[i - 1].live >= lines[i].live);
    assert_int_equal(hk_sites_top(lines, 3), 3);
}

/* A report shows the sites of the last half hour. */
UNIT_TEST(life_of_half_an_hour)
{
    start(HK_SITE_RULES_WATCH);
    for (size_t i = 0; i < LINES; i++)
        allocate_from(i, i + 1);
    fake_os_pass_ms(HK_SITE_LIFE_MS);
    allocate_from(5, 1000);
    assert_true(is_known(caller_number(0)));
    fake_os_pass_ms(1);
    assert_true(is_known(caller_number(5)));
    assert_false(is_known(caller_number(0)));
    allocate_from(LINES, 1001);
    assert_true(is_known(caller_number(LINES)));
    struct hk_site_line lines[LINES];
    hk_sites_free((void *)(1 * HK_SLICE));
    assert_int_equal(hk_sites_top(lines, LINES), 2);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(lines[i].live, lines[i].site->stack[0] == caller_number(5) ? 4 * MB : 2 * MB);
}

static _Atomic bool stopped;

static void *allocate_much(void *unused)
{
    while (!hk_load(stopped))
        hak_free(block_of_site(2 * MB));
    return unused;
}

static void fork_often(void)
{
    for (int i = 0; i < 50; i++) {
        int status = -1;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            hak_free(block_of_site(3 * MB));
            _exit(line_of(4 * MB).bytes == 3 * MB ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

UNIT_TEST(in_a_fork_child)
{
    pthread_t thread;
    start(HK_SITE_RULES_ON);
    assert_int_equal(pthread_create(&thread, NULL, allocate_much, NULL), 0);
    fork_often();
    hk_store(stopped, true);
    pthread_join(thread, NULL);
}

UNIT_TEST(no_memory)
{
    hk_options.site_rules = HK_SITE_RULES_ON;
    unit_start();
    fake_os_capture();
    fake_os_refuse(fake_refuse_all);
    size_t unseen_to;
    while ((unseen_to = hk_hooks_begin()) != HK_ALL_HIT)
        continue;
    fake_os_refuse(NULL);
    assert_false(hk_hooks.sites);
    assert_string_equal(fake_os.captured, "hakmem: no memory for the site rules: they are off\n");
}

UNIT_TEST(off)
{
    unit_start();
    hak_free(block_of_site(3 * MB));
    struct hk_site_line lines[1];
    assert_false(hk_mode_has(HK_MODE_HOOKS));
    assert_int_equal(hk_sites_top(lines, 1), 0);
}

/* One site has more blocks than the table has places. */
UNIT_TEST(no_place)
{
    start(HK_SITE_RULES_WATCH);
    for (size_t i = 1; i <= 2 * PLACES; i++)
        allocate_from(0, i);
    uint64_t lost = hk_load(hk_global_counts[HK_GLOBAL_sites_lost]);
    assert_in_range(lost, PLACES, 2 * PLACES - 1);
    for (size_t i = 1; i <= 2 * PLACES; i++)
        (void)hk_sites_free((void *)(i * HK_SLICE));
    struct hk_site_line lines[LINES];
    assert_int_equal(hk_sites_top(lines, LINES), 1);
    assert_int_equal(lines[0].live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_warm),
                                       cmocka_unit_test(purged_at_once),
                                       cmocka_unit_test(medium_kept_warm),
                                       cmocka_unit_test(smallest_kept_warm),
                                       cmocka_unit_test(medium_watched),
                                       cmocka_unit_test(medium_purged_at_once),
                                       cmocka_unit_test(medium_used_by_another_class),
                                       cmocka_unit_test(medium_still_in_its_bin),
                                       cmocka_unit_test(no_rule_below_64_kib),
                                       cmocka_unit_test(held_over_a_rest),
                                       cmocka_unit_test(site_is_a_stack),
                                       cmocka_unit_test(ghosts_of_others_stay),
                                       cmocka_unit_test(watched),
                                       cmocka_unit_test(memory_that_goes_round),
                                       cmocka_unit_test(resized),
                                       cmocka_unit_test(smaller_blocks),
                                       cmocka_unit_test(bounded),
                                       cmocka_unit_test(life_of_half_an_hour),
                                       cmocka_unit_test(no_place),
                                       cmocka_unit_test(in_a_fork_child),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(off)};
    return cmocka_run_group_tests_name("sites", tests, NULL, NULL);
}
