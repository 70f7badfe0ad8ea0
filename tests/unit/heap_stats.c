/* Tests that the parts of the heap statistics add up, that the text and the JSON of a report agree, and that the exit report is written to its
 * file. */
#include "unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tcache/tcache.h"
#include "hakmem.h"
#include "policy/options.h"
#include "report/report.h"
#include "runtime/exit_report.h"
#include "support/rng.h"

enum { SLOTS = 500 };

static struct hk_heap_stats heap_stats;
static void *blocks[SLOTS];

static size_t part(const char *name)
{
    for (int part = 0; part < HK_PARTS; part++)
        if (strcmp(hk_part_rows[part].name, name) == 0)
            return heap_stats.parts[part];
    fail_msg("no part %s", name);
    return 0;
}

/* After each step the parts must add up, and the number of live blocks must be the program's. */
UNIT_TEST(sums)
{
    struct rng rng = rng_seeded(6);
    size_t live = 0, larges = 0;
    unit_start();
    for (int step = 0; step < 20000; step++) {
        uint32_t i = rng_below(&rng, SLOTS);
        if (blocks[i] == NULL) {
            unsigned shift = 3 + rng_below(&rng, rng_below(&rng, 50) == 0 ? 19 : 11);
            blocks[i] = hak_malloc(((size_t)1 << shift) + rng_below(&rng, 1u << shift));
            bool large = hak_malloc_usable_size(blocks[i]) > HK_MEDIUM_MAX;
            live += !large;
            larges += large;
        } else {
            bool large = hak_malloc_usable_size(blocks[i]) > HK_MEDIUM_MAX;
            live -= !large;
            larges -= large;
            hak_free(blocks[i]);
            blocks[i] = NULL;
        }
        if (step % 100 == 0) {
            const char *wrong = heap_is_wrong(&heap_stats);
            if (wrong != NULL)
                fail_msg("step %d: %s", step, wrong);
            assert_int_equal(heap_stats.sum.live_blocks, live);
            assert_int_equal(heap_stats.tiers[HK_TIER_LARGE].live_blocks, larges);
            assert_int_equal(heap_stats.mallocs - heap_stats.frees, live + larges);
        }
        if (step % 3000 == 0)
            hak_malloc_trim(0);
    }
}

static void free_some(void *count)
{
    for (size_t i = 0; i < *(size_t *)count; i++)
        hak_free(blocks[i]);
    /* The heap is checked before the thread ends because the end of the thread sends the blocks that wait in its outbox. */
    assert_null(heap_is_wrong(&heap_stats));
    assert_int_equal(heap_stats.threads, 2);
}

UNIT_TEST(remote_pending)
{
    size_t count = 100;
    unit_start();
    for (size_t i = 0; i < count; i++)
        blocks[i] = hak_malloc(64);
    unit_in_thread(free_some, &count);
    assert_int_equal(part("remote_pending"), count * 64); /* The thread sent its 100 frees when it ended. */
    unit_heap_holds(0);
    hak_malloc_trim(0);
    assert_null(heap_is_wrong(&heap_stats));
    assert_int_equal(part("remote_pending"), 0);
    assert_int_equal(heap_stats.threads, 1);
}

UNIT_TEST(each_part)
{
    unit_start();
    void *small = hak_malloc(1280), *large = hak_malloc(3 * HK_MIB);
    assert_null(heap_is_wrong(&heap_stats));
    assert_int_equal(part("live"), 1280);
    assert_int_equal(part("large_live"), 3 * HK_MIB);
    assert_int_equal(part("slab_tails"), 65536 % 1280);
    size_t in_bins = part("thread_caches");
    hak_free(small);
    hak_free(large);
    assert_null(heap_is_wrong(&heap_stats));
    assert_int_equal(part("live"), 0);
    assert_int_equal(part("large_live"), 0);
    assert_int_equal(part("large_cached"), 3 * HK_MIB);
    assert_int_equal(part("thread_caches"), in_bins + 1280);
    hak_malloc_trim(0);
    assert_null(heap_is_wrong(&heap_stats));
    assert_int_equal(part("large_cached") + part("thread_caches") + part("free_in_slabs") + part("slab_tails"), 0);
    assert_int_equal(heap_stats.idle_dirty, 0);
}

