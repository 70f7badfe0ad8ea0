/* B2: allocates BATCH blocks of SIZE bytes, frees them last in, first out, and repeats this ITER times. With BATCH 1, it frees each block at
 * once, which measures the shortest path. */
#include "bench_common.h"

#define MAX_BATCH 65536u

static void run(uint64_t iterations, size_t size, uint64_t batch, void **block)
{
    if (batch == 1) {
        for (uint64_t i = 0; i < iterations; i++)
            free(bench_alloc(size));
        return;
    }
    for (uint64_t i = 0; i < iterations; i++) {
        for (uint64_t k = 0; k < batch; k++)
            block[k] = bench_alloc(size);
        for (uint64_t k = batch; k-- > 0;)
            free(block[k]);
    }
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
