/* Defines the traces of programs that build structures and free them as a whole: a browser, a JSON service, a compiler, and the strings of an
 * interpreter. */
#include "traces.h"

/* ---- pages ------------------------------------------------------------ */

#define TABS 6u

static size_t page_object_size(void)
{
    uint64_t draw = trace_pick(1000);
    return draw < 620   ? trace_between(16, 128)
           : draw < 920 ? trace_between(128, 1024)
           : draw < 992 ? trace_between(1024, 16384)
                        : trace_between(16384, 262144);
}

static heap_link *load_page(uint64_t objects, heap_table *cache, uint64_t *turn)
{
    void *body = NULL;
    heap_link *page = NULL;
    size_t received = 2048, last = (size_t)4096 << trace_pick(9);
    for (uint64_t n = 0; n < objects; n++) {
        if (n % 256 == 0 && received < last)
            body = heap_resize(body, received *= 2);
        page = heap_chain(page, page_object_size());
        if (n % 32 == 0) { /* puts an object of the page into the cache, in place of the oldest one */
            void **place = &cache->at[(*turn)++ % cache->count];
            heap_free(*place);
            *place = heap_alloc(page_object_size() % 16384 + 16);
        }
    }
    heap_free(body);
    return page;
}

/* Models a browser with six tabs. Each load replaces the page of a tab, and pages become larger. The objects that the cache keeps are scattered
 * among those of the pages. */
void trace_pages(void)
{
    static const char *const ends[] = {"light", "usual", "heavy"};
    heap_table *cache = heap_new_table((uint32_t)trace_count(12000));
    cache->count = (uint32_t)trace_count(12000);
    heap_link *tab[TABS] = {NULL};
    uint64_t turn = 0;
    for (unsigned part = 0; part < 3; part++) {
        for (unsigned load = 0; load < 100; load++) {
            unsigned at = (unsigned)trace_pick(TABS);
            heap_free_chain(tab[at]);
            tab[at] = load_page(trace_between(trace_count(2000), trace_count(8000 + 8000 * part)), cache, &turn);
        }
        heap_phase(ends[part]);
    }
    for (unsigned at = 0; at < TABS; at++)
        heap_free_chain(tab[at]);
    trace_free_table(cache);
}

/* ---- json ------------------------------------------------------------- */

typedef struct node {
    heap_block block;
    heap_table *kids; /* grows by realloc; it is NULL in a leaf */
    void *key, *text;
} node;

static void add_kid(node *parent, node *kid)
{
    heap_table *kids = parent->kids;
    if (kids == NULL)
        kids = heap_new_table(4);
    else if (trace_is_full(kids))
        kids = heap_resize(kids, sizeof *kids + 2 * kids->count * sizeof(void *));
    kids->at[kids->count++] = kid;
    parent->kids = kids;
}

static node *parse(uint64_t nodes)
{
    node *n = heap_alloc(sizeof *n);
    *n = (node){.block = n->block};
    n->key = heap_alloc(trace_between(6, 24));
    if (nodes <= 1)
        n->text = heap_alloc(trace_chance(2) ? trace_between(200, 3000) : trace_between(4, 60));
    for (uint64_t left = nodes - 1; left > 0;) {
        uint64_t part = trace_pick(left / 2 + 1) + 1;
        add_kid(n, parse(part));
        left -= part;
    }
    return n;
}

static void drop(node *n)
{
    for (uint32_t i = 0; n->kids != NULL && i < n->kids->count; i++)
        drop(n->kids->at[i]);
    heap_free(n->kids);
    heap_free(n->key);
    heap_free(n->text);
    heap_free(n);
}

/* Models a JSON service. A document is received as text in a buffer that grows. It is then parsed, and kept until a later one replaces it. At
 * first 90 documents are kept, then 20, then 90 again. */
void trace_json(void)
{
    static const struct {
        const char *name;
        uint32_t kept;
    } parts[] = {{"many", 90}, {"few", 20}, {"again", 90}};
    heap_table *documents = heap_new_table(90);
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned n = 0; n < 180; n++) {
            uint64_t nodes = trace_between(trace_count(2000), trace_count(22000));
            void *text = NULL;
            for (size_t size = 4096; size < nodes * 60; size *= 2)
                text = heap_resize(text, size);
            while (documents->count >= parts[i].kept)
                drop(trace_take_any(documents));
            documents->at[documents->count++] = parse(nodes);
            heap_free(text);
        }
        heap_phase(parts[i].name);
    }
    while (documents->count != 0)
        drop(trace_take_any(documents));
    heap_free(documents);
}