/* If the requests that miss have evenly spread sizes of a class, the estimate of the bytes that rounding adds is exact. */
UNIT_TEST(rounding)
{
    unit_start();
    assert_non_null(hak_malloc(1100));
    assert_null(heap_is_wrong(&heap_stats));
    assert_int_equal(part("live"), 1100);
    assert_int_equal(part("rounding"), 52);
    hak_malloc_trim(0); /* The trim empties the bins, so that the next malloc is a miss. */
    assert_non_null(hak_malloc(1152));
    assert_null(heap_is_wrong(&heap_stats));
    assert_int_equal(part("live"), 2252);
    assert_int_equal(part("rounding"), 52);
    assert_int_equal(heap_stats.tiers[HK_TIER_SMALL].rounding, 52);
}

static void miss_once(void *size) { hak_free(hak_malloc(*(size_t *)size)); }

/* Misses are counted by class and by thread. The counts include ended threads, but not hits. */
UNIT_TEST(misses)
{
    size_t size = 100;
    hk_options.count = HK_COUNT_ON;
    unit_start();
    void *first = hak_malloc(size);
    hak_free(first);
    hak_free(hak_malloc(size));
    assert_int_equal(hk_tcaches_refilled(CLASS_OF_112, HK_SOURCE_NEW), 1);
    unit_in_thread(miss_once, &size);
    assert_null(heap_is_wrong(&heap_stats));
    assert_int_equal(hk_tcaches_requested(CLASS_OF_112), 2 * size);
    assert_int_equal(hk_load(hk_tcache_self()->miss_counts[CLASS_OF_112].xcalls[HK_SOURCE_NEW]), 1);
    assert_int_equal(heap_stats.classes[CLASS_OF_112].misses, 2);
    assert_int_equal(heap_stats.classes[CLASS_OF_112].served, 3);
    assert_int_equal(heap_stats.tiers[HK_TIER_TINY].misses, 2);
    assert_int_equal(hk_hit_rate(&heap_stats.tiers[HK_TIER_TINY]), 3333);
    assert_int_equal(hk_hit_rate(&heap_stats.tiers[HK_TIER_MEDIUM]), HK_HIT_RATE_ONE);
}

enum { MANY = 20000 };
static void *many[MANY];

static void allocate_many(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < MANY; i++)
        assert_non_null(many[i] = hak_malloc(100));
}

static void free_many(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < MANY; i++)
        hak_free(many[i]);
}

static void leave_half_of_many(void *unused)
{
    allocate_many(unused);
    for (unsigned i = 0; i < MANY; i += 2)
        hak_free(many[i]);
}

/* Returns the number of misses that a source has served since the last call. All misses must have a source. */
static uint64_t refills_since(enum hk_source source)
{
    static uint64_t before[HK_SOURCES];
    const struct hk_class_stats *class_stats = &heap_stats.classes[CLASS_OF_112];
    assert_null(heap_is_wrong(&heap_stats));
    uint64_t now[HK_SOURCES] = {class_stats->refills_depot, class_stats->refills_own, class_stats->refills_drained,
                                class_stats->refills_adopted, class_stats->refills_new};
    uint64_t sum = 0, since = now[source] - before[source];
    for (unsigned i = 0; i < HK_SOURCES; i++)
        sum += before[i] = now[i];
    assert_int_equal(sum, class_stats->misses);
    assert_int_equal(hk_tcaches_counted(HK_THREAD_misses), sum);
    return since;
}

UNIT_TEST(refills)
{
    unit_start();
    allocate_many(NULL);
    uint64_t slabs = heap_is_wrong(&heap_stats) == NULL ? heap_stats.classes[CLASS_OF_112].slabs : 0;
    assert_int_equal(refills_since(HK_SOURCE_NEW), slabs);
    free_many(NULL);
    allocate_many(NULL);
    assert_in_range(refills_since(HK_SOURCE_DEPOT), 10, 400);
    unit_in_thread(free_many, NULL);
    allocate_many(NULL);
    assert_in_range(refills_since(HK_SOURCE_DRAINED), 1, 100);
    free_many(NULL);
    hak_malloc_trim(0);
    assert_int_equal(refills_since(HK_SOURCE_ADOPTED), 0);
    unit_in_thread(leave_half_of_many, NULL);
    for (unsigned i = 0; i < MANY / 4; i++)
        assert_non_null(hak_malloc(100));
    assert_in_range(refills_since(HK_SOURCE_ADOPTED), 10, 2000);
    assert_non_null(hak_malloc(100));
    hak_malloc_trim(0);
    assert_int_equal(refills_since(HK_SOURCE_OWN), 0);
    assert_non_null(hak_malloc(100));
    assert_int_equal(refills_since(HK_SOURCE_OWN), 1);
}

