/* P24: measures a heap whose blocks have the sizes and lifetimes of one of ten distributions from Google's fleet (fleet.def, README.md).
 *
 * First, MIB of blocks are allocated, in the proportions of the live blocks. Then EVENTS births and deaths are timed. A birth allocates a block of a
 * point, which is drawn by its share of the allocations. The size is drawn evenly among the sizes of the point. A death frees a random block of a point.
 * The mean lifetime of a point's blocks is their number, divided by the point's share of the births (Little's law). So the number varies only by chance.
 *
 * Events are drawn outside of the timed part, in batches. They are the same in each run, because the random numbers have a fixed seed. */
#include "bench_heap.h"

#define POINTS 16u
#define BATCH 8192u
#define MILLION 1e6

typedef struct point {
    uint32_t size, born, live;
} point;

static const struct profile {
    const char *name;
    point points[POINTS];
} profiles[] = {
#define PROFILE(name, ...) {#name, {__VA_ARGS__}},
#include "fleet.def"
};

typedef struct event {
    heap_table *blocks; /* of the point */
    uint32_t size;      /* 0 if a block dies */
    uint32_t place;     /* of the block that dies */
} event;

/* The live blocks of a point. */
static struct group {
    point point;
    uint32_t below;    /* all sizes are larger, unless the point's size is the same */
    uint32_t count;    /* of live blocks, after all events that were drawn */
    double death_rate; /* of one block, for MILLION births of all points */
    heap_table *blocks;
} groups[POINTS];

static event batch[BATCH];
static bench_rng rng;

static uint32_t pick(uint64_t n) { return (uint32_t)bench_pick_high(bench_rng_next(&rng), n); }

static unsigned pick_weighted(const double *weights, unsigned count)
{
    double sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += weights[i];
    unsigned picked = 0;
    for (double left = (double)(bench_rng_next(&rng) >> 11) * 0x1p-53 * sum;
         picked < count - 1 && left >= weights[picked]; picked++)
        left -= weights[picked];
    return picked;
}

static uint32_t draw_size(const struct group *g)
{
    uint32_t range = g->point.size - g->below;
    return (g->point.size - (range ? pick(range) : 0) + 7) / 8 * 8;
}

static event draw_event(void)
{
    double weights[2 * POINTS];
    for (unsigned i = 0; i < POINTS; i++) {
        weights[i] = groups[i].point.born;
        weights[POINTS + i] = groups[i].count * groups[i].death_rate;
    }
    unsigned picked = pick_weighted(weights, 2 * POINTS);
    struct group *g = &groups[picked % POINTS];
    if (picked >= POINTS)
        return (event){g->blocks, 0, pick(g->count--)};
    g->count++;
    return (event){g->blocks, draw_size(g), 0};
}

static void bear(heap_table *blocks, size_t size)
{
    if (sizeof *blocks + (blocks->count + 1) * sizeof(void *) > blocks->block.size)
        bench_die("more than %u blocks of a point are live", blocks->count);
    blocks->at[blocks->count++] = heap_alloc(size);
}

static void play(uint64_t count)
{
    for (const event *e = batch; e < batch + count; e++) {
        if (e->size != 0) {
            bear(e->blocks, e->size);
        } else {
            heap_free(e->blocks->at[e->place]);
            e->blocks->at[e->place] = e->blocks->at[--e->blocks->count];
        }
    }
}

static void fill(const point *points, uint64_t bytes)
{
    double mean_size = 0, missing[POINTS], all_missing = 0;
    for (unsigned i = 0; i < POINTS; i++) {
        groups[i] = (struct group){.point = points[i], .below = i ? points[i - 1].size : 0};
        mean_size += points[i].live / MILLION * (groups[i].below + points[i].size + 8) / 2; /* draw_size() rounds up */
    }
    for (unsigned i = 0; i < POINTS; i++) {
        double count = (double)bytes / mean_size * points[i].live / MILLION;
        groups[i].death_rate = count > 0 ? points[i].born / count : 0;
        groups[i].blocks = heap_new_table((uint32_t)(count * 1.25) + 64);
        all_missing += missing[i] = (uint32_t)(count + 0.5);
    }
    for (; all_missing > 0; all_missing--) {
        unsigned i = pick_weighted(missing, POINTS);
        missing[i]--;
        groups[i].count++;
        bear(groups[i].blocks, draw_size(&groups[i]));
    }
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[PROFILE (0-9) [EVENTS [MIB]]]");
    const struct profile *profile = bench_find("profile", profiles, bench_arg_str(&args, 0, "0"));
    uint64_t events = bench_arg_in(&args, 1, 4000000, 1, UINT32_MAX), mib = bench_arg_in(&args, 2, 64, 1, 16384);
    rng = bench_rng_seed(1);
    fill(profile->points, mib << 20);

    bench_span span = {0};
    for (uint64_t left = events, n; left > 0; left -= n) {
        n = left < BATCH ? left : BATCH;
        for (uint64_t i = 0; i < n; i++)
            batch[i] = draw_event();
        bench_span part = bench_start();
        play(n);
        span = bench_add(span, bench_stop(part));
    }
    heap_phase("churned");
    uint64_t live = heap_live();
    for (struct group *g = groups; g < groups + POINTS; heap_free((g++)->blocks))
        while (g->blocks->count != 0)
            heap_free(g->blocks->at[--g->blocks->count]);
    heap_finish();

    bench_report *report = bench_report_begin(&args);
    bench_put_str(report, "profile", profile->name);
    bench_put_u64(report, "live_kib", live / 1024);
    heap_put_figures(report);
    return bench_report_end(report, span, events, heap_calls());
}
