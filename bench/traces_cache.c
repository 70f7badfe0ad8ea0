/* Defines the traces that model caches, databases and a web server. */
#include "traces.h"

/* ---- lru -------------------------------------------------------------- */

typedef struct entry {
    heap_block block;
    uint32_t id;
    struct entry *newer, *older;
    void *key, *value;
} entry;

typedef struct lru {
    entry *newest, *oldest;
    heap_table *by_id;
} lru;

static void unlink_entry(lru *c, entry *e)
{
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void evict_oldest(lru *c)
{
    entry *e = c->oldest;
    unlink_entry(c, e);
    c->by_id->at[e->id] = NULL;
    heap_free(e->key);
    heap_free(e->value);
    heap_free(e);
}

static void look_up(lru *c, uint64_t budget, size_t value)
{
    uint64_t ids = c->by_id->count;
    uint32_t id = (uint32_t)(trace_chance(50) ? trace_pick(ids) : trace_pick(ids / 8 + 1));
    entry *e = c->by_id->at[id];
    if (e == NULL) {
        size_t size = trace_between(value * 3 / 4, value * 5 / 4);
        c->by_id->at[id] = e = heap_alloc(sizeof *e);
        e->id = id;
        e->key = heap_alloc(trace_between(16, 40));
        e->value = heap_alloc(size);
    } else {
        unlink_entry(c, e);
    }
    /* links the entry as the newest one */
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
    while (heap_live() > budget && c->oldest != c->newest)
        evict_oldest(c);
}

/* Models a cache with a limit in bytes, which removes the least recently used entry first. Its values grow from 150 to 1500 B, as if
 * new releases of a program stored more in each value. */
void trace_lru(void)
{
    static const char *const ends[] = {"150", "600", "1050", "1500"};
    lru c = {NULL, NULL, heap_new_table((uint32_t)trace_count(1500000))};
    c.by_id->count = (uint32_t)trace_count(1500000);
    uint64_t budget = trace_bytes(144), steps = trace_count(6000);
    for (unsigned part = 0; part < 4; part++) {
        for (uint64_t step = 0; step < steps; step++)
            for (unsigned n = 0; n < 200; n++)
                look_up(&c, budget, part == 0 ? 150 : 150 + 450 * (part - 1) + 450 * step / steps);
        heap_phase(ends[part]);
    }
    while (c.oldest != NULL)
        evict_oldest(&c);
    heap_free(c.by_id);
}

/* ---- redis ------------------------------------------------------------ */

typedef struct pair {
    heap_block block;
    void *key, *value;
} pair;

static void drop_pair(pair *p)
{
    heap_free(p->key);
    heap_free(p->value);
    heap_free(p);
}

/* Replaces the value, or resizes it. */
static void update(pair *p, size_t size)
{
    void *before = p->value;
    if (trace_chance(30)) {
        p->value = heap_resize(before, size);
    } else {
        p->value = heap_alloc(size);
        heap_free(before);
    }
}

static void add_pair(heap_table *t, size_t size)
{
    pair *p = heap_alloc(sizeof *p);
    p->key = heap_alloc(trace_between(12, 48));
    p->value = heap_alloc(size);
    t->at[t->count++] = p;
}

/* Models a key-value store. Each round updates as many values as there are keys. From round to round, the mean size grows by a third. If the
 * limit is exceeded, random keys are removed. After all rounds, four of five keys are deleted, and keys with small values are added. */
void trace_redis(void)
{
    uint64_t limit = trace_bytes(160);
    heap_table *t = heap_new_table((uint32_t)trace_count(700000));
    for (uint64_t i = trace_count(600000); i > 0; i--)
        add_pair(t, trace_between(64, 128));
    heap_phase("filled");
    for (size_t mean = 96; mean < 2000; mean += mean / 3) {
        for (uint64_t i = t->count; i > 0 && t->count > 1; i--) {
            update(t->at[trace_pick(t->count)], trace_between(mean * 2 / 3, mean * 4 / 3));
            while (heap_live() > limit)
                drop_pair(trace_take_any(t));
        }
    }
    heap_phase("updated");
    for (uint64_t i = t->count * UINT64_C(4) / 5; i > 0; i--)
        drop_pair(trace_take_any(t));
    heap_phase("deleted");
    while (heap_live() < limit && !trace_is_full(t))
        add_pair(t, trace_between(100, 300));
    heap_phase("refilled");
    while (t->count != 0)
        drop_pair(trace_take_any(t));
    heap_free(t);
}

/* ---- sqlite ----------------------------------------------------------- */

#define PAGE_HEADER 264u /* bytes of a page's header, which is in the same block as the page */

/* Models an SQL statement, which is parsed, run and dropped. Three of 100 statements sort records. */
static void run_statement(void)
{
    heap_link *parsed = trace_chain(NULL, trace_between(10, 80), 16, 500);
    if (trace_chance(3)) {
        heap_link *records = NULL;
        heap_block *keys = NULL;
        size_t last = (size_t)64 << trace_pick(14);
        for (size_t size = 64; size <= last; size *= 2) {
            keys = heap_resize(keys, size);
            records = trace_chain(records, size / 256, 50, 900);
        }
        heap_free(keys);
        heap_free_chain(records);
    }
    heap_free_chain(parsed);
}

static void query(heap_table *cache, uint64_t budget, size_t page, uint64_t count)
{
    for (; count > 0; count--) {
        run_statement();
        for (unsigned n = 0; n < 8; n++)
            trace_add_within(cache, budget + PAGE_HEADER, page + PAGE_HEADER); /* the new header does not count */
    }
}

/* Models a database with a page cache and statements. The database changes three times. First the pages become larger, then the cache gets less
 * memory. Finally the pages become small, and the cache gets its memory back. */
void trace_sqlite(void)
{
    uint64_t budget = trace_bytes(160), queries = trace_count(18000);
    heap_table *cache = heap_new_table((uint32_t)(budget / 1024));
    query(cache, budget, 4096, queries);
    heap_phase("4k");
    query(cache, budget, 8192, queries);
    heap_phase("8k");
    for (uint64_t i = cache->count * UINT64_C(3) / 4; i > 0; i--)
        heap_free(trace_take_any(cache));
    query(cache, budget / 4, 8192, queries / 4);
    heap_phase("cut");
    query(cache, budget, 1024, 3 * queries);
    heap_phase("1k");
    trace_free_table(cache);
}

/* ---- sessions --------------------------------------------------------- */

static heap_link *new_session(size_t attribute)
{
    heap_link *s = heap_chain(NULL, 200);
    s->next = trace_chain(NULL, trace_between(3, 24), attribute / 16, attribute);
    return s;
}

/* Models a request. Its buffers live as long as the request. The request adds an attribute to a session, and the attribute lives longer. */
static void serve_request(heap_table *open, size_t attribute)
{
    heap_link *buffers = heap_chain(NULL, trace_between(200, 4000));
    void *page = NULL;
    for (size_t size = 1024, last = (size_t)1024 << trace_pick(6); size <= last; size *= 2)
        page = heap_resize(page, size);
    heap_link *s = open->at[trace_pick(open->count)];
    s->next = trace_chain(s->next, 1, attribute / 16, attribute);
    heap_free(page);
    heap_free_chain(buffers);
}

static void pass_hours(heap_table *open, uint64_t sessions, size_t attribute)
{
    while (open->count > sessions)
        heap_free_chain(trace_take_any(open));
    for (uint64_t n = sessions; n > 0; n--) {
        if (open->count > 1 && (open->count >= sessions || trace_chance(30)))
            heap_free_chain(trace_take_any(open));
        open->at[open->count++] = new_session(attribute);
        serve_request(open, attribute);
    }
}

/* Models the days and nights of a web server. The sessions of each day hold more than those of the day before. At night, only a tenth of the
 * sessions remain. */
void trace_sessions(void)
{
    static const char *const ends[] = {"day_1", "night_1", "day_2", "night_2", "day_3", "night_3"};
    uint64_t most = trace_count(72000);
    heap_table *open = heap_new_table((uint32_t)most + 2);
    for (unsigned half = 0; half < 6; half++) {
        bool night = half % 2 != 0;
        size_t attribute = 128 + 64 * half;
        for (unsigned hour = 0; hour < 4; hour++)
            pass_hours(open, night ? most / 10 + 1 : most * (hour + 1) / 4 + 1, attribute);
        heap_phase(ends[half]);
    }
    while (open->count != 0)
        heap_free_chain(trace_take_any(open));
    heap_free(open);
}
