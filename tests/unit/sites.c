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
        if (lines[i].block == block)
            return lines[i];
    return (struct hk_site_line){0};
}

static size_t cached(void)
{
    struct hk_large_totals totals;
    hk_large_total(&totals);
    return totals.cached;
}

static void come_and_go(uint64_t pause_ms)
{
    for (int i = 0; i < ROUNDS; i++) {
        hak_free(block_of_site(3 * MB));
        pass(pause_ms);
    }
}

UNIT_TEST(kept_warm)
{
    start(HK_SITE_RULES_ON);
    come_and_go(LATE);
    struct hk_site_line line = line_of(4 * MB);
    assert_int_equal(line.rule, HK_SITE_KEEP_WARM);
    assert_int_equal(line.bytes, ROUNDS * 3 * MB);
    assert_int_equal(line.live, 0);
    assert_int_equal(cached(), 3 * MB);
    uint64_t maps = fake_os_calls(FAKE_MAP);
    hak_free(block_of_site(3 * MB));
    assert_int_equal(fake_os_calls(FAKE_MAP), maps);
    assert_true(line_of(4 * MB).saved >= 3 * MB);
    assert_int_equal(line_of(4 * MB).wasted, 0);
    pass(WORTH + 2 * DELAY);
    assert_int_equal(cached(), 0);
    hak_free(block_of_site(3 * MB));
    assert_int_equal(line_of(4 * MB).wasted, 3 * MB);
}

UNIT_TEST(purged_at_once)
{
    start(HK_SITE_RULES_ON);
    come_and_go(GONE);
    assert_int_equal(line_of(4 * MB).rule, HK_SITE_PURGE_AT_ONCE);
    hak_free(block_of_site(3 * MB));
    assert_int_equal(cached(), 0);
    hak_free(block_of_site(3 * MB));
    assert_int_equal(line_of(4 * MB).wasted, 3 * MB);
}

/* With HK_SITE_RULES_WATCH, sites are observed and get rules, but the rules have no effect. */
UNIT_TEST(watched)
{
    start(HK_SITE_RULES_WATCH);
    come_and_go(LATE);
    assert_int_equal(line_of(4 * MB).rule, HK_SITE_KEEP_WARM);
    assert_true(line_of(4 * MB).saved >= 3 * MB);
    assert_int_equal(cached(), 0);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_large_kept]), 0);
    come_and_go(GONE);
    assert_int_equal(line_of(4 * MB).rule, HK_SITE_PURGE_AT_ONCE);
    hak_free(block_of_site(3 * MB));
    assert_int_equal(cached(), 3 * MB);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_large_dropped]), 0);
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

static void *caller_number(size_t number) { return (void *)(0x1000 + number * 16); }

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
        if (lines[i].caller == caller)
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
        assert_int_equal(lines[i].live, lines[i].caller == caller_number(5) ? 4 * MB : 2 * MB);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_warm), cmocka_unit_test(purged_at_once),
                                       cmocka_unit_test(watched),   cmocka_unit_test(memory_that_goes_round),
                                       cmocka_unit_test(resized),   cmocka_unit_test(smaller_blocks),
                                       cmocka_unit_test(bounded),   cmocka_unit_test(life_of_half_an_hour),
                                       cmocka_unit_test(no_place),  cmocka_unit_test(in_a_fork_child),
                                       cmocka_unit_test(no_memory), cmocka_unit_test(off)};
    return cmocka_run_group_tests_name("sites", tests, NULL, NULL);
}
