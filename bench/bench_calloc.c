/* Measures calloc with blocks of 64 B to 1 MiB, which are used in part or in full. Before each calloc, the program frees the block of
 * sixteen callocs before. So the allocator can serve the calloc with used memory. The allocator must zero this memory, or know that it is zero.
 *   sparse_S  only the first byte is written      full_S  each cache line is written
 * One operation is a calloc and a free. calls_malloc counts the callocs. */
#include "bench_patterns.h"

#define NEAR 16u
#define LINE 64u

static void *alloc_zeroed(size_t size) { return bench_expect_zero(calloc(1, size), size); }

static void write_lines(char *p, size_t size)
{
    for (size_t i = 0; i < size; i += LINE)
        ((volatile char *)p)[i] = 1;
    ((volatile char *)p)[size - 1] = 1;
}

static uint64_t churn(const bench_pattern *p, uint64_t n, size_t used, bench_calls *calls)
{
    void *near[NEAR];
    for (uint64_t i = 0; i < NEAR; i++)
        write_lines(near[i] = alloc_zeroed(p->size), used);
    for (uint64_t i = 0; i < n; i++) {
        free(near[i % NEAR]);
        write_lines(near[i % NEAR] = alloc_zeroed(p->size), used);
    }
    for (uint64_t i = 0; i < NEAR; i++)
        free(near[i]);
    calls->mallocs += n + NEAR;
    calls->frees += n + NEAR;
    return n + NEAR;
}

static uint64_t run_sparse(const bench_pattern *p, uint64_t n, bench_calls *calls) { return churn(p, n, 1, calls); }
static uint64_t run_full(const bench_pattern *p, uint64_t n, bench_calls *calls) { return churn(p, n, p->size, calls); }

#define OF_SIZE(name, weight, size)                                                                                    \
    {"sparse_" name, run_sparse, weight, size, NULL}, { "full_" name, run_full, weight, size, NULL }

static const bench_pattern patterns[] = {
    OF_SIZE("64", 1, 64),          OF_SIZE("1k", 2, 1u << 10),
    OF_SIZE("16k", 32, 16u << 10), OF_SIZE("128k", 256, 128u << 10),
    OF_SIZE("1m", 2048, 1u << 20),
};

int main(int argc, char **argv)
{
    return bench_patterns_main(argc, argv, (bench_patterns){patterns, sizeof patterns / sizeof *patterns, 2000000});
}