/* ---- compiler --------------------------------------------------------- */

/* Returns an arena of this many bytes, whose chunks become larger. The caller frees it as a whole. */
static heap_link *fill_arena(uint64_t bytes)
{
    heap_link *arena = NULL;
    for (size_t chunk = 4096; bytes > 0; bytes -= bytes < chunk ? bytes : chunk) {
        arena = heap_chain(arena, chunk);
        chunk = chunk < 65536 ? chunk * 2 : chunk;
    }
    return arena;
}

static void compile_function(heap_table *symbols, heap_link **tree, heap_link **summary)
{
    *tree = trace_chain(*tree, trace_between(200, 3000), 24, 160);
    heap_link *arena = fill_arena(trace_between(16u << 10, 2u << 20));
    for (unsigned n = (unsigned)trace_between(10, 60); n > 0 && !trace_is_full(symbols); n--)
        symbols->at[symbols->count++] = heap_alloc(trace_between(20, 90));
    *summary = trace_chain(*summary, trace_between(10, 150), 48, 400);
    heap_free_chain(arena);
}

/* Models a compilation unit. Its trees and symbols are freed at its end, but its summary is kept for the link. */
static void compile_unit(heap_link **summary)
{
    heap_table *symbols = heap_new_table(512);
    heap_link *tree = NULL;
    for (unsigned n = (unsigned)trace_between(20, 260); n > 0; n--) {
        compile_function(symbols, &tree, summary);
        if (trace_is_full(symbols))
            symbols = heap_resize(symbols, sizeof *symbols + 2 * symbols->count * sizeof(void *));
    }
    heap_free_chain(tree);
    trace_free_table(symbols);
}

/* Models a compiler that compiles many units, one after the other, and then the whole program. To compile the whole program, it builds a graph of
 * larger nodes while the summaries are live, and uses an arena for each part of the program. */
void trace_compiler(void)
{
    heap_link *summary = NULL, *graph = NULL;
    for (uint64_t n = trace_count(30); n > 0; n--)
        compile_unit(&summary);
    heap_phase("units");
    for (uint64_t part = trace_count(40); part > 0; part--) {
        heap_link *arena = fill_arena(trace_between(1u << 20, 12u << 20));
        graph = trace_chain(graph, 5000, 160, 1000);
        heap_free_chain(arena);
    }
    heap_phase("graph");
    heap_free_chain(summary);
    for (uint64_t n = trace_count(40); n > 0; n--)
        heap_free_chain(fill_arena(trace_between(1u << 20, 12u << 20)));
    heap_phase("output");
    heap_free_chain(graph);
}

/* ---- strings ---------------------------------------------------------- */

/* Adds a string to the table, and returns the table. If three of four slots are used, the table is replaced with one of twice the size. */
static heap_table *add_string(heap_table *t, size_t size)
{
    if (t->count >= (t->block.size - sizeof *t) / sizeof(void *) / 4 * 3) {
        heap_table *larger = heap_new_table(2 * t->count);
        memcpy(larger->at, t->at, t->count * sizeof(void *));
        larger->count = t->count;
        heap_free(t);
        t = larger;
    }
    t->at[t->count++] = heap_alloc(size);
    return t;
}

/* Models the interned strings of an interpreter. Its collector frees two of three strings at random. After the first and the second collection,
 * the program adds longer strings. */
void trace_strings(void)
{
    static const char *const ends[] = {"first", "swept_1", "second", "swept_2", "third", "swept_3"};
    heap_table *t = heap_new_table(1024);
    uint64_t limit = trace_bytes(136);
    for (unsigned generation = 0; generation < 3; generation++) {
        while (heap_live() < limit)
            t = add_string(t, trace_between(24, 88 + 64 * generation));
        heap_phase(ends[2 * generation]);
        for (uint64_t n = t->count * UINT64_C(2) / 3; n > 0; n--)
            heap_free(trace_take_any(t));
        heap_phase(ends[2 * generation + 1]);
    }
    trace_free_table(t);
}
