/* M13 to M16, and M18: measures the memory that a program holds because of what it did before.
 *   drift    a store of RECORDS records, whose sizes grow by a twentieth in each of 60 steps. A step replaces a quarter of the records (M13)
 *   large    frees four blocks of 1 to 64 MiB, and sleeps for a second (M14)
 *   prefork  forks COUNT children from a process with a heap of 64 MiB. Each child serves requests, and replaces a hundredth of the heap (M15)
 *   parked   COUNT threads keep their first fifth of blocks, free the others, and wait in read(). The first thread then calls malloc_trim(0) (M16)
 *   joined   four threads allocate 20,000 blocks at a time, and four others free them. All end, and the first thread sleeps for 2 s (M18)
 * Figures   left_mib is the RSS at the end. rss_to_live is the largest RSS after the first third of the steps, divided by the sum of the live bytes and 8 MiB.
 *           parked_per_live is the RSS, divided by the live bytes. private_mib is the sum of what the children do not share.
 * Calls     The calls of forked children are not counted. */
#include "bench_heap.h"

#include <malloc.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define STEPS 60u
#define HEAP_BLOCKS 240000u /* 64 MiB of blocks of 16 to 512 bytes */
#define REQUESTS 200u
#define BLOCKS_OF_REQUEST 400u
#define PARKED_BLOCKS 5000u
#define KEPT_BLOCKS (PARKED_BLOCKS / 5)
#define PAIRS 4u
#define ROUNDS 30u
#define BATCH 20000u

static bench_rng rng;
static double began;
static atomic_ullong mallocs, frees; /* those of threads */

static size_t pick(uint64_t n) { return (size_t)bench_pick_high(bench_rng_next(&rng), n); }
static double rss_mib(void) { return (double)bench_rss_now_kib() / 1024; }
static uint64_t ms_since_start(void) { return (uint64_t)((bench_now() - began) * 1e3); }
static void sample_now(void) { heap_sample(ms_since_start()); }

static void *threads_malloc(size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return memset(bench_alloc(size), 1, size);
}

static void threads_free(void *block)
{
    atomic_fetch_add(&frees, 1);
    free(block);
}

/* ---- drift ------------------------------------------------------------ */

static void replace(void **place, size_t size)
{
    heap_free(*place);
    *place = heap_alloc(size);
}

static double run_drift(uint64_t records)
{
    heap_table *store = heap_new_table((uint32_t)records);
    store->count = (uint32_t)records;
    double worst = 0;
    size_t size = 64;
    for (unsigned step = 0; step < STEPS; step++, size = size * 21 / 20) {
        for (uint64_t i = 0; i < records / 4; i++)
            replace(&store->at[pick(records)], size + pick(32));
        double ratio = rss_mib() / ((double)heap_live() / (1 << 20) + 8);
        worst = step > STEPS / 3 && ratio > worst ? ratio : worst;
        sample_now();
        bench_sleep(0.1);
    }
    for (uint64_t i = 0; i < records; i++)
        heap_free(store->at[i]);
    heap_free(store);
    return worst;
}

/* ---- large ------------------------------------------------------------ */

static double run_large(uint64_t ignored)
{
    static const size_t mib[] = {1, 4, 16, 64};
    void *blocks[4];
    (void)ignored;
    for (unsigned i = 0; i < 4; i++)
        blocks[i] = heap_alloc(mib[i] << 20);
    sample_now();
    for (unsigned i = 0; i < 4; i++)
        heap_free(blocks[i]);
    sample_now();
    bench_sleep(1);
    sample_now();
    return rss_mib();
}

/* ---- prefork ---------------------------------------------------------- */

static void serve(heap_table *heap)
{
    static void *blocks[BLOCKS_OF_REQUEST];
    for (unsigned request = 0; request < REQUESTS; request++) {
        for (unsigned i = 0; i < BLOCKS_OF_REQUEST; i++)
            blocks[i] = heap_alloc(16 + pick(2048));
        for (unsigned i = 0; i < BLOCKS_OF_REQUEST; i++)
            heap_free(blocks[i]);
        for (unsigned i = 0; i < HEAP_BLOCKS / 100 / REQUESTS; i++)
            replace(&heap->at[pick(HEAP_BLOCKS)], 16 + pick(497));
    }
}

/* Returns the KiB that a child does not share. The child lives until all children have answered. */
static uint64_t fork_and_serve(heap_table *heap, unsigned child, int answers[2], int ends[2])
{
    uint64_t kib = 0;
    pid_t pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        char end;
        rng = bench_rng_seed(child);
        serve(heap);
        kib = bench_proc_kib("/proc/self/smaps_rollup", "Private_Dirty");
        close(ends[1]);
        _exit(write(answers[1], &kib, sizeof kib) == sizeof kib && read(ends[0], &end, 1) == 0 ? 0 : 1);
    }
    if (read(answers[0], &kib, sizeof kib) != sizeof kib)
        bench_die("a child does not answer");
    return kib;
}

