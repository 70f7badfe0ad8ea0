/* This is the project's own fuzz engine. It is used without libFuzzer, or if a number of operations is requested.
 *
 *   test_fuzz --corpus=DIR                          runs each case of DIR/TARGET.txt and DIR/TARGET/ once
 *   test_fuzz --operations=N --seconds=S            makes inputs for each target, until either limit is reached
 *             [--target=NAME] [--jobs=J] [--seed=K] [--largest=BYTES] [--corpus=DIR, to begin with] [--keep=DIR, for new inputs]
 *   test_fuzz --total=N --seconds=S                 gives each target so many seconds, and the first target the rest of N operations,
 *                                                   at least half of them
 *   test_fuzz --target=NAME FILE ...                runs inputs
 *   test_fuzz --target=NAME --reduce=FILE           makes an input that fails shorter
 *   test_fuzz --merge=OUT --corpus=DIR [--most=BYTES]  writes few cases that reach as much, at most so many bytes for each target
 *
 * An input that fails is written to fuzz-fault-TARGET in the current folder. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit/fuzz/corpus.h"
#include "unit/fuzz/coverage.h"
#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/inputs.h"

struct plan {
    const char *target, *corpus, *merge, *reduce, *keep;
    uint64_t operations, seconds, total, jobs, seed, largest, most;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns the CPU time of all children that have ended. The time limits use CPU time because it does not depend on how busy the machine is. */
static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* Holds the current input of a job in shared memory. If the input ends the job, the parent reads the input. */
struct attempt {
    size_t size;
    uint8_t bytes[];
};

static void make_inputs(const struct plan *plan, const struct fuzz_target *target, uint64_t job,
                        struct attempt *attempt)
{
    static struct corpus corpus;
    struct inputs inputs;
    inputs_begin(&inputs, plan->seed * 1000 + job, plan->largest);
    corpus_read(&corpus, plan->corpus, target->name);
    for (size_t i = 0; i < corpus.count; i++)
        inputs_keep(&inputs, corpus.cases[i].bytes, corpus.cases[i].size);
    double end = plan->seconds != 0 ? now() + (double)plan->seconds : 1e18;
    uint64_t goal = plan->operations != 0 ? fuzz_operations() + plan->operations : UINT64_MAX;
    while (fuzz_operations() < goal && now() < end) {
        attempt->size = inputs_next(&inputs, attempt->bytes);
        coverage_clear();
        fuzz_run(target, attempt->bytes, attempt->size);
        if (coverage_is_new(true)) {
            inputs_keep(&inputs, attempt->bytes, attempt->size);
            if (plan->keep != NULL)
                corpus_write(plan->keep, target->name, attempt->bytes, attempt->size);
        }
    }
}

static struct attempt *shared_attempt(const struct plan *plan)
{
    void *p =
        mmap(NULL, sizeof(struct attempt) + plan->largest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        abort();
    return p;
}

static bool ended_well(pid_t job, const struct fuzz_target *target, const struct attempt *attempt)
{
    int status = -1;
    char name[128];
    if (job > 0 && waitpid(job, &status, 0) == job && status == 0)
        return true;
    snprintf(name, sizeof name, "fuzz-fault-%s", target->name);
    corpus_save(name, attempt->bytes, attempt->size);
    fprintf(stderr,
            "fuzz: target %s fails: input in %s (%zu bytes). Again: --target=%s %s; shorter: --target=%s --reduce=%s\n",
            target->name, name, attempt->size, target->name, name, target->name, name);
    return false;
}

static bool run_jobs(const struct plan *plan, const struct fuzz_target *target)
{
    enum { MOST_JOBS = 64 };
    pid_t jobs[MOST_JOBS];
    struct attempt *attempts[MOST_JOBS];
    uint64_t before = fuzz_operations(), count = plan->jobs < MOST_JOBS ? plan->jobs : MOST_JOBS;
    double start = now(), cpu = cpu_seconds();
    bool well = true;
    fflush(NULL);
    for (uint64_t job = 0; job < count; job++) {
        attempts[job] = shared_attempt(plan);
        jobs[job] = fork();
        if (jobs[job] == 0) {
            make_inputs(plan, target, job, attempts[job]);
            _exit(0);
        }
    }
    for (uint64_t job = 0; job < count; job++)
        well = ended_well(jobs[job], target, attempts[job]) && well;
    double seconds = now() - start;
    uint64_t operations = fuzz_operations() - before;
    cpu = cpu_seconds() - cpu;
    printf("%-20s %12lu operations %8.1f s %8.1f cpu s %10.0f operations/cpu s%s\n", target->name,
           (unsigned long)operations, seconds, cpu, (double)operations / (cpu > 0 ? cpu : 1), well ? "" : "  FAILED");
    return well;
}

static bool text_option(const char *argument, const char *name, const char **value)
{
    size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0)
        return false;
    *value = argument + length;
    return true;
}

