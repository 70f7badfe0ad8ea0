/* B10: allocates N blocks, frees them all in order or in random order, and repeats this. Between the two timed phases, the harness
 * copies the pointers into the order of the frees. So the timed loops read the pointers in sequence, and only the allocator's accesses are random. */
#include "bench_common.h"

typedef struct burst {
    void **block, **freeing;
    uint32_t *order; /* is NULL if blocks are freed in the order of allocation */
    uint64_t count;
    size_t size;
} burst;

static uint32_t *random_order(uint64_t count, uint64_t seed)
{
    uint32_t *order = bench_map(count * sizeof *order);
    bench_rng rng = bench_rng_seed(seed);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = bench_pick_high(bench_rng_next(&rng), i + 1);
        order[i] = order[k];
        order[k] = (uint32_t)i;
    }
    return order;
}

/* Runs one burst, and returns the sum of the times of its two phases. */
static bench_span run_burst(burst *b)
{
    bench_span start = bench_start();
    for (uint64_t i = 0; i < b->count; i++)
        b->block[i] = bench_alloc(b->size);
    bench_span filled = bench_stop(start);

    if (b->order != NULL) {
        for (uint64_t i = 0; i < b->count; i++)
            b->freeing[i] = b->block[b->order[i]];
    }
    start = bench_start();
    for (uint64_t i = 0; i < b->count; i++)
        free(b->freeing[i]);
    return bench_add(filled, bench_stop(start));
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[N [SIZE [REPS [order|random [SEED]]]]]");
    uint64_t count = bench_arg_in(&args, 0, 100000, 1, UINT32_MAX);
    size_t size = bench_arg_in(&args, 1, 64, 1, UINT32_MAX);
    uint64_t reps = bench_arg_in(&args, 2, 20, 1, UINT32_MAX);
    const char *order = bench_arg_str(&args, 3, "order");
    bool random = strcmp(order, "random") == 0;
    if (!random && strcmp(order, "order") != 0)
        bench_die("ORDER is 'order' or 'random', not '%s'", order);

    burst b = {.block = bench_map(count * sizeof(void *)), .count = count, .size = size};
    b.freeing = random ? bench_map(count * sizeof(void *)) : b.block;
    b.order = random ? random_order(count, bench_arg_u64(&args, 4, 1)) : NULL;

    run_burst(&b); /* warm-up, in which the heap grows */
    bench_span span = {0, 0, 0};
    for (uint64_t i = 0; i < reps; i++)
        span = bench_add(span, run_burst(&b));

    bench_report *report = bench_report_begin(&args);
    bench_put_u64(report, "size", size);
    bench_put_str(report, "order", order);
    return bench_report_end(report, span, reps * count, (bench_calls){(reps + 1) * count, (reps + 1) * count, 0});
}
