/* Measures buffers that grow by realloc, as vectors and strings do.
 *   double    one vector grows from 16 B to 4 MiB, and doubles at each step
 *   half      one vector grows from 16 B to 4 MiB, by half of its size at each step
 *   step_16   one vector grows from 16 B to 1 KiB, in steps of 16 B
 *   step_16k  one vector grows from 16 KiB to 4 MiB, in steps of 16 KiB
 *   many      a random one of 4096 vectors doubles at each step, from 16 B to 4 KiB
 *   large     a random one of 8 vectors grows by half at each step, from 64 KiB to 4 MiB
 *   string    a random one of 64 strings grows by 1 to 32 bytes at each step, up to 512 B
 * A vector that reaches its limit is freed, and starts again with its first size. Each page and the last byte of the new part are written. One
 * operation is one malloc or realloc. */
#include "bench_patterns.h"

#define MOST 4096u

typedef struct vector {
    char *data;
    size_t size;
} vector;

/* The number of vectors of a pattern, their first and last size, and the function that returns the next size. */
typedef struct plan {
    uint32_t vectors;
    size_t first, last;
    size_t (*next)(size_t size, uint64_t draw);
} plan;

static size_t twice(size_t size, uint64_t draw) { return (void)draw, size * 2; }
static size_t by_half(size_t size, uint64_t draw) { return (void)draw, size + size / 2; }
static size_t by_16(size_t size, uint64_t draw) { return (void)draw, size + 16; }
static size_t by_16k(size_t size, uint64_t draw) { return (void)draw, size + (16u << 10); }
static size_t by_word(size_t size, uint64_t draw) { return size + 1 + bench_pick_low(draw, 32); }

static void drop(vector *v, bench_calls *calls)
{
    calls->frees += v->data != NULL;
    free(v->data);
    *v = (vector){NULL, 0};
}

static void grow(vector *v, size_t size, bench_calls *calls)
{
    size_t from = v->size;
    v->data = bench_expect(from == 0 ? malloc(size) : realloc(v->data, size), size);
    v->size = size;
    for (size_t i = (from + BENCH_PAGE - 1) / BENCH_PAGE * BENCH_PAGE; i < size; i += BENCH_PAGE)
        ((volatile char *)v->data)[i] = (char)i;
    ((volatile char *)v->data)[size - 1] = (char)from;
    calls->mallocs += from == 0;
    calls->reallocs += from != 0;
}

static uint64_t run(const bench_pattern *p, uint64_t n, bench_calls *calls)
{
    static vector vectors[MOST];
    const plan *way = p->detail;
    bench_rng rng = bench_rng_seed(5);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t draw = bench_rng_next(&rng);
        vector *v = &vectors[bench_pick_high(draw, way->vectors)];
        size_t size = v->size == 0 ? way->first : way->next(v->size, draw);
        if (size > way->last) {
            drop(v, calls);
            size = way->first;
        }
        grow(v, size, calls);
    }
    for (size_t i = 0; i < way->vectors; i++)
        drop(&vectors[i], calls);
    return n;
}

#define PLAN(...)                                                                                                      \
    0, &(const plan) { __VA_ARGS__ }

static const bench_pattern patterns[] = {
    {"double", run, 500, PLAN(1, 16, 4u << 20, twice)}, {"half", run, 500, PLAN(1, 16, 4u << 20, by_half)},
    {"step_16", run, 1, PLAN(1, 16, 1u << 10, by_16)},  {"step_16k", run, 1000, PLAN(1, 16u << 10, 4u << 20, by_16k)},
    {"many", run, 2, PLAN(MOST, 16, 4u << 10, twice)},  {"large", run, 1000, PLAN(8, 64u << 10, 4u << 20, by_half)},
    {"string", run, 1, PLAN(64, 16, 512, by_word)},
};

int main(int argc, char **argv)
{
    return bench_patterns_main(argc, argv, (bench_patterns){patterns, sizeof patterns / sizeof *patterns, 1000000});
}
