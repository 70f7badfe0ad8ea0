/* B3: models a server whose threads end and leave their blocks to another thread.
 *
 * A lane has an array of CHUNKS blocks, and one thread at a time. The thread replaces a random block of its lane ROUNDS x CHUNKS times. Then it
 * starts the lane's next thread, and ends. The next thread joins the old one. Most blocks are not freed by their owner, and the owner may have ended.
 *   ROUNDS 1    measures mainly the start and the end of threads
 *   ROUNDS 100  measures mainly malloc and free
 * One operation is one block that is freed and replaced. bench/README.md (Traps) says what the usual version of this benchmark does wrong. */
#include "bench_common.h"

#define MAX_LANES 1024u

typedef struct lane {
    _Alignas(64) void **block;
    pthread_t previous; /* the next thread of the lane joins it; main joins the last thread */
    bool has_previous;
    sem_t ended;
    bench_rng rng;
    uint64_t ops, threads;
} lane;

static struct {
    uint64_t chunks, lifetime, min, range;
    _Alignas(64) _Atomic bool stop;
} plan;

static void start_thread(lane *l);

/* Replaces random blocks until the thread has made its number of replacements, or until the run ends. */
static void replace_blocks(lane *l)
{
    bench_rng rng = l->rng;
    uint64_t done = 0;
    while (done < plan.lifetime && !atomic_load_explicit(&plan.stop, memory_order_relaxed)) {
        uint64_t r = bench_rng_next(&rng);
        void **victim = &l->block[bench_pick_high(r, plan.chunks)];
        free(*victim);
        *victim = bench_alloc(plan.min + bench_pick_low(r, plan.range));
        done++;
    }
    l->rng = rng;
    l->ops += done;
}

static void *serve(void *arg)
{
    lane *l = arg;
    if (l->has_previous)
        pthread_join(l->previous, NULL);
    replace_blocks(l);
    l->previous = pthread_self();
    l->has_previous = true;
    if (atomic_load_explicit(&plan.stop, memory_order_relaxed))
        sem_post(&l->ended);
    else
        start_thread(l);
    return NULL;
}

/* Starts the next thread of the lane. The caller must not use the lane any more. No other synchronization is needed: pthread_create orders the
 * caller's writes before the reads of the new thread, and the semaphore orders the last thread's writes before the reads of main. */
static void start_thread(lane *l)
{
    l->threads++;
    bench_start_thread(serve, l, 0);
}

static void fill_lane(lane *l, uint64_t seed)
{
    l->rng = bench_rng_seed(seed);
    l->block = bench_map(plan.chunks * sizeof(void *));
    sem_init(&l->ended, 0, 0);
    for (uint64_t i = 0; i < plan.chunks; i++) {
        uint64_t r = bench_rng_next(&l->rng);
        l->block[i] = bench_alloc(plan.min + bench_pick_low(r, plan.range));
    }
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[SECS [MIN MAX [CHUNKS [ROUNDS [SEED [THREADS]]]]]]");
    double seconds = bench_arg_f64(&args, 0, 2);
    plan.min = bench_arg_in(&args, 1, 8, 1, UINT32_MAX);
    plan.range = bench_arg_in(&args, 2, 128, plan.min, UINT32_MAX) - plan.min + 1;
    plan.chunks = bench_arg_in(&args, 3, 1024, 1, UINT32_MAX);
    plan.lifetime = plan.chunks * bench_arg_in(&args, 4, 1, 1, UINT32_MAX);
    uint64_t seed = bench_arg_u64(&args, 5, 12345);
    uint64_t count = bench_arg_in(&args, 6, 1, 1, MAX_LANES);

    lane *lanes = bench_map(count * sizeof *lanes);
    for (uint64_t i = 0; i < count; i++)
        fill_lane(&lanes[i], seed + i);
    bench_span span = bench_start();
    for (uint64_t i = 0; i < count; i++)
        start_thread(&lanes[i]);
    bench_sleep(seconds);
    atomic_store(&plan.stop, true);
    for (uint64_t i = 0; i < count; i++)
        bench_wait_for(&lanes[i].ended);
    span = bench_stop(span);
    for (uint64_t i = 0; i < count; i++)
        pthread_join(lanes[i].previous, NULL);

    bench_report *report = bench_report_begin(&args);
    uint64_t ops = 0, threads = 0;
    for (uint64_t i = 0; i < count; i++) {
        ops += lanes[i].ops;
        threads += lanes[i].threads;
        for (uint64_t k = 0; k < plan.chunks; k++)
            free(lanes[i].block[k]);
    }
    uint64_t pairs = ops + count * plan.chunks;
    bench_put_u64(report, "lanes", count);
    bench_put_u64(report, "threads_born", threads);
    return bench_report_end(report, span, ops, (bench_calls){pairs, pairs, 0});
}
