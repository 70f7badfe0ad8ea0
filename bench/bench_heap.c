#include "bench_heap.h"

#define MAX_MOMENTS 256u
#define MAX_PHASES 8u
#define FREE_VMAS 64u /* M11 allows this number of mappings, and one more for each 2 MiB of RSS */

typedef struct phase {
    const char *name;
    uint64_t live_kib, rss_kib, vmas;
} phase;

static struct {
    uint64_t live, peak_live, ops, next_sample, interval;
    bench_calls calls;
    struct moment {
        uint64_t at, live_kib, rss_kib;
    } moment[MAX_MOMENTS];
    phase phase[MAX_PHASES];
    unsigned moments, phases;
} heap = {.next_sample = UINT64_MAX};

static struct {
    bool begun;
    pthread_t thread;
    sem_t asked, done;
    void (*work)(void *what); /* NULL ends the thread */
    void *what;
} elsewhere;

/* ---- blocks ----------------------------------------------------------- */

static void count_operation(uint64_t taken, uint64_t given)
{
    heap.live = heap.live + taken - given;
    heap.peak_live = heap.live > heap.peak_live ? heap.live : heap.peak_live;
    if (++heap.ops >= heap.next_sample) {
        heap_sample(heap.ops);
        heap.next_sample = heap.ops + heap.interval;
    }
}

/* Writes one byte of each page from offset `from` on, the last byte, and the size at the start of the block. */
static void write_pages(char *block, size_t from, size_t size)
{
    for (size_t i = from; i < size; i += BENCH_PAGE)
        ((volatile char *)block)[i] = (char)i;
    ((volatile char *)block)[size - 1] = 1;
    ((heap_block *)block)->size = (uint32_t)size;
}

void *heap_alloc(size_t size)
{
    void *block = bench_alloc(size);
    write_pages(block, 0, size);
    heap.calls.mallocs++;
    count_operation(size, 0);
    return block;
}

void *heap_resize(void *block, size_t size)
{
    if (block == NULL)
        return heap_alloc(size);
    size_t before = ((heap_block *)block)->size;
    void *moved = bench_expect(realloc(block, size), size);
    write_pages(moved, before < size ? before : size - 1, size);
    heap.calls.reallocs++;
    count_operation(size, before);
    return moved;
}

void heap_free(void *block)
{
    if (block == NULL)
        return;
    size_t size = ((heap_block *)block)->size;
    free(block);
    heap.calls.frees++;
    count_operation(0, size);
}

heap_table *heap_new_table(uint32_t slots)
{
    size_t size = sizeof(heap_table) + slots * sizeof(void *);
    heap_table *table = heap_alloc(size);
    memset(table, 0, size);
    table->block.size = (uint32_t)size;
    return table;
}

heap_link *heap_chain(heap_link *next, size_t size)
{
    heap_link *link = heap_alloc(size < sizeof *link ? sizeof *link : size);
    link->next = next;
    return link;
}

void heap_free_chain(heap_link *first)
{
    for (heap_link *next; first != NULL; first = next) {
        next = first->next;
        heap_free(first);
    }
}

void heap_append(heap_ring *ring, size_t size)
{
    heap_link *link = heap_chain(NULL, size);
    *(ring->newest ? &ring->newest->next : &ring->oldest) = link;
    ring->newest = link;
}

void heap_trim(heap_ring *ring, uint64_t bytes)
{
    while (heap.live > bytes && ring->oldest != ring->newest) {
        heap_link *link = ring->oldest;
        ring->oldest = link->next;
        heap_free(link);
    }
}

uint64_t heap_live(void) { return heap.live; }
bench_calls heap_calls(void) { return heap.calls; }

/* ---- memory over time ------------------------------------------------- */

void heap_watch_operations(uint64_t interval)
{
    heap.interval = interval;
    heap.next_sample = heap.ops;
}

