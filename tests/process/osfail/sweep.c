/* Usage: test_osfail [warm|quick|full] [scenario name]        (warm: only in processes that have started, for valgrind)
 * Tests that any number of system calls may fail (R2). Each scenario runs with its k-th call refused, for all k. Then the scenario runs with all
 * calls from the k-th on refused, with every n-th call refused, and with random calls refused. It runs in processes that are starting, and
 * repeatedly in one process that has run for a while. After each run the system is healthy again, and the same scenario must succeed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "process/osfail/held.h"
#include "process/osfail/scenarios.h"
#include "support/knobs.h"
#include "support/check.h"
#include "unit/fake_os.h"
#include "unit/invariants.h"

enum { SECONDS_A_SCENARIO = 600, MOST_CALLS = 100000 };

/* Counters in shared memory. Children write them, and the parent reads them. */
static struct class_stat {
    uint64_t runs, refused, checks, last_refused;
} * class_stat;

static struct plan {
    const char *name;
    bool (*refuses)(uint64_t ordinal);
    uint64_t k, n;
} plan;

static bool one(uint64_t ordinal) { return ordinal == plan.k; }
static bool two(uint64_t ordinal) { return ordinal == plan.k || ordinal == plan.k + 1; }
static bool from_then_on(uint64_t ordinal) { return ordinal >= plan.k; }
static bool every_nth(uint64_t ordinal) { return ordinal % plan.n == plan.k; }

static bool at_random(uint64_t ordinal)
{
    uint64_t mixed = (ordinal ^ plan.k << 32) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u;
    return (mixed >> 40) % plan.n == 0;
}

static bool refuse_as_planned(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    return plan.refuses(ordinal);
}

static void check_heap(const char *when)
{
    static struct hk_heap_stats heap_stats;
    const char *wrong = heap_is_wrong(&heap_stats);
    CHECK(wrong == NULL, "%s: %s", when, wrong);
    CHECK(heap_stats.sum.live == 0 && heap_stats.parts[HK_PART_large_live] == 0, "%s: %zu and %zu bytes still live",
          when, heap_stats.sum.live, heap_stats.parts[HK_PART_large_live]);
}

static void run(const struct scenario *scenario)
{
    scenario->run(scenario->size, scenario->count);
    hak_malloc_trim(0);
}

/* Runs the scenario once with refusals and once without. */
static void run_twice(const struct scenario *scenario)
{
    held_healthy = false;
    fake_os_refuse(refuse_as_planned);
    run(scenario);
    class_stat->last_refused = hk_load(fake_os.xrefused);
    class_stat->refused += class_stat->last_refused;
    class_stat->runs++;
    held_healthy = true;
    fake_os_refuse(NULL);
    check_heap("after refusals");
    run(scenario);
    check_heap("after recovery");
}

static void prepare(const struct scenario *scenario)
{
    fake_os_reset();
    alarm(SECONDS_A_SCENARIO);
    hk_options.oom_report = 0;
    if (scenario->address_limit != 0)
        fake_os.address_limit = scenario->address_limit;
    if (scenario->large_cache != 0)
        SET_KNOB(large_cache, scenario->large_cache);
}

static void complain(const struct scenario *scenario, const char *where, int status)
{
    fprintf(stderr, "osfail: \"%s\" %s, refused: %s, k %lu, n %lu: %s (wait status 0x%x)\n", scenario->name, where,
            plan.name, (unsigned long)plan.k, (unsigned long)plan.n,
            WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "checks failed", (unsigned)status);
}

/* Runs `body` in a child. Returns false if a check failed there or a signal ended it. */
static bool in_child(const struct scenario *scenario, void (*body)(const struct scenario *scenario))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prepare(scenario);
        body(scenario);
        check_thread_done();
        class_stat->checks += check_total();
        _exit(check_failures() == 0 ? 0 : 1);
    }
    int status = -1;
    bool well = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    if (!well)
        complain(scenario, body == run_twice ? "in a new process" : "in one that was up", status);
    return well;
}

