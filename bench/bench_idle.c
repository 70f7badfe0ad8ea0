/* What a process costs that never allocates: RSS, faults, and nothing else. */
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