static void add_moment(struct moment moment)
{
    if (heap.moments == MAX_MOMENTS) {
        heap.moments /= 2;
        heap.interval *= 2;
        for (unsigned i = 0; i < heap.moments; i++)
            heap.moment[i] = heap.moment[2 * i];
    }
    heap.moment[heap.moments++] = moment;
}

void heap_sample_of(uint64_t at, uint64_t live) { add_moment((struct moment){at, live / 1024, bench_rss_now_kib()}); }

void heap_sample_kib(uint64_t at, uint64_t kib) { add_moment((struct moment){at, 0, kib}); }
void heap_sample(uint64_t at) { heap_sample_of(at, heap.live); }

static uint64_t count_mappings(void)
{
    static char text[BENCH_PAGE];
    uint64_t lines = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    close(fd);
    return lines;
}

static double to_live(const phase *p) { return (double)p->rss_kib / (double)p->live_kib; }

double heap_phase(const char *name)
{
    if (heap.phases == MAX_PHASES || heap.live < 1024)
        bench_die("phase %s: one too many, or nothing is live", name);
    phase *p = &heap.phase[heap.phases++];
    *p = (phase){name, heap.live / 1024, bench_rss_kib(), count_mappings()};
    return to_live(p);
}

/* ---- the other thread ------------------------------------------------- */

static void *serve(void *unused)
{
    for (;;) {
        bench_wait_for(&elsewhere.asked);
        if (elsewhere.work == NULL)
            return unused;
        elsewhere.work(elsewhere.what);
        sem_post(&elsewhere.done);
    }
}

void heap_elsewhere(void (*work)(void *what), void *what)
{
    if (!elsewhere.begun) {
        sem_init(&elsewhere.asked, 0, 0);
        sem_init(&elsewhere.done, 0, 0);
        elsewhere.thread = bench_start_thread(serve, NULL, 0);
        elsewhere.begun = true;
    }
    elsewhere.work = work;
    elsewhere.what = what;
    sem_post(&elsewhere.asked);
    bench_wait_for(&elsewhere.done);
}

/* ---- the report ------------------------------------------------------- */

void heap_finish(void)
{
    if (heap.live != 0)
        bench_die("%llu bytes are still live", (unsigned long long)heap.live);
    if (!elsewhere.begun)
        return;
    elsewhere.work = NULL;
    sem_post(&elsewhere.asked);
    pthread_join(elsewhere.thread, NULL);
}

static double larger(double a, double b) { return a > b ? a : b; }

void heap_put_figures(bench_report *r)
{
    double worst = 0, vmas = 0, bound = 0;
    for (unsigned i = 0; i < heap.phases; i++) {
        const phase *p = &heap.phase[i];
        bench_put_part(r, "rss_per_live", p->name, to_live(p));
        worst = larger(worst, to_live(p));
        vmas = larger(vmas, (double)p->vmas);
        bound = larger(bound, (double)p->vmas / (FREE_VMAS + (double)p->rss_kib / 2048));
    }
    bench_put_f64(r, "worst_rss_per_live", worst);
    bench_put_f64(r, "vmas", vmas);
    bench_put_f64(r, "vmas_to_bound", bound);
    bench_put_u64(r, "peak_live_kib", heap.peak_live / 1024);
    uint64_t peak = bench_proc_kib("/proc/self/status", "VmHWM");
    bench_put_f64(r, "peak_rss_per_live", (double)peak * 1024 / (double)heap.peak_live);
}

void heap_put_series(bench_report *r)
{
    if (!r->json)
        return;
    bench_key(r, "series");
    bench_say(r, "[");
    for (unsigned i = 0; i < heap.moments; i++) {
        const struct moment *m = &heap.moment[i];
        bench_say(r, "%s[%llu, %llu, %llu]", i ? ", " : "", (unsigned long long)m->at, (unsigned long long)m->live_kib,
                  (unsigned long long)m->rss_kib);
    }
    bench_say(r, "]");
}
