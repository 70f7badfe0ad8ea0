/* Usage: test_abi_lattice [quick]
 * Runs each group of the lattice on malloc's own names. If the process has the hak_ names, only the quick subset runs on these, because they are
 * the same functions. */
#include "lattice.h"

#include "support/watchdog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

bool lattice_full = true;

typedef void group_function(const struct entry_points *api);

static const struct group {
    const char *name;
    group_function *run;
} groups[] = {
    {"every size", lattice_every_size},
    {"neighbours keep their bytes", lattice_neighbours},
    {"zero size", lattice_zero_size},
    {"alignments", lattice_alignments},
    {"bad alignments", lattice_bad_alignments},
    {"valloc and pvalloc", lattice_pages},
    {"realloc from any to any", lattice_realloc_pairs},
    {"realloc of aligned blocks", lattice_realloc_aligned},
    {"realloc of NULL and to nothing", lattice_realloc_ends},
    {"calloc of dirty memory", lattice_calloc_dirty},
    {"huge sizes", lattice_huge_sizes},
    {"products that overflow", lattice_products},
    {"errno is kept", lattice_errno_kept},
};
enum { GROUPS = sizeof groups / sizeof groups[0] };

struct run {
    const struct entry_points *api;
    const struct group *group;
};

static void run_group(void **state)
{
    const struct run *run = *state;
    uint64_t checks = check_total();
    uint64_t failures = check_failures();
    run->group->run(run->api);
    printf("  %s%s: %ju checks\n", run->api->prefix, run->group->name, (uintmax_t)(check_total() - checks));
    assert_int_equal(check_failures() - failures, 0);
    assert_true(check_total() > checks);
}

static int run_table(const struct entry_points *api)
{
    struct run runs[GROUPS];
    struct CMUnitTest tests[GROUPS];
    for (size_t i = 0; i < GROUPS; i++) {
        runs[i] = (struct run){api, &groups[i]};
        tests[i] = (struct CMUnitTest){groups[i].name, run_group, NULL, NULL, &runs[i]};
    }
    return cmocka_run_group_tests_name(api->prefix[0] ? "hak_ names" : "malloc's names", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    static struct entry_points own;
    static struct entry_points prefixed;
    lattice_full = !(argc > 1 && strcmp(argv[1], "quick") == 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    watchdog_start(lattice_full ? 600 : 150, "abi lattice");
    int failed = 0;
    CHECK(entry_points_find(&own, ""), "malloc is not to be found");
    failed += run_table(&own);
    if (entry_points_find(&prefixed, "hak_")) {
        lattice_full = false;
        failed += run_table(&prefixed);
    }
    int status = check_report("abi lattice");
    return failed ? 1 : status;
}