UNIT_TEST(large_tier)
{
    unit_start();
    hak_free(hak_malloc(3 * HK_MIB));
    assert_non_null(hak_malloc(3 * HK_MIB));
    hk_heap_stats_take(&heap_stats);
    const struct hk_class_stats *row = &heap_stats.tiers[HK_TIER_LARGE];
    assert_int_equal(row->served, 2);
    assert_int_equal(row->misses, 1);
    assert_int_equal(row->live_blocks, 1);
    assert_int_equal(row->live, 3 * HK_MIB);
    assert_int_equal(hk_hit_rate(row), HK_HIT_RATE_ONE / 2);
}

/* Runs a Python script that reads the report and checks its sums. */
static void assert_python_reads(const char *path)
{
    static const char script[] =
        "import json, sys\n"
        "r = json.load(open(sys.argv[1]))\n"
        "assert r['mapped']['total'] == sum(r['mapped']['parts'].values()), 'parts'\n"
        "assert r['served']['malloc'] >= r['served']['free'] > 0, 'served'\n"
        "assert r['mapped']['parts']['live'] == sum(c['live'] for c in r['classes']), 'live'\n"
        "assert r['idle']['dirty'] + r['idle']['clean'] == r['mapped']['parts']['idle'], 'idle'\n"
        "assert r['options']['large_fit'] == 400 and r['options']['report'].endswith('.json'), 'options'\n"
        "assert all(isinstance(v, int) and v >= 0 for v in r['counters'].values()), 'counters'\n"
        "assert r['resident'] > 0 and r['virtual'] > r['resident'] and r['threads'] == 1, 'process'\n"
        "assert r['mapped']['parts']['rounding'] == sum(c['rounding'] for c in r['classes']) > 0, 'rounding'\n"
        "for t in r['tiers'][:3]:\n"
        "    rows = [c for c in r['classes'] if c['tier'] == t['tier']]\n"
        "    assert all(t[k] == sum(c[k] for c in rows) for k in t if k not in ('tier', 'hit_rate')), t\n"
        "for c in r['tiers'] + r['classes']:\n"
        "    hits = 1 - c['misses'] / c['served'] if c['served'] else 1\n"
        "    assert hits - 0.0001 < c['hit_rate'] <= hits + 1e-9, c\n";
    char command[2048];
    snprintf(command, sizeof command, "exec %s - '%s' <<'end'\n%send\n", PYTHON, path, script);
    assert_int_equal(system(command), 0);
}

static void make_some_work(void)
{
    hk_options.count = HK_COUNT_ON;
    unit_start();
    for (size_t i = 0; i < SLOTS; i++)
        blocks[i] = hak_malloc(i * i);
    for (size_t i = 0; i < SLOTS; i += 2)
        hak_free(blocks[i]);
}

/* A path may contain any bytes, but the report must be valid UTF-8. */
UNIT_TEST(json_of_any_bytes)
{
    static struct hk_report report;
    unit_start();
    hk_options.explain = "\xff\xc3\xa9\xe2\x82\xac\xed\xa0\x80\xc0\x80\xf0\x9f\x98\x80\xe2\x82\x01\"";
    hk_options.goal = "\xf0\x9f";
    hk_report_take(&report, 0);
    fake_os_capture();
    hk_report_json(1, &report);
    assert_non_null(strstr(fake_os.captured,
                           "\"explain\": \"\\ufffd\xc3\xa9\xe2\x82\xac\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd"
                           "\xf0\x9f\x98\x80\\ufffd\\ufffd\\u0001\\\"\""));
    assert_non_null(strstr(fake_os.captured, "\"goal\": \"\\ufffd\\ufffd\""));
}

