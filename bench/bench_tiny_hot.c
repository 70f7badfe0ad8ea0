/* B2: allocates BATCH blocks of SIZE bytes, frees them last in, first out, and repeats this ITER times. With BATCH 1, it frees each block at
 * once, which measures the shortest path. */
#include "bench_common.h"

#define MAX_BATCH 65536u

static void run_single(uint64_t iterations, size_t size)
{
    for (uint64_t i = 0; i < iterations; i++)
        free(bench_alloc(size));
}

static void run_batches(uint64_t iterations, size_t size, uint64_t batch, void **block)
{
    for (uint64_t i = 0; i < iterations; i++) {
        for (uint64_t k = 0; k < batch; k++)
            block[k] = bench_alloc(size);
        for (uint64_t k = batch; k-- > 0;)
            free(block[k]);
    }
}

static void run(uint64_t iterations, size_t size, uint64_t batch, void **block)
{
    if (batch == 1)
        run_single(iterations, size);
    else
        run_batches(iterations, size, batch, block);
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[SIZE [ITER [BATCH]]]");
    size_t size = bench_arg_in(&args, 0, 64, 1, UINT32_MAX);
    uint64_t iterations = bench_arg_u64(&args, 1, 200000);
    uint64_t batch = bench_arg_in(&args, 2, 100, 1, MAX_BATCH);
    uint64_t warmup = iterations / 10 + 1;

    void **block = bench_map(batch * sizeof(void *));
    run(warmup, size, batch, block);
    bench_span span = bench_start();
    run(iterations, size, batch, block);
    span = bench_stop(span);

    bench_report *report = bench_report_begin(&args);
    uint64_t pairs = (warmup + iterations) * batch;
    bench_put_u64(report, "size", size);
    bench_put_u64(report, "batch", batch);
    return bench_report_end(report, span, iterations * batch, (bench_calls){pairs, pairs, 0});
}
