/* B6: measures blocks that are freed by another thread than the one that allocated them.
 *   1to1   one thread allocates, and one frees
 *   Nto1   N threads allocate, and one frees
 *   1toN   one thread allocates, and N free
 *   ring   each thread allocates for the next one, and frees the blocks of the previous one
 *
 * Each pair of threads has its own queue with one writer and one reader, which publish their indices once for each batch. So the queue costs
 * only one or two nanoseconds for each block, and the measured time is that of the allocator. The reader gets the size of a block from its
 * own copy of the writer's random generator, because it must not read the block. */
#include "bench_common.h"

#define QUEUE_SLOTS 4096u
#define BATCH 64u
#define MAX_WORKERS 64u

typedef struct queue {
    /* used by the writer only */
    _Alignas(64) uint64_t head, tail_seen, bytes_in;
    bench_rng write_rng;
    /* used by the reader only */
    _Alignas(64) uint64_t tail, bytes_out;
    bench_rng read_rng;
    /* used by both */
    _Alignas(64) _Atomic uint64_t xhead;
    _Atomic uint64_t xbytes_in;
    _Alignas(64) _Atomic uint64_t xtail;
    _Atomic uint64_t xbytes_out;
    _Alignas(64) void *slot[QUEUE_SLOTS];
} queue;

typedef struct worker {
    _Alignas(64) pthread_t thread;
    queue *out[MAX_WORKERS], *in[MAX_WORKERS];
    unsigned outs, ins;
} worker;

static struct {
    uint64_t per_queue; /* blocks that pass through each queue */
    uint64_t min, range;
    unsigned workers, queues;
    worker *worker;
    queue *queue;
    pthread_barrier_t go;
    _Atomic unsigned xrunning;
} plan;

static size_t next_size(bench_rng *rng) { return plan.min + bench_pick_low(bench_rng_next(rng), plan.range); }

/* Sends up to one batch of blocks. Returns false if the queue is full or if all blocks have been sent. */
static bool produce(queue *q)
{
    uint64_t left = plan.per_queue - q->head;
    uint64_t n = left < BATCH ? left : BATCH;
    if (q->head + n - q->tail_seen > QUEUE_SLOTS) {
        q->tail_seen = atomic_load_explicit(&q->xtail, memory_order_acquire);
        if (q->head + n - q->tail_seen > QUEUE_SLOTS)
            return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        size_t size = next_size(&q->write_rng);
        q->slot[(q->head + i) % QUEUE_SLOTS] = bench_alloc(size);
        q->bytes_in += size;
    }
    q->head += n;
    atomic_store_explicit(&q->xbytes_in, q->bytes_in, memory_order_relaxed);
    atomic_store_explicit(&q->xhead, q->head, memory_order_release);
    return n != 0;
}

/* Frees up to one batch of the blocks that have arrived. Returns false if there was none. */
static bool consume(queue *q)
{
    uint64_t n = atomic_load_explicit(&q->xhead, memory_order_acquire) - q->tail;
    n = n < BATCH ? n : BATCH;
    for (uint64_t i = 0; i < n; i++) {
        q->bytes_out += next_size(&q->read_rng);
        free(q->slot[(q->tail + i) % QUEUE_SLOTS]);
    }
    q->tail += n;
    atomic_store_explicit(&q->xbytes_out, q->bytes_out, memory_order_relaxed);
    atomic_store_explicit(&q->xtail, q->tail, memory_order_release);
    return n != 0;
}

static bool finished(const worker *w)
{
    bool all = true;
    for (unsigned i = 0; i < w->outs; i++)
        all &= w->out[i]->head == plan.per_queue;
    for (unsigned i = 0; i < w->ins; i++)
        all &= w->in[i]->tail == plan.per_queue;
    return all;
}

static void *work(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(&plan.go);
    while (!finished(w)) {
        bool moved = false;
        for (unsigned i = 0; i < w->outs; i++)
            moved |= produce(w->out[i]);
        for (unsigned i = 0; i < w->ins; i++)
            moved |= consume(w->in[i]);
        if (!moved)
            sched_yield(); /* does not spin, because there may be more threads than processors */
    }
    atomic_fetch_sub(&plan.xrunning, 1);
    return NULL;
}