UNIT_TEST(json_at_exit)
{
    char path[] = "/tmp/hakmem-\"slice\\XXXXXX", report[64], real_name[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    snprintf(report, sizeof report, "%s.%%p.json", path);
    snprintf(real_name, sizeof real_name, "%s.%d.json", path, (int)getpid());
    make_some_work();
    hk_options.report = report;
    hk_exit_report(true);
    assert_python_reads(real_name);
    unlink(real_name);
}

UNIT_TEST(text)
{
    make_some_work();
    fake_os_capture();
    assert_int_equal(hak_report("-"), 0);
    assert_non_null(strstr(fake_os.captured, "HAKMEM "));
    /* A process that created no heap gets a report that does not mention heaps. */
    for (int part = 0; part < HK_PARTS; part++)
        assert_int_equal(strstr(fake_os.captured, hk_part_rows[part].meaning) != NULL, part != HK_PART_heaps);
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        assert_non_null(strstr(fake_os.captured, hk_stat_rows[i].meaning));
    assert_non_null(strstr(fake_os.captured, "large_fit"));
    assert_null(strstr(fake_os.captured, "at least "));
}

/* The calls of user heaps are calls of the process. They stay counted if a heap is reset or destroyed, and if another heap gets its number. */
UNIT_TEST(calls_of_user_heaps)
{
    unit_start();
    hk_heap_stats_take(&heap_stats);
    uint64_t mallocs = heap_stats.mallocs, frees = heap_stats.frees;
    for (unsigned round = 1; round <= 3; round++) {
        struct hak_heap *heap = hak_heap_create("tenant", 0);
        for (size_t i = 0; i < SLOTS; i++)
            blocks[i] = hak_heap_malloc(heap, i == 0 ? 3 * HK_MIB : 100);
        hak_free(blocks[0]);
        hak_heap_free(heap, blocks[1]);
        hk_heap_stats_take(&heap_stats);
        assert_int_equal(heap_stats.mallocs - mallocs, round * SLOTS);
        assert_int_equal(heap_stats.frees - frees, (round - 1) * SLOTS + 2);
        assert_int_equal(hak_heap_destroy(heap), 0);
        hk_heap_stats_take(&heap_stats);
        assert_int_equal(heap_stats.frees - frees, round * SLOTS);
    }
}

/* If hits were not counted, the report says so, and has no hit rates. The allocations are at least the live blocks. */
UNIT_TEST(without_the_hits)
{
    hk_options.count = HK_COUNT_OFF;
    unit_start();
    for (size_t i = 0; i < SLOTS; i++)
        blocks[i] = hak_malloc(100);
    hk_heap_stats_take(&heap_stats);
    uint64_t mallocs = heap_stats.mallocs;
    assert_true(mallocs >= SLOTS && mallocs - heap_stats.frees == SLOTS);
    assert_int_equal(heap_stats.classes[CLASS_OF_112].served, heap_stats.classes[CLASS_OF_112].misses);
    for (size_t i = 0; i < SLOTS; i++)
        hak_free(blocks[i]);
    hk_heap_stats_take(&heap_stats);
    assert_true(heap_stats.mallocs == mallocs && heap_stats.frees == mallocs);
    fake_os_capture();
    assert_int_equal(hak_report("-"), 0);
    assert_non_null(strstr(fake_os.captured, "served at least 500 allocations and at least 500 frees, 1 threads now"));
    assert_null(strstr(fake_os.captured, " %\n"));
    static struct hk_report report;
    hk_report_take(&report, 0);
    fake_os_capture();
    hk_report_json(1, &report);
    assert_null(strstr(fake_os.captured, "hit_rate"));
}

/* Returns true if a report was written. Sets *wait_ms to the time after which the background thread has to ask again. */
static bool reported(uint64_t *wait_ms)
{
    fake_os_capture();
    *wait_ms = hk_report_if_due(hk_os.clock_ms());
    return strstr(fake_os.captured, "where the memory is") != NULL;
}

UNIT_TEST(again_and_again)
{
    uint64_t wait_ms;
    unit_start();
    assert_false(hk_reports_wanted());
    assert_false(reported(&wait_ms));
    assert_true(wait_ms == UINT64_MAX);
    hk_options.report = "-";
    hk_options.report_every = 1000;
    assert_true(hk_reports_wanted());
    assert_false(reported(&wait_ms));
    assert_int_equal(wait_ms, 1000);
    fake_os_pass_ms(999);
    assert_false(reported(&wait_ms));
    assert_int_equal(wait_ms, 1);
    fake_os_pass_ms(1);
    assert_true(reported(&wait_ms));
    assert_int_equal(wait_ms, 1000);
    assert_false(reported(&wait_ms));
    hk_exit_report(true);
    assert_non_null(strstr(fake_os.captured, "after 1000 ms"));
    fake_os_pass_ms(5000);
    assert_false(reported(&wait_ms)); /* After the report at exit, no other is written. */
}

UNIT_TEST(on_a_signal)
{
    uint64_t wait_ms;
    unit_start();
    hk_options.report = "-";
    hk_options.report_signal = SIGUSR1;
    assert_true(hk_reports_wanted());
    hk_reports_listen();
    hk_reports_listen(); /* A second call must do no harm because a fork child makes it. */
    assert_false(reported(&wait_ms));
    assert_true(wait_ms < 1000);
    raise(SIGUSR1);
    assert_true(reported(&wait_ms));
    assert_false(reported(&wait_ms));
}

UNIT_TEST(a_signal_that_is_taken)
{
    unit_start();
    hk_options.report = "-";
    hk_options.report_signal = SIGUSR2;
    signal(SIGUSR2, SIG_IGN);
    fake_os_capture();
    hk_reports_listen();
    assert_non_null(strstr(fake_os.captured, "hakmem: option report_signal: signal 12 is the program's own"));
    raise(SIGUSR2);
}

UNIT_TEST(nowhere_to_write)
{
    make_some_work();
    fake_os_capture();
    hk_exit_report(true);
    assert_string_equal(fake_os.captured, "");
    hk_options.report = "/no/such/folder/report.json";
    hk_exit_report(true);
    assert_string_equal(
        fake_os.captured,
        "hakmem: option report: \"/no/such/folder/report.json\" cannot be written: no such file or folder\n");
    assert_int_equal(hak_report("/no/such/folder/report"), -1);
}

/* There is always room for one report. A second report at the same time needs memory from the system. */
UNIT_TEST(two_reports_at_once)
{
    unit_start();
    struct hk_report *first = hk_report_open(), *second = hk_report_open();
    assert_non_null(first);
    assert_non_null(second);
    assert_ptr_not_equal(first, second);
    memset(second, 1, sizeof *second);
    hk_report_close(second);
    fake_os_refuse(fake_refuse_all);
    assert_null(hk_report_open());
    assert_int_equal(hak_report("-"), -1);
    hk_report_close(first);
    assert_ptr_equal(hk_report_open(), first);
    hk_report_fork_child();
    assert_ptr_equal(hk_report_open(), first);
}

UNIT_TEST(out_of_memory_is_said_once)
{
    unit_start();
    fake_os_refuse(fake_refuse_all);
    fake_os_capture();
    for (int i = 0; i < 3; i++)
        assert_null(hak_malloc(64 * HK_MIB));
    static const char begin[] =
        "hakmem: out of memory: 67108864 bytes refused (ENOMEM); address limit none, data limit ";
    assert_int_equal(strncmp(fake_os.captured, begin, sizeof begin - 1), 0);
    for (int part = 0; part < HK_PARTS; part++)
        assert_int_equal(strstr(fake_os.captured, hk_part_rows[part].name) != NULL, part != HK_PART_heaps);
    assert_non_null(strstr(fake_os.captured, ", out_of_memory 1"));
    assert_ptr_equal(strchr(fake_os.captured, '\n'), fake_os.captured + fake_os.captured_bytes - 1);
}

/* If memory is refused, posix_memalign() keeps errno and the caller's pointer, and the refusal is reported like malloc's. */
UNIT_TEST(out_of_memory_of_posix_memalign)
{
    void *block = &block;
    unit_start();
    fake_os_refuse(fake_refuse_all);
    fake_os_capture();
    errno = EDOM;
    for (int i = 0; i < 3; i++)
        assert_int_equal(hak_posix_memalign(&block, 64, 64 * HK_MIB), ENOMEM);
    assert_int_equal(errno, EDOM);
    assert_ptr_equal(block, &block);
    static const char begin[] = "hakmem: out of memory: 67108864 bytes refused (ENOMEM); address limit none, ";
    assert_int_equal(strncmp(fake_os.captured, begin, sizeof begin - 1), 0);
    assert_ptr_equal(strchr(fake_os.captured, '\n'), fake_os.captured + fake_os.captured_bytes - 1);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_out_of_memory]), 3);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_limit_refusals]), 0);
    assert_in_range(hk_load(hk_global_counts[HK_GLOBAL_os_refusals]), 3, 100);
}

