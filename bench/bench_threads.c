/* B9: measures the memory that threads hold, and the memory that stays resident after their end.
 *   churn N   starts N threads one after the other. Each one allocates and frees blocks of many sizes. The RSS must be the same before and after.
 *   idle N    starts N threads, which use the allocator and then wait. The report has the RSS of each thread, with the touched pages of its stack.
 * With BLOCKS 0, the threads do not use the allocator. So a run with BLOCKS 0 gives the RSS of bare threads, which can be subtracted. */
#include "bench_common.h"

#define STACK_BYTES (128u << 10)
#define MAX_BLOCKS 256u
#define MAX_IDLE 100000u

static struct {
    uint64_t blocks;
    sem_t ready, leave;
} plan;

/* Allocates and frees blocks of 16 bytes to 8 KiB, so that the thread uses many size classes. If `stays` is not NULL, the thread then waits. */
static void *live(void *stays)
{
    void *block[MAX_BLOCKS];
    for (uint64_t i = 0; i < plan.blocks; i++)
        block[i] = bench_alloc((size_t)16 << i % 10);
    for (uint64_t i = 0; i < plan.blocks; i++)
        free(block[i]);
    if (stays != NULL) {
        sem_post(&plan.ready);
        bench_wait_for(&plan.leave);
    }
    return NULL;
}

static void churn(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        pthread_join(bench_start_thread(live, NULL, STACK_BYTES), NULL);
}

/* Returns the RSS while all threads exist and wait. */
static uint64_t hold(uint64_t n)
{
    pthread_t *thread = bench_map(n * sizeof *thread);
    for (uint64_t i = 0; i < n; i++)
        thread[i] = bench_start_thread(live, thread, STACK_BYTES);
    for (uint64_t i = 0; i < n; i++)
        bench_wait_for(&plan.ready);
    uint64_t rss = bench_rss_kib();
    for (uint64_t i = 0; i < n; i++)
        sem_post(&plan.leave);
    for (uint64_t i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    return rss;
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[churn|idle [N [BLOCKS]]]");
    const char *mode = bench_arg_str(&args, 0, "churn");
    bool idle = strcmp(mode, "idle") == 0;
    if (!idle && strcmp(mode, "churn") != 0)
        bench_die("MODE is churn or idle, not '%s'", mode);
    uint64_t n = bench_arg_in(&args, 1, idle ? 1000 : 100000, 1, idle ? MAX_IDLE : UINT32_MAX);
    plan.blocks = bench_arg_in(&args, 2, 64, 0, MAX_BLOCKS);
    sem_init(&plan.ready, 0, 0);
    sem_init(&plan.leave, 0, 0);

    churn(16);       /* fills the C library's stack cache, and starts the allocator */
    bench_rss_kib(); /* touches the pages that this measurement needs */
    bench_span span = bench_start();
    uint64_t before = bench_rss_kib(), during = before;
    if (idle)
        during = hold(n);
    else
        churn(n);
    span = bench_stop(span);
    uint64_t after = bench_rss_kib();

    bench_report *report = bench_report_begin(&args);
    uint64_t pairs = (n + 16) * plan.blocks;
    bench_put_str(report, "mode", mode);
    bench_put_u64(report, "threads", n);
    bench_put_u64(report, "rss_before_kib", before);
    bench_put_u64(report, "rss_after_kib", after);
    bench_put_f64(report, "rss_growth_kib", (double)after - (double)before);
    if (idle)
        bench_put_f64(report, "bytes_per_thread", ((double)during - (double)before) * 1024 / (double)n);
    return bench_report_end(report, span, n, (bench_calls){pairs, pairs, 0});
}
