/* M7, M11: measures fragmentation. Twelve traces use memory as real programs do, for example a cache, a browser or a compiler. Resident bytes
 * are compared with live bytes during the run, at the end of each part, and at the peak. A trace makes the same calls in each run, because its
 * random numbers have a fixed seed. */
#include "traces.h"

static struct {
    uint64_t percent;
    bench_rng rng;
} plan;

static const struct trace {
    const char *name;
    void (*run)(void);
} traces[] = {
#define ROW(name) {#name, trace_##name},
    TRACES(ROW)};

uint64_t trace_count(uint64_t n) { return n * plan.percent / 100 + 1; }
uint64_t trace_bytes(uint64_t mib) { return trace_count(mib << 20); }
uint64_t trace_pick(uint64_t n) { return bench_pick_high(bench_rng_next(&plan.rng), n); }
size_t trace_between(size_t low, size_t high) { return low + trace_pick(high - low + 1); }
bool trace_chance(unsigned percent) { return trace_pick(100) < percent; }
bool trace_is_full(const heap_table *t) { return sizeof *t + (t->count + 1) * sizeof(void *) > t->block.size; }

heap_link *trace_chain(heap_link *chain, size_t count, size_t low, size_t high)
{
    for (; count > 0; count--)
        chain = heap_chain(chain, trace_between(low, high));
    return chain;
}

void trace_add_within(heap_table *t, uint64_t budget, size_t size)
{
    while (heap_live() + size > budget || trace_is_full(t))
        heap_free(trace_take_any(t));
    t->at[t->count++] = heap_alloc(size);
}

void *trace_take_any(heap_table *t)
{
    if (t->count == 0)
        return NULL;
    uint64_t i = trace_pick(t->count);
    void *taken = t->at[i];
    t->at[i] = t->at[--t->count];
    return taken;
}

void trace_free_table(heap_table *t)
{
    while (t->count != 0)
        heap_free(t->at[--t->count]);
    heap_free(t);
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(
        argc, argv, "[drift|lru|pages|json|sqlite|mstress|redis|compiler|log_ring|matrix|sessions|strings [PERCENT]]");
    const struct trace *trace = bench_find("trace", traces, bench_arg_str(&args, 0, "drift"));
    plan.percent = bench_arg_in(&args, 1, 100, 1, 1000);
    plan.rng = bench_rng_seed(1);

    uint64_t idle_kib = bench_rss_kib();
    heap_watch_operations(256);
    bench_span span = bench_start();
    trace->run();
    span = bench_stop(span);
    heap_finish();

    bench_report *report = bench_report_begin(&args);
    bench_calls calls = heap_calls();
    bench_put_str(report, "trace", trace->name);
    bench_put_u64(report, "idle_rss_kib", idle_kib);
    heap_put_figures(report);
    heap_put_series(report);
    return bench_report_end(report, span, calls.mallocs + calls.frees + calls.reallocs, calls);
}