/* If a block that shrinks stays in place because memory is refused, the call succeeds and is not counted as a refusal. */
UNIT_TEST(a_shrink_is_no_refusal)
{
    unit_start();
    void *block = hak_malloc(64 * HK_MIB);
    fake_os_refuse(fake_refuse_all);
    while (hak_malloc(HK_MEDIUM_MAX) != NULL)
        continue;
    uint64_t refused = hk_load(hk_global_counts[HK_GLOBAL_out_of_memory]);
    fake_os_capture();
    errno = EDOM;
    assert_ptr_equal(hak_realloc(block, HK_MEDIUM_MAX), block);
    assert_int_equal(errno, EDOM);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_out_of_memory]), refused);
    assert_int_equal(fake_os.captured_bytes, 0);
}

static void refused_by_the_limit(size_t size)
{
    static char begin[200];
    fake_os_capture();
    while (hak_malloc(size) != NULL)
        continue;
    snprintf(begin, sizeof begin,
             "hakmem: out of memory: %zu bytes refused (ENOMEM) by HAKMEM_LIMIT=33554432; address limit none, ", size);
    assert_int_equal(strncmp(fake_os.captured, begin, strlen(begin)), 0);
    assert_in_range(hk_load(hk_global_counts[HK_GLOBAL_limit_refusals]), 1, 100);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_os_refusals]), 0);
}