/* ---- senders and receivers -------------------------------------------- */

static void pair_up(unsigned from, unsigned to)
{
    queue *q = &plan.queue[plan.queues];
    q->write_rng = q->read_rng = bench_rng_seed(++plan.queues);
    worker *writer = &plan.worker[from], *reader = &plan.worker[to];
    writer->out[writer->outs++] = q;
    reader->in[reader->ins++] = q;
}

static void lay_out(const char *mode, unsigned n)
{
    static const char *const modes[] = {"1to1", "Nto1", "1toN", "ring"};
    enum { ONE, GATHER, SCATTER, RING };
    size_t shape = bench_row_of("mode", modes, sizeof modes, sizeof *modes, mode);
    unsigned edges = shape == ONE ? 1 : n;
    plan.workers = shape == RING ? n : edges + 1;
    plan.worker = bench_map(plan.workers * sizeof *plan.worker);
    plan.queue = bench_map(edges * sizeof *plan.queue);
    for (unsigned i = 0; i < edges; i++) {
        if (shape == RING)
            pair_up(i, (i + 1) % n);
        else if (shape == GATHER)
            pair_up(i + 1, 0);
        else
            pair_up(0, i + 1);
    }
}

/* ---- memory while it runs --------------------------------------------- */

typedef struct peak {
    uint64_t live, rss_kib, samples;
} peak;

static void sample(peak *p)
{
    uint64_t in = 0, out = 0;
    for (unsigned i = 0; i < plan.queues; i++) {
        /* reads `out` before `in`, so that the difference cannot become negative */
        out += atomic_load(&plan.queue[i].xbytes_out);
        in += atomic_load(&plan.queue[i].xbytes_in);
    }
    uint64_t rss = bench_rss_now_kib();
    uint64_t live = in > out ? in - out : 0;
    p->live = live > p->live ? live : p->live;
    p->rss_kib = rss > p->rss_kib ? rss : p->rss_kib;
    p->samples++;
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[1to1|Nto1|1toN|ring [THREADS [OBJECTS [MIN MAX]]]]");
    const char *mode = bench_arg_str(&args, 0, "1to1");
    unsigned n = (unsigned)bench_arg_in(&args, 1, 2, 1, MAX_WORKERS - 1);
    uint64_t objects = bench_arg_in(&args, 2, 10000000, 1, UINT64_MAX);
    plan.min = bench_arg_in(&args, 3, 16, 1, UINT32_MAX);
    plan.range = bench_arg_in(&args, 4, 512, plan.min, UINT32_MAX) - plan.min + 1;
    lay_out(mode, n);
    plan.per_queue = (objects + plan.queues - 1) / plan.queues;

    uint64_t idle_kib = bench_rss_kib();
    pthread_barrier_init(&plan.go, NULL, plan.workers + 1);
    atomic_store(&plan.xrunning, plan.workers);
    for (unsigned i = 0; i < plan.workers; i++)
        plan.worker[i].thread = bench_start_thread(work, &plan.worker[i], 0);
    bench_span span = bench_start();
    pthread_barrier_wait(&plan.go);
    peak p = {0, 0, 0};
    while (atomic_load(&plan.xrunning) != 0) {
        bench_sleep(0.002);
        sample(&p);
    }
    for (unsigned i = 0; i < plan.workers; i++)
        pthread_join(plan.worker[i].thread, NULL);
    span = bench_stop(span);

    bench_report *report = bench_report_begin(&args);
    uint64_t total = plan.per_queue * plan.queues;
    bench_put_str(report, "mode", mode);
    bench_put_u64(report, "workers", plan.workers);
    bench_put_u64(report, "idle_rss_kib", idle_kib);
    bench_put_u64(report, "peak_live_kib", p.live / 1024);
    bench_put_u64(report, "peak_sampled_rss_kib", p.rss_kib);
    bench_put_u64(report, "rss_samples", p.samples);
    return bench_report_end(report, span, total, (bench_calls){total, total, 0});
}
