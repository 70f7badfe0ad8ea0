/* B5: does what parts of real programs do: it allocates memory, writes to it, and frees it.
 *   string-builder  grows a string from 8 to 64 bytes by three reallocs, each of which doubles the size
 *   json            uses a buffer of 64 KiB
 *   mir             uses a buffer of 256 KiB
 *   vm              uses a buffer of 2 MiB
 *   mixed           does all four, mostly strings
 * Each page of a buffer is written once. One operation is one string or one buffer. */
#include "bench_common.h"

static bench_calls calls;

static void build_string(void)
{
    char *text = bench_alloc(8);
    for (size_t size = 16; size <= 64; size *= 2) {
        text = bench_expect(realloc(text, size), size);
        *(volatile char *)(text + size - 1) = (char)size;
    }
    free(text);
    calls.mallocs++;
    calls.reallocs += 3;
    calls.frees++;
}

static void use_buffer(size_t size)
{
    void *buffer = bench_alloc(size);
    bench_touch_pages(buffer, size);
    free(buffer);
    calls.mallocs++;
    calls.frees++;
}

static void run_strings(uint64_t n, size_t unused)
{
    (void)unused;
    for (uint64_t i = 0; i < n; i++)
        build_string();
}

static void run_buffers(uint64_t n, size_t size)
{
    for (uint64_t i = 0; i < n; i++)
        use_buffer(size);
}

static void run_mixed(uint64_t n, size_t unused)
{
    (void)unused;
    bench_rng rng = bench_rng_seed(7);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t draw = bench_pick_high(bench_rng_next(&rng), 1000);
        if (draw < 900)
            build_string();
        else
            use_buffer(draw < 980 ? 64u << 10 : draw < 997 ? 256u << 10 : 2u << 20);
    }
}

static const struct scenario {
    const char *name;
    void (*run)(uint64_t n, size_t size);
    size_t size;
    uint64_t iterations;
} scenarios[] = {
    {"string-builder", run_strings, 0, 5000000},
    {"json", run_buffers, 64u << 10, 2000000},
    {"mir", run_buffers, 256u << 10, 300000},
    {"vm", run_buffers, 2u << 20, 50000},
    {"mixed", run_mixed, 0, 1000000},
};

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[string-builder|json|mir|vm|mixed [ITER]]");
    const struct scenario *s = bench_find("scenario", scenarios, bench_arg_str(&args, 0, "mixed"));
    uint64_t iterations = bench_arg_in(&args, 1, s->iterations, 1, UINT64_MAX / 8);

    s->run(iterations / 20 + 1, s->size); /* warm-up */
    bench_span span = bench_start();
    s->run(iterations, s->size);
    span = bench_stop(span);

    bench_report *report = bench_report_begin(&args);
    bench_put_str(report, "scenario", s->name);
    return bench_report_end(report, span, iterations, calls);
}
