/* The workloads whose transfers of cache lines lines.py counts. Each has THREADS threads, of which each allocates OBJECTS blocks while lines.c
 * counts, and as many before. Nothing is timed. The loops are short, because an emulator executes them.
 *   own       each thread replaces random blocks of its own
 *   larson    the same, but each thread ends after LIFE replacements, and a new thread continues with its blocks
 *   fanin     all threads but the first allocate, and the first frees
 *   ring      each thread allocates for the next one, and frees the blocks of the previous one
 *   service   threads send messages to each other at random; each message also takes six blocks that its sender frees
 * The other workloads have a known number of transfers; OBJECTS is the number of accesses of each thread (see test_lines.py).
 *   ping      two threads write to one line in turns, when they have read that it is their turn
 *   falsely   each thread writes to its own word of one line (of up to 8 words), in turns
 *   private   each thread writes to its own line
 *   readers   all threads read the lines of a page, which main has written
 *   atomic    each thread counts up in its own line by one atomic operation */
#include "bench_common.h"

#include <sys/prctl.h>

enum {
    MARK = 0x4C494E45,
    MAX_THREADS = 256,
    CHUNKS = 64,
    LIFE = 512,
    BATCH = 32,
    BATCHES = 4,
    LOCALS = 6,
    LARGEST = 256,
    STACK = 65536
};

typedef struct message {
    struct message *next;
    uint64_t payload;
} message;

/* A queue with one writer and one reader. */
typedef struct queue {
    _Alignas(64) sem_t room;
    _Alignas(64) sem_t filled;
    _Alignas(64) void *slot[BATCHES][BATCH];
} queue;

typedef struct worker {
    _Alignas(128) void *block[CHUNKS];
    bench_rng rng;
    uint64_t sum, sent, taken, blocks;
    unsigned number;
    pthread_t thread;
    queue queue;
    _Alignas(128) _Atomic(message *) xmail;
    _Alignas(128) _Atomic uint64_t xword;
} worker;

static struct {
    unsigned threads;
    uint64_t objects;
    worker *worker;
    pthread_barrier_t meeting;
    _Alignas(4096) _Atomic uint64_t xword[512];
    _Alignas(128) void (*work)(worker *w, uint64_t objects);
} plan;

/* Allocates a block of 16 to LARGEST bytes, and counts it. */
static void *allocate(worker *w)
{
    w->blocks++;
    return bench_alloc(16 + bench_pick_low(bench_rng_next(&w->rng), LARGEST - 15));
}

/* ---- the work of one thread -------------------------------------------- */

static void replace_own(worker *w, uint64_t objects)
{
    while (objects-- != 0) {
        void **victim = &w->block[bench_pick_high(bench_rng_next(&w->rng), CHUNKS)];
        free(*victim);
        *victim = allocate(w);
    }
}

typedef struct life {
    worker *w;
    uint64_t objects;
} life;

static void *live(void *arg)
{
    life *l = arg;
    replace_own(l->w, l->objects);
    return NULL;
}

/* Runs one thread after the other. Each thread handles LIFE of the objects, and then ends. */
static void start_lives(worker *w, uint64_t objects)
{
    while (objects != 0) {
        life l = {w, objects < LIFE ? objects : LIFE};
        pthread_join(bench_start_thread(live, &l, STACK), NULL);
        objects -= l.objects;
    }
}

static void send_batch(worker *w, queue *q)
{
    void **slot = q->slot[w->sent++ % BATCHES];
    bench_wait_for(&q->room);
    for (unsigned i = 0; i < BATCH; i++)
        slot[i] = allocate(w);
    sem_post(&q->filled);
}

/* Reads the first byte of each block, as any reader would. */
static void free_batch(worker *w, queue *q, uint64_t number)
{
    void **slot = q->slot[number % BATCHES];
    bench_wait_for(&q->filled);
    for (unsigned i = 0; i < BATCH; i++) {
        w->sum += *(volatile unsigned char *)slot[i];
        free(slot[i]);
    }
    sem_post(&q->room);
}

static void fan_in(worker *w, uint64_t objects)
{
    for (uint64_t done = 0; done < objects; done += BATCH) {
        if (w->number != 0 || plan.threads == 1)
            send_batch(w, &w->queue);
        for (unsigned i = plan.threads == 1 ? 0 : 1; w->number == 0 && i < plan.threads; i++)
            free_batch(w, &plan.worker[i].queue, w->taken);
        w->taken++;
    }
}

