/* Defines the traces that do not model one program: block sizes that drift, buffers of a matrix library, mimalloc's stress test in two threads, and
 * log lines that another thread removes. */
#include "traces.h"

/* ---- drift ------------------------------------------------------------ */

static void replace_until(heap_table *t, uint64_t budget, uint64_t turnover, size_t mean)
{
    for (uint64_t done = 0; done < turnover;) {
        size_t size = trace_between(mean / 2, mean * 3 / 2);
        trace_add_within(t, budget, size);
        done += size;
    }
}

/* Models a heap that is always full. The mean size of new blocks grows from 64 B to 4 KiB, and then shrinks again. So freed blocks rarely
 * have the size that is requested next. */
void trace_drift(void)
{
    uint64_t budget = trace_bytes(80);
    heap_table *t = heap_new_table((uint32_t)(budget / 72));
    replace_until(t, budget, budget, 64);
    heap_phase("begun");
    for (unsigned way = 0; way < 2; way++) {
        for (unsigned step = 0; step <= 24; step++) {
            unsigned at = way == 0 ? step : 24 - step;
            size_t octave = (size_t)64 << at / 4;
            replace_until(t, budget, budget / 2, octave + octave / 4 * (at % 4));
        }
        heap_phase(way == 0 ? "grown" : "shrunk");
    }
    trace_free_table(t);
}

/* ---- matrix ----------------------------------------------------------- */

typedef struct matrix {
    heap_block block;
    uint32_t rows;
    void *numbers, *pivots;
} matrix;

static matrix *new_matrix(size_t rows)
{
    matrix *m = heap_alloc(sizeof *m);
    m->rows = (uint32_t)rows;
    m->numbers = heap_alloc(rows * rows * 8);
    m->pivots = heap_alloc(rows * 8);
    return m;
}

static void free_matrix(matrix *m)
{
    heap_free(m->numbers);
    heap_free(m->pivots);
    heap_free(m);
}

/* Computes one expression: its result is kept, and its three temporary matrices are freed. */
static void compute(heap_table *kept, uint64_t budget, size_t low, size_t high)
{
    size_t rows = trace_between(low, high);
    matrix *temporary[3];
    for (unsigned i = 0; i < 3; i++)
        temporary[i] = new_matrix(trace_between(rows / 2, rows));
    while (heap_live() + rows * rows * 8 > budget || trace_is_full(kept))
        free_matrix(trace_take_any(kept));
    kept->at[kept->count++] = new_matrix(rows);
    for (unsigned i = 0; i < 3; i++)
        free_matrix(temporary[i]);
}

/* Uses buffers of 8 KiB to 8 MiB: first small ones, then large ones, then all sizes. */
void trace_matrix(void)
{
    static const struct {
        const char *name;
        size_t low, high;
        uint64_t count;
    } parts[] = {{"small", 32, 256, 6000}, {"large", 256, 1000, 400}, {"all", 32, 1000, 800}};
    uint64_t budget = trace_bytes(240) + (40u << 20); /* is always enough for a few of the largest matrices */
    heap_table *kept = heap_new_table(4096);
    for (unsigned i = 0; i < 3; i++) {
        for (uint64_t n = trace_count(parts[i].count); n > 0; n--)
            compute(kept, budget, parts[i].low, parts[i].high);
        heap_phase(parts[i].name);
    }
    while (kept->count != 0)
        free_matrix(trace_take_any(kept));
    heap_free(kept);
}

/* ---- mstress ---------------------------------------------------------- */

typedef struct worker {
    heap_table *own, *shared; /* empty places of `shared` are NULL */
    uint64_t items;
} worker;

/* Returns a size that is mostly small. Sizes that are ten times larger are about ten times rarer. */
static size_t power_law_size(void)
{
    size_t size = trace_between(1, 64) * 8;
    uint64_t draw = trace_pick(10000);
    return draw < 1 ? size * 1000 : draw < 10 ? size * 100 : draw < 100 ? size * 10 : size;
}

static void work_a_round(void *arg)
{
    worker *w = arg;
    for (uint64_t i = 0; i < w->items; i++) {
        if (trace_is_full(w->own))
            heap_free(trace_take_any(w->own));
        void *block = heap_alloc(power_law_size());
        if (trace_chance(25)) { /* exchanges the block for a random one of the shared table */
            void **theirs = &w->shared->at[trace_pick(w->shared->count)], *taken = *theirs;
            *theirs = block;
            block = taken;
        }
        w->own->at[w->own->count++] = block;
        if (trace_chance(45))
            heap_free(trace_take_any(w->own));
    }
    for (uint64_t i = w->items / 2; i > 0; i--)
        heap_free(trace_take_any(w->own));
}

/* Runs two threads in turns. Each thread frees blocks that the other one allocated. */
void trace_mstress(void)
{
    heap_table *shared = heap_new_table((uint32_t)trace_count(150000));
    shared->count = (uint32_t)trace_count(150000);
    worker w[2];
    for (unsigned i = 0; i < 2; i++)
        w[i] = (worker){heap_new_table((uint32_t)trace_count(100000)), shared, trace_count(60000)};
    for (unsigned round = 0; round < 40; round++) {
        work_a_round(&w[0]);
        heap_elsewhere(work_a_round, &w[1]);
        if (round == 19 || round == 39)
            heap_phase(round == 19 ? "begun" : "steady");
    }
    trace_free_table(shared);
    trace_free_table(w[0].own);
    trace_free_table(w[1].own);
}

/* ---- log ring --------------------------------------------------------- */

static void take_away(void *ring) { heap_trim(ring, trace_bytes(128)); }

/* Models a program that keeps the newest lines of its log. One thread writes lines, and another one removes the oldest. Incidents bring stack
 * traces and longer lines. */
void trace_log_ring(void)
{
    static const struct {
        const char *name;
        size_t high;
        unsigned traces;
    } parts[] = {{"calm", 400, 0}, {"incident", 900, 30}, {"after", 500, 0}, {"again", 1200, 10}, {"end", 400, 0}};
    heap_ring r = {NULL, NULL};
    for (unsigned i = 0; i < 5; i++) {
        for (uint64_t written = 0; written < 3 * trace_bytes(128);) {
            for (unsigned n = 0; n < 1000; n++) {
                size_t size =
                    trace_chance(parts[i].traces) ? trace_between(2000, 6000) : trace_between(60, parts[i].high);
                heap_append(&r, size);
                written += size;
            }
            heap_elsewhere(take_away, &r);
        }
        heap_phase(parts[i].name);
    }
    heap_free_chain(r.oldest);
}
