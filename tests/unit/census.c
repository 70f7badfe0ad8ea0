/* Census and Report: the parts sum up, text and JSON say the same, and the report at exit goes where it was told to. */
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/exit_report.h"
#include "front/cache.h"
#include "hakmem.h"
#include "policy/options.h"
#include "report/report.h"
#include "support/rng.h"

enum { SLOTS = 500 };

static struct hk_census census;
static void *blocks[SLOTS];

static size_t part(const char *name)
{
    struct hk_part parts[HK_PARTS];
    hk_census_parts(&census, parts);
    for (int i = 0; i < HK_PARTS; i++)
        if (strcmp(parts[i].name, name) == 0)
            return parts[i].bytes;
    fail_msg("no part %s", name);
    return 0;
}

/* Whatever the program does, the sums hold, and what it holds is what is live. */
UNIT_TEST(sums)
{
    struct rng rng = rng_seeded(6);
    size_t live = 0, bigs = 0;
    unit_start();
    for (int step = 0; step < 20000; step++) {
        uint32_t i = rng_below(&rng, SLOTS);
        if (blocks[i] == NULL) {
            unsigned shift = 3 + rng_below(&rng, rng_below(&rng, 50) == 0 ? 19 : 11);
            blocks[i] = hak_malloc(((size_t)1 << shift) + rng_below(&rng, 1u << shift));
            bool big = hak_usable_size(blocks[i]) > HK_LARGE_MAX;
            live += !big;
            bigs += big;
        } else {
            bool big = hak_usable_size(blocks[i]) > HK_LARGE_MAX;
            live -= !big;
            bigs -= big;
            hak_free(blocks[i]);
            blocks[i] = NULL;
        }
        if (step % 100 == 0) {
            const char *wrong = heap_is_wrong(&census);
            if (wrong != NULL)
                fail_msg("step %d: %s", step, wrong);
            assert_int_equal(census.sum.live_blocks, live);
            assert_int_equal(census.big_blocks, bigs);
            assert_int_equal(census.mallocs - census.frees, live + bigs);
        }
        if (step % 3000 == 0)
            hak_trim(0);
    }
}

static void free_some(void *count)
{
    for (size_t i = 0; i < *(size_t *)count; i++)
        hak_free(blocks[i]);
    /* Looked at before this thread ends and sends what its outbox holds. */
    assert_null(heap_is_wrong(&census));
    assert_int_equal(census.threads, 2);
}

UNIT_TEST(remote_pending)
{
    size_t count = 100;
    unit_start();
    for (size_t i = 0; i < count; i++)
        blocks[i] = hak_malloc(64);
    unit_in_thread(free_some, &count);
    assert_int_equal(part("remote_pending"), count * 64); /* 62 in a parcel, the rest in the outbox */
    unit_heap_holds(0);
    hak_trim(0);
    assert_null(heap_is_wrong(&census));
    assert_int_equal(part("remote_pending"), 0);
    assert_int_equal(census.threads, 1);
}

UNIT_TEST(each_part)
{
    unit_start();
    void *small = hak_malloc(1280), *big = hak_malloc(3 * HK_MIB);
    assert_null(heap_is_wrong(&census));
    assert_int_equal(part("live"), 1280);
    assert_int_equal(part("big_live"), 3 * HK_MIB);
    assert_int_equal(part("slab_tails"), 65536 % 1280);
    size_t in_bins = part("thread_caches");
    hak_free(small);
    hak_free(big);
    assert_null(heap_is_wrong(&census));
    assert_int_equal(part("live"), 0);
    assert_int_equal(part("big_live"), 0);
    assert_int_equal(part("big_cached"), 3 * HK_MIB);
    assert_int_equal(part("thread_caches"), in_bins + 1280);
    hak_trim(0);
    assert_null(heap_is_wrong(&census));
    assert_int_equal(part("big_cached") + part("thread_caches") + part("free_in_slabs") + part("slab_tails"), 0);
    assert_int_equal(census.idle_dirty, 0);
}

