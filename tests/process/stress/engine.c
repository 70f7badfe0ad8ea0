#include "engine.h"

#include "support/check.h"
#include "support/heap.h"
#include "support/pattern.h"
#include "support/rng.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { SLOTS = 600, CELLS = 256 };

struct block {
    void *p;
    size_t size;
    uint64_t seed;
};

struct worker {
    const struct engine_plan *plan;
    struct rng rng;
    uint64_t next_seed;
    struct block *table; /* an array of SLOTS blocks */
};

/* One worker at a time owns a cell. A worker that finds the cell taken skips it. */
struct cell {
    atomic_flag x_taken;
    struct block block;
};

static struct cell exchange[CELLS];
static struct block tables[ENGINE_THREADS][SLOTS];

static size_t draw_size(struct worker *w)
{
    static const uint32_t bound[] = {64, 128, 128, 512, 1024, 1024, 4096, 16384};
    uint32_t draw = rng_below(&w->rng, 1000);
    size_t size;
    if (draw < 1) {
        size = rng_below(&w->rng, 4u << 20);
    } else if (draw < 8) {
        size = rng_below(&w->rng, 512u << 10);
    } else if (draw < 40) {
        size = rng_below(&w->rng, 64u << 10);
    } else {
        size = rng_below(&w->rng, bound[draw % 8]);
    }
    return size <= w->plan->largest ? size : size % (w->plan->largest + 1);
}

static void allocate(struct worker *w, struct block *b)
{
    size_t alignment = 16;
    uint32_t kind = rng_below(&w->rng, 16);
    b->size = draw_size(w);
    b->seed = w->next_seed;
    w->next_seed += 1u << 20; /* so that no two blocks of a run share a word of their patterns */
    if (kind < 10) {
        b->p = heap_malloc(b->size);
    } else if (kind < 13) {
        b->p = heap_calloc(1, b->size);
        CHECK(!b->p || all_zero(b->p, b->size), "calloc of %zu bytes at %p is not zero", b->size, b->p);
    } else if (kind < 15) {
        alignment = (size_t)16 << rng_below(&w->rng, 9);
        b->p = heap_memalign(alignment, b->size);
    } else {
        b->p = heap_realloc(NULL, b->size);
    }
    CHECK(b->p != NULL, "no block of %zu bytes", b->size);
    CHECK((uintptr_t)b->p % alignment == 0, "%p is not aligned to %zu", b->p, alignment);
    if (b->p) {
        pattern_fill(b->p, b->size, b->seed);
    }
}

static void check_contents(const struct block *b)
{
    CHECK(pattern_holds(b->p, b->size, b->seed), "block %p of %zu bytes was changed", b->p, b->size);
}

static void release(struct block *b)
{
    if (b->p) {
        check_contents(b);
        heap_free(b->p);
    }
    b->p = NULL;
}

static void resize(struct worker *w, struct block *b)
{
    size_t size = draw_size(w) + 1;
    check_contents(b);
    void *p = heap_realloc(b->p, size);
    CHECK(p != NULL, "realloc of %zu to %zu bytes", b->size, size);
    if (!p) {
        return;
    }
    size_t kept = size < b->size ? size : b->size;
    CHECK(pattern_holds(p, kept, b->seed), "realloc of %zu to %zu bytes lost some", b->size, size);
    CHECK(heap_usable_size(p) >= size, "realloc to %zu bytes can hold %zu", size, heap_usable_size(p));
    pattern_fill_range(p, kept, size, b->seed);
    b->p = p;
    b->size = size;
}

static void swap_with_exchange(struct worker *w, struct block *b)
{
    struct cell *cell = &exchange[rng_below(&w->rng, CELLS)];
    if (atomic_flag_test_and_set_explicit(&cell->x_taken, memory_order_acquire)) {
        return;
    }
    struct block other = cell->block;
    cell->block = *b;
    *b = other;
    atomic_flag_clear_explicit(&cell->x_taken, memory_order_release);
}

static void step(struct worker *w)
{
    struct block *b = &w->table[rng_below(&w->rng, SLOTS)];
    uint32_t draw = rng_below(&w->rng, 100);
    if (draw < 12) {
        swap_with_exchange(w, b);
    } else if (!b->p) {
        allocate(w, b);
    } else if (draw < 24) {
        resize(w, b);
    } else {
        release(b);
    }
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    for (uint64_t i = 0; i < w->plan->steps; i++) {
        step(w);
    }
    check_thread_done();
    return NULL;
}

static uint64_t run_generation(const struct engine_plan *plan, unsigned generation)
{
    static struct worker workers[ENGINE_THREADS];
    pthread_t threads[ENGINE_THREADS];
    for (unsigned t = 0; t < plan->threads; t++) {
        uint64_t seed = (plan->seed * 1000 + generation) * ENGINE_THREADS + t;
        unsigned inherited = (t + generation) % plan->threads;
        workers[t] = (struct worker){plan, rng_seeded(seed), seed << 40, tables[inherited]};
    }
    /* If the plan has one thread, the steps run in the main thread. */
    if (plan->threads == 1) {
        worker_main(&workers[0]);
        return plan->steps;
    }
    unsigned started = 0;
    while (started < plan->threads && pthread_create(&threads[started], NULL, worker_main, &workers[started]) == 0) {
        started++;
    }
    CHECK(started == plan->threads, "only %u of %u threads started", started, plan->threads);
    for (unsigned t = 0; t < started; t++) {
        pthread_join(threads[t], NULL);
    }
    return started * plan->steps;
}

uint64_t engine_run(const struct engine_plan *plan)
{
    uint64_t steps = 0;
    for (unsigned generation = 0; generation < plan->generations; generation++) {
        steps += run_generation(plan, generation);
    }
    for (unsigned t = 0; t < plan->threads; t++) {
        for (unsigned i = 0; i < SLOTS; i++) {
            release(&tables[t][i]);
        }
    }
    for (unsigned i = 0; i < CELLS; i++) {
        release(&exchange[i].block);
    }
    return steps;
}
