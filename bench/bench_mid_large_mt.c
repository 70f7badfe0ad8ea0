/* B4: does the same work as bench_random_mixed, but with middle-sized blocks and in THREADS threads. Each thread has its own slots. */
#include "bench_workset.h"

#define MAX_THREADS 1024u

typedef struct worker {
    _Alignas(64) pthread_t thread;
    uint64_t seed, live;
    double end;
} worker;

static struct {
    uint64_t threads, steps, warmup, slots, min, range;
    pthread_barrier_t
        step; /* main and the workers meet after the warm-up, at the start and the end of the measurement, and when main has read the figures */
} plan;

static void *work(void *arg)
{
    worker *w = arg;
    workset set = {bench_map(plan.slots * sizeof(void *)), plan.slots, plan.min, plan.range, bench_rng_seed(w->seed)};
    run_steps(&set, plan.warmup);
    pthread_barrier_wait(&plan.step);
    pthread_barrier_wait(&plan.step);
    run_steps(&set, plan.steps);
    w->end = bench_now();
    pthread_barrier_wait(&plan.step);
    pthread_barrier_wait(&plan.step); /* main reads the figures between these two calls */
    w->live = free_rest(&set);
    return NULL;
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[THREADS [ITER [WS [MIN MAX]]]]");
    plan.threads = bench_arg_in(&args, 0, 1, 1, MAX_THREADS);
    plan.steps = bench_arg_u64(&args, 1, 5000000);
    plan.slots = bench_arg_in(&args, 2, 256, 1, UINT32_MAX);
    plan.min = bench_arg_in(&args, 3, 8192, 1, UINT32_MAX);
    plan.range = bench_arg_in(&args, 4, 32768, plan.min, UINT32_MAX) - plan.min + 1;
    plan.warmup = plan.slots * 8;

    worker *workers = bench_map(plan.threads * sizeof *workers);
    pthread_barrier_init(&plan.step, NULL, (unsigned)plan.threads + 1);
    for (uint64_t i = 0; i < plan.threads; i++) {
        workers[i].seed = i + 1;
        workers[i].thread = bench_start_thread(work, &workers[i], 0);
    }
    pthread_barrier_wait(&plan.step); /* ends the warm-up */
    bench_span start = bench_start();
    pthread_barrier_wait(&plan.step);
    pthread_barrier_wait(&plan.step);
    bench_span span = bench_stop(start);
    double end = 0;
    for (uint64_t i = 0; i < plan.threads; i++)
        end = workers[i].end > end ? workers[i].end : end;
    span.seconds = end - start.seconds;

    bench_report *report = bench_report_begin(&args);
    pthread_barrier_wait(&plan.step);
    uint64_t all = plan.threads * (plan.steps + plan.warmup);
    for (uint64_t i = 0; i < plan.threads; i++) {
        pthread_join(workers[i].thread, NULL);
        all += workers[i].live;
    }
    bench_put_u64(report, "threads", plan.threads);
    return bench_report_end(report, span, plan.threads * plan.steps, (bench_calls){all / 2, all / 2, 0});
}