UNIT_TEST(out_of_memory_by_the_limit)
{
    unit_start();
    hk_options.limit = 32 * HK_MIB;
    refused_by_the_limit(16000);
}

UNIT_TEST(out_of_memory_by_the_limit_large)
{
    unit_start();
    hk_options.limit = 32 * HK_MIB;
    refused_by_the_limit(5 * HK_MIB);
}

/* If the limit has not been reached, the message says that the system refused the memory. */
UNIT_TEST(out_of_memory_below_the_limit)
{
    unit_start();
    hk_options.limit = 32 * HK_MIB;
    fake_os_refuse(fake_refuse_all);
    fake_os_capture();
    assert_null(hak_malloc(4 * HK_MIB));
    assert_non_null(strstr(fake_os.captured, " refused (ENOMEM); address"));
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_limit_refusals]), 0);
}

UNIT_TEST(out_of_memory_unsaid)
{
    unit_start();
    hk_options.oom_report = 0;
    fake_os_refuse(fake_refuse_all);
    fake_os_capture();
    assert_null(hak_malloc(64 * HK_MIB));
    assert_string_equal(fake_os.captured, "");
}

/* The estimate of the rounding is the exact average over the requests that missed. */
UNIT_TEST(rounding_of_unlike_blocks)
{
    unit_start();
    assert_non_null(hak_malloc(1100));
    hak_malloc_trim(0);
    assert_non_null(hak_malloc(1151));
    assert_null(heap_is_wrong(&heap_stats));
    assert_int_equal(part("rounding"), 53);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(remote_pending),
        cmocka_unit_test(each_part),
        cmocka_unit_test(rounding),
        cmocka_unit_test(rounding_of_unlike_blocks),
        cmocka_unit_test(misses),
        cmocka_unit_test(refills),
        cmocka_unit_test(large_tier),
        cmocka_unit_test(json_of_any_bytes),
        cmocka_unit_test(json_at_exit),
        cmocka_unit_test(text),
        cmocka_unit_test(calls_of_user_heaps),
        cmocka_unit_test(without_the_hits),
        cmocka_unit_test(again_and_again),
        cmocka_unit_test(on_a_signal),
        cmocka_unit_test(a_signal_that_is_taken),
        cmocka_unit_test(nowhere_to_write),
        cmocka_unit_test(two_reports_at_once),
        cmocka_unit_test(out_of_memory_is_said_once),
        cmocka_unit_test(out_of_memory_of_posix_memalign),
        cmocka_unit_test(a_shrink_is_no_refusal),
        cmocka_unit_test(out_of_memory_by_the_limit),
        cmocka_unit_test(out_of_memory_by_the_limit_large),
        cmocka_unit_test(out_of_memory_below_the_limit),
        cmocka_unit_test(out_of_memory_unsaid),
    };
    return cmocka_run_group_tests_name("heap_stats", tests, NULL, NULL);
}
