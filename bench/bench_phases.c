/* B7: changes its kind of work every few seconds, so that settings for the last phase are wrong for the next phase.
 *   tiny     allocates 100 blocks of 16 to 128 B, and frees them last in, first out; this is repeated
 *   remote   allocates blocks of 16 to 512 B, which a second thread frees
 *   large    replaces a random one of 32 buffers with a new buffer of 64 KiB to 4 MiB, and writes each page of the new one; this is repeated
 *   idle     makes no calls
 *   spike    allocates blocks of 16 to 1024 B until MIB MiB are live, frees all, and pauses for as long as these calls took; this is repeated
 * All five phases run ROUNDS times, for SECONDS each. With SECONDS of 0.1, the work changes too fast for a learner.
 * One operation is one block that is allocated and freed. cpu_mops has the operations for each second of processor time, in millions. This
 * is useful on a busy machine. The places of the series are milliseconds. A phase has settled when the rate in a window of 150 ms first reaches
 * 95 % of the rate in the last third of the phase. For phases of a second or more, the report shows the longest time to settle of all rounds. */
#include "bench_heap.h"

#define BATCH 256u
#define BATCHES 64u
#define BUFFERS 32u
#define SAMPLE_MS 20u
#define WINDOW_LOOKS 7u /* about 150 ms */
#define MAX_LOOKS 4096u

typedef struct figures {
    uint64_t ops, faults, rss_kib;
    double seconds, cpu_seconds, settled_ms;
} figures;

/* Samples of the progress of the current phase. */
static struct {
    double ms[MAX_LOOKS];
    uint64_t pairs[MAX_LOOKS];
    unsigned count;
} looks;

/* The integral of resident memory over the time of the whole run. */
static struct {
    double kib_seconds, seconds, last;
} held;

static struct {
    uint64_t ops; /* operations of the current phase; only the worker writes this field */
    bench_rng rng;
    uint64_t spike_bytes, spike_live;
    double spike_began; /* is 0 between two spikes */
    struct spike_block {
        struct spike_block *next;
    } * spike;
    struct {
        void *block;
        size_t size;
    } buffer[BUFFERS];
    struct batch {
        void *block[BATCH];
        uint64_t bytes;
    } queue[BATCHES]; /* queue from the worker to the second thread */
    uint64_t sent, received;
    sem_t room, ready;
    sem_t begin, ended;
    void (*step)(void); /* NULL ends the worker */
    _Atomic bool stop;
    _Atomic uint64_t xlive, xpairs;
} plan;

static size_t between(size_t low, size_t high)
{
    return low + bench_pick_high(bench_rng_next(&plan.rng), high - low + 1);
}

static void count_live(uint64_t taken, uint64_t given)
{
    atomic_fetch_add_explicit(&plan.xlive, taken - given, memory_order_relaxed);
}

static void count_pairs(uint64_t n) { atomic_fetch_add_explicit(&plan.xpairs, n, memory_order_relaxed); }
static bool is_over(void) { return atomic_load_explicit(&plan.stop, memory_order_relaxed); }

/* ---- the phases, step by step ----------------------------------------- */

static void step_tiny(void)
{
    void *block[100];
    for (unsigned i = 0; i < 100; i++)
        block[i] = bench_alloc(between(16, 128));
    for (unsigned i = 100; i-- > 0;)
        free(block[i]);
    plan.ops += 100;
    count_pairs(100);
}

static void step_remote(void)
{
    bench_wait_for(&plan.room);
    struct batch *b = &plan.queue[plan.sent++ % BATCHES];
    b->bytes = 0;
    for (unsigned i = 0; i < BATCH; i++) {
        size_t size = between(16, 512);
        b->block[i] = bench_alloc(size);
        b->bytes += size;
    }
    count_live(b->bytes, 0);
    plan.ops += BATCH;
    sem_post(&plan.ready);
}

/* Runs on the second thread, and frees the batches of the worker. An empty batch ends the thread. */
static void *receive(void *unused)
{
    for (;;) {
        bench_wait_for(&plan.ready);
        struct batch *b = &plan.queue[plan.received++ % BATCHES];
        if (b->bytes == 0)
            return unused;
        for (unsigned i = 0; i < BATCH; i++)
            free(b->block[i]);
        count_live(0, b->bytes);
        count_pairs(BATCH);
        sem_post(&plan.room);
    }
}

static void put_buffer(unsigned at, size_t size)
{
    count_live(size, plan.buffer[at].size);
    free(plan.buffer[at].block);
    count_pairs(plan.buffer[at].block != NULL);
    plan.buffer[at].block = size ? bench_alloc(size) : NULL;
    plan.buffer[at].size = size;
    if (size != 0)
        bench_touch_pages(plan.buffer[at].block, size);
}

static void step_large(void)
{
    put_buffer((unsigned)between(0, BUFFERS - 1), between(64u << 10, 4u << 20));
    plan.ops++;
}

static void step_idle(void) { bench_sleep(0.005); }

static void free_spike(void)
{
    uint64_t freed = 0;
    for (; plan.spike != NULL; freed++) {
        struct spike_block *next = plan.spike->next;
        free(plan.spike);
        plan.spike = next;
    }
    count_live(0, plan.spike_live);
    count_pairs(freed);
    plan.spike_live = 0;
}

static void step_spike(void)
{
    uint64_t taken = 0;
    if (plan.spike_began == 0)
        plan.spike_began = bench_now();
    for (unsigned i = 0; i < 1000; i++) {
        size_t size = between(16, 1024);
        struct spike_block *block = bench_alloc(size);
        block->next = plan.spike;
        plan.spike = block;
        taken += size;
    }
    plan.ops += 1000;
    plan.spike_live += taken;
    count_live(taken, 0);
    if (plan.spike_live < plan.spike_bytes)
        return;
    free_spike();
    for (double now = bench_now(), until = now + now - plan.spike_began; bench_now() < until && !is_over();)
        bench_sleep(0.005);
    plan.spike_began = 0;
}

