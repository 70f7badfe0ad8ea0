/* Defines the main function of a benchmark that consists of several patterns of work. It runs one pattern by name, or all patterns, each with its own
 * warm-up and time. If the key of a figure contains the name of a pattern (ns_fifo_64), the figure is for this pattern, else for all patterns. */
#ifndef BENCH_PATTERNS_H
#define BENCH_PATTERNS_H

#include "bench_common.h"

typedef struct bench_pattern {
    const char *name;
    /* Does at least n operations, adds its calls to *calls, and returns the number of operations. */
    uint64_t (*run)(const struct bench_pattern *p, uint64_t n, bench_calls *calls);
    uint64_t weight; /* divisor of the number of iterations, for slow patterns */
    size_t size;
    const void *detail; /* used by run() only */
} bench_pattern;

typedef struct bench_patterns {
    const bench_pattern *all;
    size_t count;
    uint64_t iterations; /* the default for a pattern of weight 1 */
} bench_patterns;

/* Returns all patterns if the name is "all", otherwise the one with this name. */
static inline bench_patterns bench_choose(bench_patterns from, const char *name)
{
    if (strcmp(name, "all") == 0)
        return from;
    size_t row = bench_row_of("pattern", from.all, from.count * sizeof *from.all, sizeof *from.all, name);
    return (bench_patterns){&from.all[row], 1, from.iterations};
}

typedef struct bench_timed {
    bench_span span;
    uint64_t ops;
} bench_timed;

static inline bench_timed bench_time_pattern(const bench_pattern *p, uint64_t iterations, bench_calls *calls)
{
    uint64_t n = iterations / p->weight + 1;
    p->run(p, n / 5 + 1, calls); /* warm-up */
    bench_timed timed = {.span = bench_start()};
    timed.ops = p->run(p, n, calls);
    timed.span = bench_stop(timed.span);
    return timed;
}

static inline void bench_put_pattern(bench_report *r, const char *name, bench_timed timed)
{
    double ops = (double)timed.ops;
    bench_put_part(r, "ns", name, timed.span.seconds * 1e9 / ops);
    bench_put_part(r, "cpu_ns", name, timed.span.cpu_seconds * 1e9 / ops);
    bench_put_part(r, "faults", name, (double)timed.span.faults / ops);
}

/* Runs the patterns that the arguments [all|PATTERN [ITER]] choose, and prints the report. Returns the exit status. */
static inline int bench_patterns_main(int argc, char **argv, bench_patterns patterns)
{
    bench_args args = bench_args_read(argc, argv, "[all|PATTERN [ITER]]");
    patterns = bench_choose(patterns, bench_arg_str(&args, 0, "all"));
    uint64_t iterations = bench_arg_in(&args, 1, patterns.iterations, 1, UINT64_MAX / 8);

    bench_timed *timed = bench_map(patterns.count * sizeof *timed);
    bench_calls calls = {0, 0, 0};
    bench_timed sum = {{0, 0, 0}, 0};
    for (size_t i = 0; i < patterns.count; i++) {
        timed[i] = bench_time_pattern(&patterns.all[i], iterations, &calls);
        sum.span = bench_add(sum.span, timed[i].span);
        sum.ops += timed[i].ops;
    }

    bench_report *report = bench_report_begin(&args);
    for (size_t i = 0; i < patterns.count; i++)
        bench_put_pattern(report, patterns.all[i].name, timed[i]);
    return bench_report_end(report, sum.span, sum.ops, calls);
}

#endif
