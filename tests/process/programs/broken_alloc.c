// Defines a malloc for LD_PRELOAD with one fault, which BROKEN_ALLOC selects. With it negative.py tests that the harness finds faults.
//   none     no fault; the harness must find no difference
//   fail     sometimes refuses a request although there is memory
//   corrupt  sometimes changes one byte of a block that realloc grew
//   overlap  sometimes returns a block that is shorter than requested
// This malloc uses glibc's allocator. The faults come at fixed counts, so that each run has the same faults.
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <malloc.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

enum { fail_every = 701, corrupt_every = 211, overlap_every = 101, least_overlap = 64 };

typedef enum { fault_unknown, fault_none, fault_fail, fault_corrupt, fault_overlap } fault_kind;

static _Atomic(fault_kind) chosen;
static atomic_ulong calls;
static atomic_ulong growths;

static fault_kind fault(void)
{
    fault_kind kind = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (kind != fault_unknown)
        return kind;
    const char *name = getenv("BROKEN_ALLOC");
    kind = fault_none;
    if (name && !strcmp(name, "fail"))
        kind = fault_fail;
    if (name && !strcmp(name, "corrupt"))
        kind = fault_corrupt;
    if (name && !strcmp(name, "overlap"))
        kind = fault_overlap;
    atomic_store_explicit(&chosen, kind, memory_order_relaxed);
    return kind;
}

static int turn(atomic_ulong *counter, unsigned long every)
{
    return (atomic_fetch_add_explicit(counter, 1, memory_order_relaxed) + 1) % every == 0;
}

void *malloc(size_t size)
{
    fault_kind kind = fault();
    if (kind == fault_fail && turn(&calls, fail_every)) {
        errno = ENOMEM;
        return NULL;
    }
    if (kind == fault_overlap && size >= least_overlap && turn(&calls, overlap_every))
        return __libc_malloc(size / 2);
    return __libc_malloc(size);
}

void *realloc(void *block, size_t size)
{
    if (!block)
        return malloc(size);
    size_t before = malloc_usable_size(block);
    void *grown = __libc_realloc(block, size);
    if (fault() == fault_corrupt && grown && before > 0 && size > before && turn(&growths, corrupt_every)) {
        unsigned char *last = (unsigned char *)grown + before / 2;
        *last = (unsigned char)~*last;
    }
    return grown;
}

void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }

void free(void *block) { __libc_free(block); }
