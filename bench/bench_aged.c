/* P23: measures an aged heap. A search tree of records is loaded, and churned until ten times its blocks were allocated. A record is a block of 48 to
 * 176 bytes with a list of one to seven blocks of 24 to 791 bytes (one of 64 has 1 to 8 KiB). A step of the churn searches the record after a random key.
 * Half of the steps replace the record and its list by one with another key. The others replace one block of its list.
 *
 * A traversal visits the records in the order of their keys, each with its list, and reads a word of each cache line. It is fast if the blocks of a list
 * are neighbors in memory, and if the pages are dense. It is timed before the churn (fresh_ns_per_block) and after it (traverse_ns_per_block). ns_per_op
 * is the time of a malloc or free during the churn, with its share of the searches. */
#include "bench_heap.h"

#define LIVES 10u
#define PASSES 10u
#define LINE 64u

typedef struct record {
    heap_block block;
    uint32_t links;
    uint64_t key;
    struct record *less, *more; /* of lower rank than the record */
    heap_link *list;
} record;

static record *root; /* of a treap */
static bench_rng rng;

static uint64_t pick(uint64_t n) { return bench_pick_high(bench_rng_next(&rng), n); }
static uint64_t rank(const record *r) { return bench_rng_seed(r->key).state; }

static void insert(record *added)
{
    record **at = &root, **less = &added->less, **more = &added->more;
    while (*at != NULL && rank(*at) > rank(added))
        at = added->key < (*at)->key ? &(*at)->less : &(*at)->more;
    record *rest = *at;
    *at = added;
    while (rest != NULL) { /* splits the records below into those of smaller and of larger keys */
        bool is_less = rest->key < added->key;
        record ***side = is_less ? &less : &more;
        **side = rest;
        *side = is_less ? &rest->more : &rest->less;
        rest = **side;
    }
    *less = *more = NULL;
}

/* Returns the place of the first record whose key is at least `key`, or of the root. */
static record **find(uint64_t key)
{
    record **found = &root;
    for (record **at = &root; *at != NULL;) {
        bool reached = (*at)->key >= key;
        found = reached ? at : found;
        at = reached ? &(*at)->less : &(*at)->more;
    }
    return found;
}

static record *take(record **at)
{
    record *taken = *at, *less = taken->less, *more = taken->more;
    while (less != NULL && more != NULL) {
        bool is_less = rank(less) > rank(more);
        *at = is_less ? less : more;
        at = is_less ? &less->more : &more->less;
        *(is_less ? &less : &more) = *at;
    }
    *at = less != NULL ? less : more;
    return taken;
}

static size_t link_size(void) { return pick(64) == 0 ? 1024 + pick(7169) : 24 + pick((uint64_t)24 << pick(6)); }

static void add_record(void)
{
    record *r = heap_alloc(sizeof *r + pick(129));
    *r = (record){.block = r->block, .links = 1 + (uint32_t)pick(7), .key = bench_rng_next(&rng)};
    for (uint32_t i = 0; i < r->links; i++)
        r->list = heap_chain(r->list, link_size());
    insert(r);
}

static void drop_record(record *r)
{
    heap_free_chain(r->list);
    heap_free(r);
}

static void replace_link(record *r)
{
    heap_link **place = &r->list;
    for (uint64_t i = pick(r->links); i > 0; i--)
        place = &(*place)->next;
    heap_link *old = *place;
    *place = heap_chain(old->next, link_size());
    heap_free(old);
}

static void churn(uint64_t blocks)
{
    for (uint64_t end = heap_calls().mallocs + blocks; heap_calls().mallocs < end;) {
        record **at = find(bench_rng_next(&rng));
        if (pick(2) == 0) {
            replace_link(*at);
        } else {
            drop_record(take(at));
            add_record();
        }
    }
}

static struct {
    uint64_t blocks, key;
    volatile uint32_t word;
} seen;

static void read_block(const heap_block *block)
{
    uint32_t sum = 0;
    for (const heap_block *word = block; word < block + block->size / sizeof *word; word += LINE / sizeof *word)
        sum += word->size;
    seen.word = sum;
    seen.blocks++;
}

static void visit(const record *r)
{
    for (; r != NULL; r = r->more) {
        visit(r->less);
        if (r->key < seen.key)
            bench_die("the keys are not in order");
        seen.key = r->key;
        read_block(&r->block);
        for (const heap_link *link = r->list; link != NULL; link = link->next)
            read_block(&link->block);
    }
}

/* Returns the time of a block. */
static bench_span traverse(uint64_t blocks)
{
    bench_span span = bench_start();
    for (unsigned pass = 0; pass < PASSES; pass++) {
        seen.key = seen.blocks = 0;
        visit(root);
        if (seen.blocks != blocks)
            bench_die("%llu blocks were seen instead of %llu", (unsigned long long)seen.blocks,
                      (unsigned long long)blocks);
    }
    span = bench_stop(span);
    double n = (double)(blocks * PASSES);
    return (bench_span){span.seconds / n, span.cpu_seconds / n, span.faults};
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[BLOCKS]");
    uint64_t blocks = bench_arg_in(&args, 0, 400000, 100, 100000000);
    rng = bench_rng_seed(1);
    while (heap_calls().mallocs < blocks)
        add_record();
    bench_calls load = heap_calls();
    bench_span fresh = traverse(load.mallocs), span = bench_start();
    churn(LIVES * load.mallocs);
    span = bench_stop(span);
    bench_calls calls = heap_calls();
    uint64_t live = calls.mallocs - calls.frees, live_kib = heap_live() / 1024;
    heap_phase("aged");
    bench_span aged = traverse(live);
    while (root != NULL)
        drop_record(take(&root));
    heap_finish();

    bench_report *report = bench_report_begin(&args);
    bench_put_u64(report, "live_blocks", live);
    bench_put_u64(report, "live_kib", live_kib);
    bench_put_f64(report, "fresh_ns_per_block", fresh.seconds * 1e9);
    bench_put_f64(report, "traverse_ns_per_block", aged.seconds * 1e9);
    bench_put_f64(report, "cpu_traverse_ns_per_block", aged.cpu_seconds * 1e9);
    heap_put_figures(report);
    return bench_report_end(report, span, calls.mallocs + calls.frees - load.mallocs, heap_calls());
}
