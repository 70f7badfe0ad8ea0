/* The cost of a process that never allocates: RSS and faults. */
#include "bench_common.h"

int main(int argc, char **argv)
{
    bench_args args = bench_args_read(argc, argv, "");
    static bench_report report;
    bench_report_begin(&report, &args);
    bench_put_calls(&report, (bench_calls){0, 0, 0});
    bench_report_end(&report);
    return 0;
}