struct sweep {
    size_t by_ordinal;      /* number of plans to run of the table by_ordinal */
    uint64_t most_n, seeds; /* the largest n of every_nth, and the number of seeds of at_random */
};

/* Calls `each` for every plan until it returns false. Each plan of the table by_ordinal runs for k = 1, 2, ... until a run refuses no call. */
static bool for_each_plan(const struct scenario *scenario, const struct sweep *sweep,
                          bool (*each)(const struct scenario *scenario))
{
    static const struct plan by_ordinal[] = {{"the k-th call", one, 0, 0},
                                             {"all from the k-th on", from_then_on, 0, 0},
                                             {"the k-th and the next", two, 0, 0}};
    for (size_t i = 0; i < sweep->by_ordinal; i++) {
        plan = by_ordinal[i];
        for (plan.k = 1; plan.k < MOST_CALLS; plan.k++) {
            if (!each(scenario))
                return false;
            if (class_stat->last_refused == 0)
                break;
        }
    }
    for (plan = (struct plan){"every n-th call, k left over", every_nth, 0, 2}; plan.n <= sweep->most_n; plan.n++)
        for (plan.k = 0; plan.k < plan.n; plan.k++)
            if (!each(scenario))
                return false;
    for (plan = (struct plan){"one of n at random, seed k", at_random, 0, 2}; plan.n <= 16; plan.n *= 2)
        for (plan.k = 0; plan.k < sweep->seeds; plan.k++)
            if (!each(scenario))
                return false;
    return true;
}

static bool in_new_process(const struct scenario *scenario) { return in_child(scenario, run_twice); }

static bool in_this_process(const struct scenario *scenario)
{
    uint64_t failures = check_failures();
    run_twice(scenario);
    if (check_failures() != failures)
        complain(scenario, "in one that was up", 0);
    return check_failures() == failures;
}

static struct sweep warm_sweep;

static void sweep_in_one_process(const struct scenario *scenario)
{
    run(scenario);
    check_heap("at first");
    CHECK(for_each_plan(scenario, &warm_sweep, in_this_process), "the sweep was cut short");
}

static bool sweep_scenario(const struct scenario *scenario, const struct sweep *new_processes)
{
    struct class_stat before = *class_stat;
    bool well = for_each_plan(scenario, new_processes, in_new_process);
    well = in_child(scenario, sweep_in_one_process) && well;
    printf("%-32s %6lu runs %8lu refusals %9lu checks%s\n", scenario->name,
           (unsigned long)(class_stat->runs - before.runs), (unsigned long)(class_stat->refused - before.refused),
           (unsigned long)(class_stat->checks - before.checks), well ? "" : "  FAILED");
    fflush(stdout);
    return well;
}

int main(int argc, char **argv)
{
    static const struct scenario *const tables[] = {scenarios_blocks, scenarios_resize, scenarios_heap,
                                                    scenarios_threads, scenarios_own_heaps};
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    bool warm = argc > 1 && strcmp(argv[1], "warm") == 0;
    struct sweep new_processes = full ? (struct sweep){3, 5, 25} : (struct sweep){warm ? 0 : 1, 1, 0};
    warm_sweep = full ? (struct sweep){3, 7, 50} : (struct sweep){warm ? 1 : 2, 3, warm ? 0 : 2};
    class_stat = mmap(NULL, sizeof *class_stat, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (class_stat == MAP_FAILED)
        return EXIT_FAILURE;
    size_t count = 0, failed = 0;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const struct scenario *scenario = tables[t]; scenario->name != NULL; scenario++) {
            if (argc > 2 && strcmp(argv[2], scenario->name) != 0)
                continue;
            failed += !sweep_scenario(scenario, &new_processes);
            count++;
        }
    printf("osfail: %zu scenarios, %lu runs, %lu refusals, %lu checks, %zu scenarios failed\n", count,
           (unsigned long)class_stat->runs, (unsigned long)class_stat->refused, (unsigned long)class_stat->checks,
           failed);
    return count > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