static void *work(void *unused)
{
    for (;;) {
        bench_wait_for(&plan.begin);
        if (plan.step == NULL)
            return unused;
        while (!is_over())
            plan.step();
        /* Frees the blocks that are still live at the end of the phase. This is a part of the phase's work. */
        free_spike();
        plan.spike_began = 0;
        for (unsigned i = 0; i < BUFFERS; i++)
            put_buffer(i, 0);
        sem_post(&plan.ended);
    }
}

/* ---- the run ---------------------------------------------------------- */

static const struct {
    const char *name;
    void (*step)(void);
} phases[] = {
    {"tiny", step_tiny}, {"remote", step_remote}, {"large", step_large}, {"idle", step_idle}, {"spike", step_spike}};
#define PHASES (sizeof phases / sizeof *phases)

static void look(double began)
{
    double now = bench_now();
    heap_sample_of((uint64_t)((now - began) * 1e3), atomic_load(&plan.xlive));
    held.kib_seconds += (double)bench_rss_kib() * (now - held.last);
    held.seconds += now - held.last;
    held.last = now;
    if (looks.count == MAX_LOOKS)
        return;
    looks.ms[looks.count] = (now - began) * 1e3;
    looks.pairs[looks.count++] = atomic_load(&plan.xpairs);
}

static double rate(unsigned from, unsigned to)
{
    return (double)(looks.pairs[to] - looks.pairs[from]) / (looks.ms[to] - looks.ms[from]);
}

/* Returns the time in ms that the phase took to settle, or 0 if the phase was too short. */
static double settled_ms(void)
{
    if (looks.count < 6 * WINDOW_LOOKS)
        return 0;
    unsigned last = looks.count - 2, at = 0; /* leaves out the last sample, which comes after the phase */
    double final = rate(last - last / 3, last);
    while (at + WINDOW_LOOKS < last - last / 3 && rate(at, at + WINDOW_LOOKS) < 0.95 * final)
        at++;
    return looks.ms[at] - looks.ms[0];
}

static void run_phase(unsigned at, double began, double seconds, figures *sum)
{
    plan.step = phases[at].step;
    plan.ops = 0;
    atomic_store(&plan.stop, false);
    looks.count = 0;
    bench_span span = bench_start();
    sem_post(&plan.begin);
    for (double until = bench_now() + seconds; bench_now() < until;) {
        bench_sleep(SAMPLE_MS / 1e3);
        look(began);
    }
    atomic_store(&plan.stop, true);
    bench_wait_for(&plan.ended);
    span = bench_stop(span);
    look(began); /* this sample sees the memory after all blocks of the phase were freed */
    uint64_t rss = bench_rss_kib();
    double settled = settled_ms();
    sum->settled_ms = settled > sum->settled_ms ? settled : sum->settled_ms;
    sum->ops += plan.ops;
    sum->faults += span.faults;
    sum->seconds += span.seconds;
    sum->cpu_seconds += span.cpu_seconds;
    sum->rss_kib = rss > sum->rss_kib ? rss : sum->rss_kib;
}

static void finish(pthread_t worker, pthread_t receiver)
{
    plan.step = NULL;
    sem_post(&plan.begin);
    pthread_join(worker, NULL);
    bench_wait_for(&plan.room);
    plan.queue[plan.sent % BATCHES].bytes = 0;
    sem_post(&plan.ready);
    pthread_join(receiver, NULL);
}

static void put_phase(bench_report *r, const char *name, const figures *f)
{
    char key[64];
    bench_put_part(r, "mops", name, (double)f->ops / f->seconds * 1e-6);
    snprintf(key, sizeof key, "faults_%s", name);
    bench_put_u64(r, key, f->faults);
    bench_put_part(r, "rss_mib", name, (double)f->rss_kib / 1024); /* at the phase's end; the largest of all rounds */
    if (f->ops == 0)
        return;
    bench_put_part(r, "settled_ms", name, f->settled_ms);
    bench_put_part(r, "cpu_mops", name, (double)f->ops / f->cpu_seconds * 1e-6);
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[SECONDS [ROUNDS [MIB]]]");
    double seconds = bench_arg_f64(&args, 0, 1);
    uint64_t rounds = bench_arg_in(&args, 1, 2, 1, 1000);
    plan.spike_bytes = bench_arg_in(&args, 2, 256, 1, 1u << 20) << 20;
    plan.rng = bench_rng_seed(1);
    sem_init(&plan.room, 0, BATCHES);
    sem_init(&plan.ready, 0, 0);
    sem_init(&plan.begin, 0, 0);
    sem_init(&plan.ended, 0, 0);

    figures sum[PHASES] = {{0, 0, 0, 0, 0, 0}};
    pthread_t worker = bench_start_thread(work, NULL, 0), receiver = bench_start_thread(receive, NULL, 0);
    bench_span span = bench_start();
    double began = held.last = bench_now();
    for (uint64_t n = 0; n < rounds * PHASES; n++)
        run_phase((unsigned)(n % PHASES), began, seconds, &sum[n % PHASES]);
    span = bench_stop(span);
    finish(worker, receiver);

    bench_report *report = bench_report_begin(&args);
    for (unsigned i = 0; i < PHASES; i++)
        put_phase(report, phases[i].name, &sum[i]);
    bench_put_f64(report, "rss_mib_mean", held.kib_seconds / held.seconds / 1024);
    uint64_t pairs = atomic_load(&plan.xpairs);
    heap_put_series(report);
    return bench_report_end(report, span, pairs, (bench_calls){pairs, pairs, 0});
}
