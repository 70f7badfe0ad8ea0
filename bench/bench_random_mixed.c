/* B1: makes ITER random steps in a working set of WS slots. */
#include "bench_workset.h"

#define WARMUP_STEPS 100000u

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[ITER [WS [SEED [MIN MAX]]]]");
    uint64_t steps = bench_arg_u64(&args, 0, 1000000);
    uint64_t count = bench_arg_in(&args, 1, 400, 1, UINT32_MAX);
    uint64_t seed = bench_arg_u64(&args, 2, 1);
    uint64_t min = bench_arg_in(&args, 3, 16, 1, UINT32_MAX);
    uint64_t max = bench_arg_in(&args, 4, min + 0x3FF, min, UINT32_MAX);

    workset w = {bench_map(count * sizeof(void *)), count, min, max - min + 1, bench_rng_seed(seed)};
    run_steps(&w, WARMUP_STEPS);
    bench_span span = bench_start();
    run_steps(&w, steps);
    span = bench_stop(span);

    bench_report *report = bench_report_begin(&args);
    /* Each step is a malloc or a free, and free_rest() frees all live blocks. So there are as many mallocs as frees. */
    uint64_t live = free_rest(&w);
    uint64_t all = steps + WARMUP_STEPS + live;
    bench_put_u64(report, "workset", count);
    bench_put_u64(report, "live_blocks", live);
    return bench_report_end(report, span, steps, (bench_calls){all / 2, all / 2, 0});
}
