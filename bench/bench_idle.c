/* Measures the RSS and the page faults of a process that never allocates. */
#include "bench_common.h"

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "");
    return bench_report_end(bench_report_begin(&args), (bench_span){0, 0, 0}, 0, (bench_calls){0, 0, 0});
}
