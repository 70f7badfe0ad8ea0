/* M5, M6: measures how much memory the allocator returns after blocks were freed long ago, or by another thread.
 *   spike   allocates MIB MiB of small blocks, and frees 19 of 20 at random. The process then sleeps, and makes OPS more calls.
 *   remote  a second thread frees the blocks of the first one, the oldest first, and allocates nothing. The first thread waits for it, and then
 *           allocates again. The size of the blocks changes every eight bursts.
 * A live block keeps its pages resident. pinned_per_live is the size of the pages that the survivors of a spike keep, divided by the bytes of the
 * survivors. An allocator could return these pages only by moving blocks. The places of the series are milliseconds. */
#include "bench_heap.h"

#define CHAINS 4096u
#define KEPT_OF 20u /* one block in this number survives the spike */
#define WINDOW 1000u
#define STEP_MS 100u
#define BURSTS 112u

static struct {
    uint64_t bytes;
    size_t min, max;
    bench_rng rng;
    double began;
} plan;

static uint64_t pick(uint64_t n) { return bench_pick_high(bench_rng_next(&plan.rng), n); }
static size_t next_size(void) { return plan.min + pick(plan.max - plan.min + 1); }
static void sample_now(void) { heap_sample((uint64_t)((bench_now() - plan.began) * 1e3)); }

/* ---- spike ------------------------------------------------------------ */

static heap_link *chains[CHAINS];

static void thin(heap_link **chain)
{
    heap_link *kept = NULL;
    for (heap_link *link = *chain, *next; link != NULL; link = next) {
        next = link->next;
        if (pick(KEPT_OF) == 0) {
            link->next = kept;
            kept = link;
        } else {
            heap_free(link);
        }
    }
    *chain = kept;
}

static void go_on(uint64_t ops)
{
    heap_table *window = heap_new_table(WINDOW);
    for (uint64_t n = 0; n < ops / 2; n++) {
        void **place = &window->at[pick(WINDOW)];
        heap_free(*place);
        *place = heap_alloc(next_size());
        if (n % (ops / 40 + 1) == 0)
            sample_now();
    }
    heap_phase("worked");
    for (unsigned i = 0; i < WINDOW; i++)
        heap_free(window->at[i]);
    heap_free(window);
}

/* Returns the number of pages that contain a part of a survivor. Collects the pages in a hash set with at least four slots for each survivor. */
static uint64_t count_pages(void)
{
    size_t slots = 1024;
    while (slots < heap_live() / plan.min * 4)
        slots *= 2;
    uint64_t *set = bench_map(slots * sizeof *set), found = 0;
    for (unsigned i = 0; i < CHAINS; i++) {
        for (heap_link *link = chains[i]; link != NULL; link = link->next) {
            uint64_t last = ((uintptr_t)link + link->block.size - 1) / BENCH_PAGE;
            for (uint64_t page = (uintptr_t)link / BENCH_PAGE; page <= last; page++) {
                size_t at = bench_rng_seed(page).state & (slots - 1);
                while (set[at] != 0 && set[at] != page)
                    at = (at + 1) & (slots - 1);
                found += set[at] == 0;
                set[at] = page;
            }
        }
    }
    munmap(set, slots * sizeof *set);
    return found;
}

/* Returns the ratio of the bytes of the kept pages to the survivors' bytes. */
static double run_spike(double seconds, uint64_t ops)
{
    /* Each block joins a random chain, so the blocks of one chain lie at random places. */
    for (unsigned n = 0; heap_live() < plan.bytes; n++) {
        heap_link **chain = &chains[pick(CHAINS)];
        *chain = heap_chain(*chain, next_size());
        if (n % 65536 == 0)
            sample_now();
    }
    heap_phase("built");
    for (unsigned i = 0; i < CHAINS; i++)
        thin(&chains[i]);
    sample_now();
    heap_phase("freed");
    for (uint64_t step = 1, steps = (uint64_t)(seconds * 1000 / STEP_MS); step <= steps; step++) {
        bench_sleep(STEP_MS / 1e3);
        sample_now();
        if (step * STEP_MS == 2000)
            heap_phase("after_2s");
    }
    heap_phase("idle");
    go_on(ops);
    double pinned = (double)(count_pages() * BENCH_PAGE) / (double)heap_live();
    for (unsigned i = 0; i < CHAINS; i++)
        heap_free_chain(chains[i]);
    return pinned;
}

/* ---- remote ----------------------------------------------------------- */

static void free_oldest(void *ring)
{
    heap_trim(ring, plan.bytes);
    bench_sleep(0.01);
}

/* Returns the ratio of RSS to the bound of M6, which is 1.25 times the live bytes plus 4 MiB. */
static double to_bound(void)
{
    sample_now();
    return (double)bench_rss_kib() / (1.25 * (double)heap_live() / 1024 + 4096);
}

/* Returns the worst ratio of RSS to its bound, of all bursts and all waits. */
static double run_remote(void)
{
    heap_ring r = {NULL, NULL};
    double worst = 0;
    for (unsigned n = 0; n < BURSTS; n++) {
        size_t size = (size_t)32 << n / 8 % 7;
        while (heap_live() < plan.bytes + plan.bytes / 8)
            heap_append(&r, size / 2 + pick(size / 2 + 1));
        double awake = to_bound();
        heap_elsewhere(free_oldest, &r);
        double asleep = to_bound();
        worst = awake > worst ? awake : worst;
        worst = asleep > worst ? asleep : worst;
    }
    heap_phase("end");
    heap_free_chain(r.oldest);
    return worst;
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[spike|remote [MIB [MIN MAX [SECONDS [OPS]]]]]");
    const char *mode = bench_arg_str(&args, 0, "spike");
    bool remote = strcmp(mode, "remote") == 0;
    if (!remote && strcmp(mode, "spike") != 0)
        bench_die("MODE is spike or remote, not '%s'", mode);
    plan.bytes = bench_arg_in(&args, 1, remote ? 64 : 512, 1, 1u << 20) << 20;
    plan.min = bench_arg_in(&args, 2, 16, sizeof(heap_link), 1u << 30);
    plan.max = bench_arg_in(&args, 3, 256, plan.min, 1u << 30);
    double seconds = bench_arg_f64(&args, 4, 5);
    uint64_t ops = bench_arg_in(&args, 5, 1000000, 1, UINT32_MAX);
    plan.rng = bench_rng_seed(1);
    plan.began = bench_now();

    bench_span span = bench_start();
    double found = remote ? run_remote() : run_spike(seconds, ops);
    span = bench_stop(span);
    heap_finish();

    bench_report *report = bench_report_begin(&args);
    bench_calls calls = heap_calls();
    bench_put_str(report, "mode", mode);
    heap_put_figures(report);
    bench_put_f64(report, remote ? "rss_to_bound" : "pinned_per_live", found);
    heap_put_series(report);
    return bench_report_end(report, span, calls.mallocs + calls.frees, calls);
}
