/* Probe: defines static tracepoints (USDT) for bpftrace, perf and gdb. A tracepoint is an instruction that does nothing, and whose address is in
 * an ELF note. HAKMEM has no tracepoints if <sys/sdt.h> was missing at build time.
 * Threads    Any thread may run a tracepoint. */
#pragma once

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif

/* `weight` is the number of allocated bytes that this sample represents. */
#if defined(DTRACE_PROBE3)
#define HK_PROBE_ALLOC(block, size, weight) DTRACE_PROBE3(otel_memory, alloc, block, size, weight)
#define HK_PROBE_FREE(block) DTRACE_PROBE1(otel_memory, free, block)
#else
#define HK_PROBE_ALLOC(block, size, weight) ((void)(block), (void)(size), (void)(weight))
#define HK_PROBE_FREE(block) ((void)(block))
#endif
