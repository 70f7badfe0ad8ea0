/* B15: PRODUCERS threads allocate blocks and then sleep. One collector frees all blocks. It frees one block of each producer, then the next block of
 * each producer, and so on. Each producer uses one of the SIZEs. The cost of a free must not depend on the number of
 * producers or on the order of blocks, and frees must not make the process larger. */
#include "bench_common.h"

enum { MAX_SIZES = 4, MAX_PRODUCERS = 4096, STACK = 65536 };

static struct {
    unsigned producers, sizes;
    uint64_t each; /* blocks of each producer */
    size_t size[MAX_SIZES];
    void **block;              /* [producer][each] */
    pthread_barrier_t meeting; /* producers and collector meet after the allocations and after the frees */
} plan;

static void *produce(void *number)
{
    uint64_t k = (uint64_t)(uintptr_t)number;
    size_t size = plan.size[k % plan.sizes];
    for (uint64_t i = 0; i < plan.each; i++)
        memset(plan.block[k * plan.each + i] = bench_alloc(size), 1, size < 16 ? size : 16);
    pthread_barrier_wait(&plan.meeting);
    pthread_barrier_wait(&plan.meeting);
    return NULL;
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[PRODUCERS [OBJECTS [SIZE...]]]");
    plan.producers = (unsigned)bench_arg_in(&args, 0, 64, 1, MAX_PRODUCERS);
    uint64_t objects = bench_arg_in(&args, 1, 2000000, plan.producers, UINT64_MAX);
    do
        plan.size[plan.sizes] = bench_arg_in(&args, 2 + (int)plan.sizes, 64, 1, UINT32_MAX);
    while (++plan.sizes < MAX_SIZES && *bench_arg_str(&args, 2 + (int)plan.sizes, "") != 0);
    plan.each = objects / plan.producers;
    objects = plan.each * plan.producers;
    plan.block = bench_map(objects * sizeof *plan.block);
    bench_touch_pages(plan.block, objects * sizeof *plan.block);

    uint64_t idle_kib = bench_rss_kib();
    pthread_t *threads = bench_map(plan.producers * sizeof *threads);
    pthread_barrier_init(&plan.meeting, NULL, plan.producers + 1);
    for (unsigned k = 0; k < plan.producers; k++)
        threads[k] = bench_start_thread(produce, (void *)(uintptr_t)k, STACK);
    pthread_barrier_wait(&plan.meeting);
    uint64_t built_kib = bench_rss_kib();
    bench_span span = bench_start();
    for (uint64_t i = 0; i < plan.each; i++)
        for (unsigned k = 0; k < plan.producers; k++)
            free(plan.block[k * plan.each + i]);
    span = bench_stop(span);
    uint64_t freed_kib = bench_rss_kib();
    pthread_barrier_wait(&plan.meeting);
    for (unsigned k = 0; k < plan.producers; k++)
        pthread_join(threads[k], NULL);

    bench_report *report = bench_report_begin(&args);
    bench_put_u64(report, "producers", plan.producers);
    bench_put_u64(report, "idle_rss_kib", idle_kib);
    bench_put_u64(report, "built_rss_kib", built_kib - idle_kib);
    bench_put_u64(report, "freed_rss_kib", freed_kib - idle_kib);
    return bench_report_end(report, span, objects, (bench_calls){objects, objects, 0});
}