static bool number_option(const char *argument, const char *name, uint64_t *value)
{
    const char *text;
    bool is = text_option(argument, name, &text);
    if (is)
        *value = (uint64_t)strtod(text, NULL);
    return is;
}

static bool read_option(struct plan *plan, const char *argument)
{
    return text_option(argument, "--target=", &plan->target) || text_option(argument, "--corpus=", &plan->corpus) ||
           text_option(argument, "--merge=", &plan->merge) || text_option(argument, "--reduce=", &plan->reduce) ||
           text_option(argument, "--keep=", &plan->keep) ||
           number_option(argument, "--operations=", &plan->operations) ||
           number_option(argument, "--seconds=", &plan->seconds) || number_option(argument, "--total=", &plan->total) ||
           number_option(argument, "--jobs=", &plan->jobs) || number_option(argument, "--seed=", &plan->seed) ||
           number_option(argument, "--largest=", &plan->largest) || number_option(argument, "--most=", &plan->most);
}

static bool do_target(const struct plan *plan, const struct fuzz_target *target)
{
    if (plan->merge != NULL)
        return corpus_merge(plan->corpus, plan->merge, plan->most, target);
    if (plan->reduce != NULL)
        return corpus_reduce(plan->reduce, target);
    return plan->operations + plan->seconds != 0 ? run_jobs(plan, target) : corpus_run(plan->corpus, target);
}

/* Runs the first target for the operations that the other targets have left of the total, but for at least half of the total. */
static bool run_rest(struct plan *plan)
{
    uint64_t done = fuzz_operations(), half = plan->total / 2;
    plan->seconds = 0;
    plan->operations = done + half < plan->total ? plan->total - done : half;
    return do_target(plan, fuzz_targets);
}

int main(int argc, char **argv)
{
    struct plan plan = {.jobs = 1, .seed = (uint64_t)time(NULL), .largest = 8192, .most = UINT64_MAX};
    bool well = true;
    int first = 1;
    fuzz_begin();
    coverage_begin();
    while (first < argc && read_option(&plan, argv[first]))
        first++;
    size_t found = 0;
    bool rest = plan.total != 0;
    for (const struct fuzz_target *target = fuzz_targets; target < fuzz_targets + fuzz_target_count; target++) {
        if ((plan.target != NULL && strcmp(plan.target, target->name) != 0) || (rest && target == fuzz_targets))
            continue;
        found++;
        for (int i = first; i < argc; i++)
            well = corpus_run_file(argv[i], target) && well;
        if (first == argc)
            well = do_target(&plan, target) && well;
    }
    if (rest && well) {
        well = run_rest(&plan);
        found++;
    }
    printf("fuzz: %zu targets, %lu operations, seed %lu%s\n", found, (unsigned long)fuzz_operations(),
           (unsigned long)plan.seed, well ? "" : ": FAILED");
    return found > 0 && well ? EXIT_SUCCESS : EXIT_FAILURE;
}