static void ring(worker *w, uint64_t objects)
{
    queue *from = &plan.worker[(w->number + plan.threads - 1) % plan.threads].queue;
    for (uint64_t done = 0; done < objects; done += BATCH) {
        send_batch(w, &w->queue);
        free_batch(w, from, w->taken++);
    }
}

static void read_mail(worker *w)
{
    message *m = atomic_exchange(&w->xmail, NULL);
    while (m != NULL) {
        message *next = m->next;
        w->sum += m->payload;
        free(m);
        m = next;
    }
}

static void serve(worker *w, uint64_t objects)
{
    for (uint64_t done = 0; done < objects; done += LOCALS + 1) {
        replace_own(w, LOCALS);
        message *m = allocate(w);
        worker *to = &plan.worker[bench_pick_high(bench_rng_next(&w->rng), plan.threads)];
        m->payload = done;
        m->next = atomic_load(&to->xmail);
        while (!atomic_compare_exchange_weak(&to->xmail, &m->next, m)) {}
        read_mail(w);
    }
}

/* ---- known numbers of transfers ---------------------------------------- */

static void ping(worker *w, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++) {
        while (atomic_load_explicit(&plan.xword[0], memory_order_relaxed) % 2 != w->number)
            sched_yield();
        atomic_store_explicit(&plan.xword[0], w->number + 1, memory_order_relaxed);
        sched_yield();
    }
}

static void share_falsely(worker *w, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++) {
        atomic_store_explicit(&plan.xword[w->number % 8], i, memory_order_relaxed);
        sched_yield();
    }
}

static void write_own(worker *w, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++)
        atomic_store_explicit(&w->xword, i, memory_order_relaxed);
}

static void read_page(worker *w, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++)
        w->sum += atomic_load_explicit(&plan.xword[i % 512], memory_order_relaxed);
}

static void count_own(worker *w, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++)
        atomic_fetch_add(&w->xword, 1);
}

/* ---- all threads -------------------------------------------------------- */

static void *run(void *arg)
{
    worker *w = arg;
    w->rng = bench_rng_seed(w->number + 1);
    plan.work(w, plan.objects);
    pthread_barrier_wait(&plan.meeting);
    pthread_barrier_wait(&plan.meeting);
    plan.work(w, plan.objects);
    pthread_barrier_wait(&plan.meeting);
    pthread_barrier_wait(&plan.meeting);
    return NULL;
}

static void mark(bool begin)
{
    pthread_barrier_wait(&plan.meeting);
    for (unsigned i = 0; i < 512; i++)
        atomic_store(&plan.xword[i], 0);
    prctl(MARK, begin ? 1 : 0, 0, 0, 0);
    pthread_barrier_wait(&plan.meeting);
}

static void choose(const char *name)
{
    static const struct {
        const char *name;
        void (*work)(worker *, uint64_t);
    } rows[] = {{"own", replace_own},   {"larson", start_lives}, {"fanin", fan_in},          {"ring", ring},
                {"service", serve},     {"ping", ping},          {"falsely", share_falsely}, {"private", write_own},
                {"readers", read_page}, {"atomic", count_own}};
    plan.work = bench_find("workload", rows, name)->work;
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "WORKLOAD [THREADS [OBJECTS]]");
    choose(bench_arg_str(&args, 0, "own"));
    plan.threads = (unsigned)bench_arg_in(&args, 1, 2, 1, MAX_THREADS);
    plan.objects = bench_arg_u64(&args, 2, 1024);
    plan.worker = bench_map(plan.threads * sizeof *plan.worker);
    pthread_barrier_init(&plan.meeting, NULL, plan.threads + 1);
    for (unsigned i = 0; i < plan.threads; i++) {
        worker *w = &plan.worker[i];
        w->number = i;
        sem_init(&w->queue.room, 0, BATCHES);
        sem_init(&w->queue.filled, 0, 0);
    }
    for (unsigned i = 0; i < plan.threads; i++)
        plan.worker[i].thread = bench_start_thread(run, &plan.worker[i], STACK);
    mark(true);
    mark(false);
    uint64_t blocks = 0; /* of the part that is counted, and of the equal part before it */
    for (unsigned i = 0; i < plan.threads; i++) {
        pthread_join(plan.worker[i].thread, NULL);
        blocks += plan.worker[i].blocks;
    }
    bench_report *report = bench_report_begin(&args);
    bench_put_u64(report, "blocks", blocks / 2);
    return bench_report_end(report, (bench_span){0}, 0, (bench_calls){0});
}