static double run_prefork(uint64_t children)
{
    int answers[2], ends[2], status;
    uint64_t kib = 0;
    heap_table *heap = heap_new_table(HEAP_BLOCKS);
    heap->count = HEAP_BLOCKS;
    for (unsigned i = 0; i < HEAP_BLOCKS; i++)
        heap->at[i] = heap_alloc(16 + pick(497));
    if (pipe(answers) != 0 || pipe(ends) != 0)
        bench_die("pipe: %s", strerror(errno));
    heap_sample_kib(ms_since_start(), 0);
    for (unsigned i = 0; i < children; i++)
        heap_sample_kib(ms_since_start(), kib += fork_and_serve(heap, i, answers, ends));
    close(ends[1]);
    while (wait(&status) > 0)
        if (status != 0)
            bench_die("a child ended with status %d", status);
    for (unsigned i = 0; i < HEAP_BLOCKS; i++)
        heap_free(heap->at[i]);
    heap_free(heap);
    return (double)kib / 1024;
}

/* ---- parked ----------------------------------------------------------- */

static sem_t parked;
static int wake[2];
static atomic_ullong kept_bytes;

static void *park(void *seed)
{
    bench_rng own = bench_rng_seed((uintptr_t)seed);
    void *blocks[PARKED_BLOCKS];
    char byte;
    uint64_t kept = 0;
    for (unsigned i = 0; i < PARKED_BLOCKS; i++) {
        size_t size = 16 + bench_pick_high(bench_rng_next(&own), 1008);
        blocks[i] = threads_malloc(size);
        kept += i < KEPT_BLOCKS ? size : 0;
    }
    for (unsigned i = KEPT_BLOCKS; i < PARKED_BLOCKS; i++)
        threads_free(blocks[i]);
    atomic_fetch_add(&kept_bytes, kept);
    sem_post(&parked);
    while (read(wake[0], &byte, 1) < 0) {}
    for (unsigned i = 0; i < KEPT_BLOCKS; i++)
        threads_free(blocks[i]);
    return NULL;
}

static double run_parked(uint64_t threads)
{
    pthread_t *thread = bench_map(threads * sizeof *thread);
    sem_init(&parked, 0, 0);
    if (pipe(wake) != 0)
        bench_die("pipe: %s", strerror(errno));
    for (uint64_t i = 0; i < threads; i++)
        thread[i] = bench_start_thread(park, (void *)(uintptr_t)(i + 1), 64 << 10);
    for (uint64_t i = 0; i < threads; i++)
        bench_wait_for(&parked);
    malloc_trim(0);
    double ratio = (double)bench_rss_now_kib() * 1024 / (double)atomic_load(&kept_bytes);
    close(wake[1]);
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return ratio;
}

/* ---- joined ----------------------------------------------------------- */

static struct pair {
    sem_t full, empty;
    unsigned number;
    void *blocks[BATCH];
} pairs[PAIRS];

static void *produce(void *given)
{
    struct pair *pair = given;
    for (unsigned round = 0; round < ROUNDS; round++) {
        bench_wait_for(&pair->empty);
        for (unsigned i = 0; i < BATCH; i++)
            pair->blocks[i] = threads_malloc(1000 * (1 + (round + pair->number) % 4));
        sem_post(&pair->full);
        bench_sleep(0.02 * (pair->number + 1));
    }
    return NULL;
}

static void *consume(void *given)
{
    struct pair *pair = given;
    for (unsigned round = 0; round < ROUNDS; round++) {
        bench_wait_for(&pair->full);
        for (unsigned i = 0; i < BATCH; i++)
            threads_free(pair->blocks[i]);
        sem_post(&pair->empty);
    }
    return NULL;
}

static double run_joined(uint64_t ignored)
{
    pthread_t threads[2 * PAIRS];
    (void)ignored;
    for (unsigned i = 0; i < PAIRS; i++) {
        pairs[i].number = i;
        sem_init(&pairs[i].full, 0, 0);
        sem_init(&pairs[i].empty, 0, 1);
        threads[2 * i] = bench_start_thread(produce, &pairs[i], 0);
        threads[2 * i + 1] = bench_start_thread(consume, &pairs[i], 0);
    }
    for (unsigned i = 0; i < 2 * PAIRS; i++)
        pthread_join(threads[i], NULL);
    bench_sleep(2);
    return rss_mib();
}

int main(int argc, char **argv)
{
    static const struct mode {
        const char *name, *figure;
        double (*run)(uint64_t count);
        uint64_t count;
    } modes[] = {
        {"drift", "rss_to_live", run_drift, 400000}, {"large", "left_mib", run_large, 1},
        {"prefork", "private_mib", run_prefork, 8},  {"parked", "parked_per_live", run_parked, 300},
        {"joined", "left_mib", run_joined, 1},
    };
    bench_args args = bench_args_read(argc, argv, "drift [RECORDS]|large|prefork [COUNT]|parked [COUNT]|joined");
    const struct mode *mode = bench_find("mode", modes, bench_arg_str(&args, 0, "drift"));
    uint64_t count = bench_arg_in(&args, 1, mode->count, 1, 100000000);
    rng = bench_rng_seed(1);
    began = bench_now();
    double found = mode->run(count);
    heap_finish();

    bench_report *report = bench_report_begin(&args);
    bench_calls calls = heap_calls();
    calls.mallocs += atomic_load(&mallocs);
    calls.frees += atomic_load(&frees);
    bench_put_str(report, "mode", mode->name);
    bench_put_f64(report, mode->figure, found);
    heap_put_series(report);
    return bench_report_end(report, (bench_span){0, 0, 0}, 0, calls);
}
