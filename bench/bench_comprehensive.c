/* B8: runs 24 short patterns on small blocks.
 *   lifo_S fifo_S random_S  allocates a batch of 100 blocks of S bytes, and frees them in that order; S is 16, 32, 64, 128, 256, 512 or 1024
 *   interleaved             allocates blocks of 32, 128 and 512 B in turns; before each allocation, frees the block of eight allocations before
 *   lived                   allocates 16 blocks, replaces the oldest of 4096 blocks with one of them, and frees the other 15 at once
 *   mixed                   does the same as random_S, but each block has a random one of the seven sizes
 * One operation is a malloc and a free. */
#include "bench_patterns.h"

#define BATCH 100u
#define ORDERS 64u /* random orders, which are made before the measurement */
#define NEAR 8u
#define FLOCK 16u
#define OLD 4096u

/* The orders in which batches are freed. Batch i is freed in order i modulo `count`. */
typedef struct orders {
    uint64_t count; /* a power of two */
    uint8_t turn[ORDERS][BATCH];
} orders;

static void *block[BATCH];
static orders lifo = {.count = 1}, fifo = {.count = 1}, shuffled = {.count = ORDERS};

static void make_orders(void)
{
    for (size_t k = 0; k < BATCH; k++) {
        fifo.turn[0][k] = (uint8_t)k;
        lifo.turn[0][k] = (uint8_t)(BATCH - 1 - k);
    }
    bench_rng rng = bench_rng_seed(1);
    for (size_t i = 0; i < ORDERS; i++) {
        for (size_t k = 0; k < BATCH; k++) {
            size_t j = bench_pick_high(bench_rng_next(&rng), k + 1);
            shuffled.turn[i][k] = shuffled.turn[i][j];
            shuffled.turn[i][j] = (uint8_t)k;
        }
    }
}

static void free_in(const orders *o, uint64_t i)
{
    const uint8_t *turn = o->turn[i & (o->count - 1)];
    for (size_t k = 0; k < BATCH; k++)
        free(block[turn[k]]);
}

static uint64_t count_pairs(uint64_t pairs, bench_calls *calls)
{
    calls->mallocs += pairs;
    calls->frees += pairs;
    return pairs;
}

static uint64_t run_ordered(const bench_pattern *p, uint64_t n, bench_calls *calls)
{
    const orders *o = p->detail;
    uint64_t batches = n / BATCH + 1;
    for (uint64_t i = 0; i < batches; i++) {
        for (size_t k = 0; k < BATCH; k++)
            block[k] = bench_alloc(p->size);
        free_in(o, i);
    }
    return count_pairs(batches * BATCH, calls);
}

static uint64_t run_interleaved(const bench_pattern *p, uint64_t n, bench_calls *calls)
{
    (void)p;
    static const size_t turns[] = {32, 128, 512};
    void *near[NEAR];
    for (uint64_t i = 0; i < NEAR; i++)
        near[i] = bench_alloc(turns[i % 3]);
    for (uint64_t i = 0; i < n; i++) {
        free(near[i % NEAR]);
        near[i % NEAR] = bench_alloc(turns[i % 3]);
    }
    for (uint64_t i = 0; i < NEAR; i++)
        free(near[i]);
    return count_pairs(n + NEAR, calls);
}

static size_t any_size(bench_rng *rng) { return (size_t)16 << bench_pick_high(bench_rng_next(rng), 7); }

static void live_shortly(bench_rng *rng, void **oldest)
{
    void *flock[FLOCK];
    for (size_t k = 0; k < FLOCK; k++)
        flock[k] = bench_alloc(any_size(rng));
    free(*oldest);
    *oldest = flock[0];
    for (size_t k = FLOCK; k-- > 1;)
        free(flock[k]);
}

static uint64_t run_lived(const bench_pattern *p, uint64_t n, bench_calls *calls)
{
    (void)p;
    static void *old[OLD];
    bench_rng rng = bench_rng_seed(3);
    for (size_t i = 0; i < OLD; i++)
        old[i] = bench_alloc(any_size(&rng));
    uint64_t flocks = n / FLOCK + 1;
    for (uint64_t i = 0; i < flocks; i++)
        live_shortly(&rng, &old[i % OLD]);
    for (size_t i = 0; i < OLD; i++)
        free(old[i]);
    return count_pairs(flocks * FLOCK + OLD, calls);
}

static uint64_t run_mixed(const bench_pattern *p, uint64_t n, bench_calls *calls)
{
    (void)p;
    bench_rng rng = bench_rng_seed(2);
    uint64_t batches = n / BATCH + 1;
    for (uint64_t i = 0; i < batches; i++) {
        for (size_t k = 0; k < BATCH; k++)
            block[k] = bench_alloc(any_size(&rng));
        free_in(&shuffled, i);
    }
    return count_pairs(batches * BATCH, calls);
}

/* clang-format off */
#define ORDERED(size)                             \
    {"lifo_" #size, run_ordered, 1, size, &lifo}, \
    {"fifo_" #size, run_ordered, 1, size, &fifo}, \
    {"random_" #size, run_ordered, 1, size, &shuffled}
/* clang-format on */

static const bench_pattern patterns[] = {
    ORDERED(16),
    ORDERED(32),
    ORDERED(64),
    ORDERED(128),
    ORDERED(256),
    ORDERED(512),
    ORDERED(1024),
    {"interleaved", run_interleaved, 1, 0, NULL},
    {"lived", run_lived, 1, 0, NULL},
    {"mixed", run_mixed, 1, 0, NULL},
};

int main(int argc, char **argv)
{
    make_orders();
    return bench_patterns_main(argc, argv, (bench_patterns){patterns, sizeof patterns / sizeof *patterns, 1000000});
}
