/* Measures a heap that grows once: allocates COUNT objects of SIZE bytes, and then frees all of them, the oldest first. The objects are a linked
 * list, so the harness needs no memory of its own, and RSS and faults are those of the allocator. Growth and freeing are timed separately.
 *
 * faults_per_page counts the faults that getrusage reports. traps_per_page counts only those that interrupt the program, or all faults
 * if traps() cannot count. rss_per_asked is the memory that growth took, divided by the requested bytes. Each request is rounded up to a multiple
 * of 16, because malloc returns multiples of 16. */
#include "bench_common.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>

#define ALIGNMENT 16u

/* Returns the number of page faults that the processor has raised, or UINT64_MAX if the system does not let the program count them. getrusage also
 * counts the faults on pages that the allocator populates by a system call. */
static uint64_t traps(void)
{
    static int counter;
    struct perf_event_attr what = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof what, .config = PERF_COUNT_SW_PAGE_FAULTS, .exclude_kernel = 1};
    uint64_t count;
    if (counter == 0)
        counter = (int)syscall(SYS_perf_event_open, &what, 0, -1, -1, 0);
    return read(counter, &count, sizeof count) == sizeof count ? count : UINT64_MAX;
}

typedef struct object {
    struct object *next;
} object;

static object *grow_list(uint64_t count, size_t size)
{
    object *first = NULL, **link = &first;
    for (uint64_t i = 0; i < count; i++) {
        object *o = bench_expect(malloc(size), size);
        *link = o;
        link = &o->next;
    }
    *link = NULL;
    return first;
}

static void free_list(object *o)
{
    for (object *next; o != NULL; o = next) {
        next = o->next;
        free(o);
    }
}

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "[COUNT [SIZE]]");
    uint64_t count = bench_arg_in(&args, 0, 3000000, 1, UINT32_MAX);
    size_t size = bench_arg_in(&args, 1, 100, sizeof(object), UINT32_MAX);
    double asked = (double)count * (double)((size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);

    free(bench_alloc(size)); /* starts the allocator */
    uint64_t before_kib = bench_rss_kib(), before = traps();
    bench_span growth = bench_start();
    object *list = grow_list(count, size);
    growth = bench_stop(growth);
    uint64_t taken = before != UINT64_MAX ? traps() - before : growth.faults;
    uint64_t grown_kib = bench_rss_kib();
    bench_span freeing = bench_start();
    free_list(list);
    freeing = bench_stop(freeing);

    bench_report *report = bench_report_begin(&args);
    double n = (double)count;
    bench_put_u64(report, "size", size);
    bench_put_f64(report, "growth_ns_per_op", growth.seconds / n * 1e9);
    bench_put_f64(report, "cpu_growth_ns_per_op", growth.cpu_seconds / n * 1e9);
    bench_put_f64(report, "free_ns_per_op", freeing.seconds / n * 1e9);
    bench_put_f64(report, "cpu_free_ns_per_op", freeing.cpu_seconds / n * 1e9);
    bench_put_u64(report, "growth_faults", growth.faults);
    bench_put_u64(report, "free_faults", freeing.faults);
    bench_put_f64(report, "faults_per_page", (double)growth.faults / (asked / BENCH_PAGE));
    bench_put_f64(report, "traps_per_page", (double)taken / (asked / BENCH_PAGE));
    bench_put_f64(report, "rss_per_asked", (double)(grown_kib - before_kib) * 1024 / asked);
    return bench_report_end(report, bench_add(growth, freeing), count, (bench_calls){count + 1, count + 1, 0});
}