/* What Python makes of the report, with sums checked there too; the report is full of everything. */
static void assert_python_reads(const char *path)
{
    static const char script[] =
        "import json, sys\n"
        "r = json.load(open(sys.argv[1]))\n"
        "assert r['mapped']['total'] == sum(r['mapped']['parts'].values()), 'parts'\n"
        "assert r['served']['malloc'] >= r['served']['free'] > 0, 'served'\n"
        "assert r['mapped']['parts']['live'] == sum(c['live'] for c in r['classes']), 'live'\n"
        "assert r['idle']['dirty'] + r['idle']['clean'] == r['mapped']['parts']['idle'], 'idle'\n"
        "assert r['options']['big_fit'] == 400 and r['options']['report'].endswith('.json'), 'options'\n"
        "assert all(isinstance(v, int) and v >= 0 for v in r['counters'].values()), 'counters'\n"
        "assert r['resident'] > 0 and r['virtual'] > r['resident'] and r['threads'] == 1, 'process'\n";
    char command[2048];
    snprintf(command, sizeof command, "exec %s - '%s' <<'end'\n%send\n", PYTHON, path, script);
    assert_int_equal(system(command), 0);
}

static void make_some_work(void)
{
    unit_start();
    for (size_t i = 0; i < SLOTS; i++)
        blocks[i] = hak_malloc(i * i);
    for (size_t i = 0; i < SLOTS; i += 2)
        hak_free(blocks[i]);
}

UNIT_TEST(json_at_exit)
{
    char path[] = "/tmp/hakmem-\"unit\\XXXXXX", report[64], real_name[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    snprintf(report, sizeof report, "%s.%%p.json", path);
    snprintf(real_name, sizeof real_name, "%s.%d.json", path, (int)getpid());
    make_some_work();
    hk_options.report = report;
    hk_exit_report();
    assert_python_reads(real_name);
    unlink(real_name);
}

UNIT_TEST(text)
{
    make_some_work();
    fake_os_capture();
    assert_int_equal(hak_report("-"), 0);
    assert_non_null(strstr(fake_os.captured, "HAKMEM "));
    struct hk_part parts[HK_PARTS];
    hk_census_take(&census);
    hk_census_parts(&census, parts);
    for (int i = 0; i < HK_PARTS; i++)
        assert_non_null(strstr(fake_os.captured, parts[i].meaning));
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        assert_non_null(strstr(fake_os.captured, hk_stat_rows[i].meaning));
    assert_non_null(strstr(fake_os.captured, "big_fit"));
}

UNIT_TEST(nowhere_to_write)
{
    make_some_work();
    fake_os_capture();
    hk_exit_report();
    assert_string_equal(fake_os.captured, "");
    hk_options.report = "/no/such/folder/report.json";
    hk_exit_report();
    assert_string_equal(fake_os.captured, "hakmem: the report cannot be written to \"/no/such/folder/report.json\"\n");
    assert_int_equal(hak_report("/no/such/folder/report"), -1);
}

UNIT_TEST(out_of_memory_is_said_once)
{
    unit_start();
    fake_os_refuse(fake_refuse_all);
    fake_os_capture();
    for (int i = 0; i < 3; i++)
        assert_null(hak_malloc(64 * HK_MIB));
    assert_int_equal(
        strncmp(fake_os.captured, "hakmem: out of memory: 67108864 bytes refused (ENOMEM); address limit none, ", 76),
        0);
    assert_ptr_equal(strchr(fake_os.captured, '\n'), fake_os.captured + fake_os.captured_bytes - 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(remote_pending),
        cmocka_unit_test(each_part),
        cmocka_unit_test(json_at_exit),
        cmocka_unit_test(text),
        cmocka_unit_test(nowhere_to_write),
        cmocka_unit_test(out_of_memory_is_said_once),
        cmocka_unit_test(out_of_memory_unsaid),
    };
    return cmocka_run_group_tests_name("census and report", tests, NULL, NULL);
}
