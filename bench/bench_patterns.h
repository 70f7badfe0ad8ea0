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

/* Runs the patterns that the arguments [all|PATTERN [ITER]] choose, and prints the report. Returns the exit status. */
static inline int bench_patterns_main(int argc, char **argv, bench_patterns patterns)
{
    bench_args args = bench_args_read(argc, argv, "[all|PATTERN [ITER]]");
    const char *chosen = bench_arg_str(&args, 0, "all");
    if (strcmp(chosen, "all") != 0) {
        patterns.all +=
            bench_row_of("pattern", patterns.all, patterns.count * sizeof *patterns.all, sizeof *patterns.all, chosen);
        patterns.count = 1;
    }
    uint64_t iterations = bench_arg_in(&args, 1, patterns.iterations, 1, UINT64_MAX / 8);

    bench_calls calls = {0, 0, 0};
    bench_span sum = {0, 0, 0}, *span = bench_map(patterns.count * sizeof *span);
    uint64_t all_ops = 0, *ops = bench_map(patterns.count * sizeof *ops);
    for (size_t i = 0; i < patterns.count; i++) {
        const bench_pattern *p = &patterns.all[i];
        uint64_t n = iterations / p->weight + 1;
        p->run(p, n / 5 + 1, &calls); /* warm-up */
        bench_span start = bench_start();
        ops[i] = p->run(p, n, &calls);
        span[i] = bench_stop(start);
        sum = bench_add(sum, span[i]);
        all_ops += ops[i];
    }

    bench_report *report = bench_report_begin(&args);
    for (size_t i = 0; i < patterns.count; i++) {
        bench_put_part(report, "ns", patterns.all[i].name, span[i].seconds * 1e9 / (double)ops[i]);
        bench_put_part(report, "cpu_ns", patterns.all[i].name, span[i].cpu_seconds * 1e9 / (double)ops[i]);
        bench_put_part(report, "faults", patterns.all[i].name, (double)span[i].faults / (double)ops[i]);
    }
    return bench_report_end(report, sum, all_ops, calls);
}

#endif
