/* Probe: places where a tracer (bpftrace, perf, gdb) may look in: an instruction that does nothing, and a note in the file that
 * says where it is. Absent where <sys/sdt.h> was, when this was compiled.
 * Threads  any. */
#ifndef HK_PROBE_H
#define HK_PROBE_H

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif
#endif

/* weight: bytes of allocations that this one stands for. */
#if defined(DTRACE_PROBE3)
#define HK_PROBE_ALLOC(block, size, weight) DTRACE_PROBE3(otel_memory, alloc, block, size, weight)
#define HK_PROBE_FREE(block) DTRACE_PROBE1(otel_memory, free, block)
#else
#define HK_PROBE_ALLOC(block, size, weight) ((void)(block), (void)(size), (void)(weight))
#define HK_PROBE_FREE(block) ((void)(block))
#endif

#endif
