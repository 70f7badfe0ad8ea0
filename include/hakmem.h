/* hakmem.h: HAKMEM's own names. A program that preloads or links HAKMEM gets its malloc and free without this header.
 *
 * What holds for every function, unless its comment says otherwise
 *   Units      sizes, counts of memory and alignments are bytes; times are milliseconds.
 *   Alignment  blocks are aligned to 16 bytes at least. A size of 0 gives a unique pointer that has to be freed.
 *   Blocks     a block from any of these functions, or from malloc and its kin while HAKMEM serves them, may be resized or freed by
 *              any of them, in any thread. An invalid pointer ends the program with one line on stderr (docs/FREE.md).
 *   errno      is kept by a call that succeeds. Where memory is refused (by the system, by HAKMEM_LIMIT, or because the size is over
 *              PTRDIFF_MAX) the result is NULL, errno is ENOMEM, and nothing else has changed.
 *   Threads    any thread may call it at any time, without a lock of the caller's. None is a cancellation point, but for hak_dlopen
 *              and hak_dlmopen, which run constructors.
 *   Moments    before main (constructors), after main (destructors, atexit), in thread-specific destructors, and in the child of a
 *              fork, also of a process with threads. Not in the child of a vfork.
 *   Signals    not from a signal handler that may have interrupted a call of malloc or of a function below. The comment of a function
 *              that a handler may call says "Signals any".
 *
 * Compilers: C99 and C++98 on. Attributes are left out where a compiler does not know them. */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* The version of this header. hak_version() and hak_stats.version are those of the library that serves. */
#define HAKMEM_VERSION_MAJOR 0
#define HAKMEM_VERSION_MINOR 1
#define HAKMEM_VERSION_PATCH 0
/* One number that grows with each version: #if HAKMEM_VERSION >= HAKMEM_VERSION_OF(0, 2, 0) */
#define HAKMEM_VERSION_OF(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define HAKMEM_VERSION HAKMEM_VERSION_OF(HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR, HAKMEM_VERSION_PATCH)

/* Attributes, by names that no macro of the program's (#define malloc ...) reaches. Not declared, because it would be wrong:
 * returns_nonnull of what allocates (it returns NULL where memory is refused), malloc of what resizes (the block may be the same). */
#ifdef __has_attribute
#define HAK_HAS_ATTRIBUTE_(attribute) __has_attribute(attribute)
#else
#define HAK_HAS_ATTRIBUTE_(attribute) 0
#endif
#if HAK_HAS_ATTRIBUTE_(__malloc__)
#define HAK_FRESH_ __attribute__((__malloc__))
#else
#define HAK_FRESH_
#endif
#if HAK_HAS_ATTRIBUTE_(__alloc_size__)
#define HAK_SIZE_(size) __attribute__((__alloc_size__(size)))
#define HAK_PRODUCT_(count, size) __attribute__((__alloc_size__(count, size)))
#else
#define HAK_SIZE_(size)
#define HAK_PRODUCT_(count, size)
#endif
#if HAK_HAS_ATTRIBUTE_(__alloc_align__)
#define HAK_ALIGN_(alignment) __attribute__((__alloc_align__(alignment)))
#else
#define HAK_ALIGN_(alignment)
#endif
#if HAK_HAS_ATTRIBUTE_(__warn_unused_result__)
#define HAK_USED_ __attribute__((__warn_unused_result__))
#else
#define HAK_USED_
#endif
#if HAK_HAS_ATTRIBUTE_(__returns_nonnull__)
#define HAK_NOT_NULL_ __attribute__((__returns_nonnull__))
#else
#define HAK_NOT_NULL_
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that serves, as "0.1.0": static text. Signals any. */
HAK_NOT_NULL_ const char *hak_version(void);

/* A block of `size` bytes, contents undefined. */
HAK_FRESH_ HAK_SIZE_(1) HAK_USED_ void *hak_malloc(size_t size);
/* A block of count * size bytes, zero. An overflowing product is refused. */
HAK_FRESH_ HAK_PRODUCT_(1, 2) HAK_USED_ void *hak_calloc(size_t count, size_t size);
/* The block with `size` bytes, its contents kept up to the smaller size; it may have moved, and then `block` is free. Aligned to 16
 * bytes, whatever `block` was aligned to. On failure the block is as it was; a block never fails to shrink.
 * realloc(NULL, n) is malloc(n); realloc(block, 0) frees the block and returns NULL without an error. */
HAK_SIZE_(2) HAK_USED_ void *hak_realloc(void *block, size_t size);
/* realloc to count * size bytes; an overflowing product is refused, and the block is as it was. */
HAK_PRODUCT_(2, 3) HAK_USED_ void *hak_reallocarray(void *block, size_t count, size_t size);
/* NULL is allowed and does nothing. errno is kept. */
void hak_free(void *block);
/* free, for a caller that knows the size, and the alignment, that were asked for (C23). They are hints. errno is kept. */
void hak_free_sized(void *block, size_t size);
void hak_free_aligned_sized(void *block, size_t alignment, size_t size);

/* A block of `size` bytes at a multiple of `alignment`, a power of two up to 1 GiB and more. `size` need not be a multiple of it.
 * As in glibc, another alignment is rounded up to a power of two, which compilers do not expect; one that cannot be is refused with
 * errno EINVAL. */
HAK_FRESH_ HAK_SIZE_(2) HAK_ALIGN_(1) HAK_USED_ void *hak_aligned_alloc(size_t alignment, size_t size);
HAK_FRESH_ HAK_SIZE_(2) HAK_ALIGN_(1) HAK_USED_ void *hak_memalign(size_t alignment, size_t size);
/* The same by another way of telling: 0 and the block in *block; or EINVAL (the alignment is no power of two, or no multiple of
 * sizeof(void *)) or ENOMEM, and *block is as it was. errno is kept in any case. */
HAK_USED_ int hak_posix_memalign(void **block, size_t alignment, size_t size);
/* A block aligned to a page of the system; pvalloc also rounds the size up to whole pages. */
HAK_FRESH_ HAK_SIZE_(1) HAK_USED_ void *hak_valloc(size_t size);
HAK_FRESH_ HAK_USED_ void *hak_pvalloc(size_t size);

/* Bytes that may be used in the block: as many as were asked for, or more. 0 for NULL. A compiler that checks accesses
 * (_FORTIFY_SOURCE) knows only of the bytes that were asked for. errno is kept. */
size_t hak_usable_size(void *block);

/* Gives free memory back to the system at once: the calling thread's cache and what waits for it from other threads is taken apart
 * first, then empty slabs, cached large blocks and free pages in slabs in use go. Returns 1 if memory was given back, else 0.
 * `keep` is malloc_trim's pad: of whole free memory (runs of pages without a block, cached large blocks) at most so many bytes stay
 * resident for the next allocations: what was freed last, runs by up to 2 MiB at a time, large blocks each whole. 0: none stays.
 * Free pages between blocks in use go in any case. Costs system calls and, later, page faults: microseconds to some 100 ms. errno is
 * kept. */
int hak_trim(size_t keep);

/* How much memory HAKMEM has, where it is, and what was done so far. Fields are only ever added, at the end; each is 64 bits wide. */
struct hak_stats {
    uint64_t size;    /* bytes of this structure that the library knows of and has filled in; see HAK_STATS_HAS */
    uint64_t version; /* HAKMEM_VERSION of the library */

    /* Bytes, now. */
    uint64_t mapped;         /* mapped to write to; the parts below sum to it, while no other thread allocates */
    uint64_t footprint;      /* of the heap, without HAKMEM's tables: what may be resident */
    uint64_t live;           /* part: asked for by the program in blocks of up to 1 MiB (an estimate) */
    uint64_t rounding;       /* part: added to that by rounding up to size classes (an estimate) */
    uint64_t large_live;     /* part: blocks of more than 1 MiB with the program, in whole pages */
    uint64_t thread_caches;  /* part: free blocks ready in threads' caches */
    uint64_t remote_pending; /* part: blocks freed by another thread, on their way back */
    uint64_t free_in_slabs;  /* part: free blocks in slabs that are partly used */
    uint64_t slab_tails;     /* part: ends of slabs, too short for a block */
    uint64_t large_cached;   /* part: freed large blocks, and spare ends of others, kept for reuse */
    uint64_t idle;           /* part: runs of pages without a block, resident or given back */
    uint64_t metadata;       /* part: HAKMEM's own tables */
    uint64_t metadata_spare; /* part: mapped for tables and not used */
    uint64_t idle_resident;  /* of the part idle: what may be resident */

    /* Numbers, now. */
    uint64_t live_blocks; /* blocks with the program */
    uint64_t threads;     /* threads with a cache */

    /* Numbers, since the process began; a fork child goes on with its parent's. */
    uint64_t mallocs;         /* blocks handed out */
    uint64_t frees;           /* blocks given back */
    uint64_t misses;          /* of mallocs: the thread's cache, or that of large blocks, had none ready */
    uint64_t remote_frees;    /* of frees: blocks sent to the thread that owns them */
    uint64_t large_calls;     /* of mallocs: more than 1 MiB, or an alignment of more than 64 KiB */
    uint64_t large_mapped;    /* of large_calls: mapped anew */
    uint64_t purges;          /* times that a range of free memory was given back to the system */
    uint64_t purged_bytes;    /* bytes of these ranges */
    uint64_t os_refusals;     /* times that the system refused memory */
    uint64_t limit_refusals;  /* times that HAKMEM_LIMIT refused memory */
    uint64_t out_of_memory;   /* of calls: failed for want of memory */
    uint64_t threads_started; /* caches begun */
    uint64_t threads_ended;   /* caches ended */
    uint64_t forks;           /* in this process and its ancestors */

    uint64_t heaps; /* bytes, now, part: slices of the program's own heaps; their large blocks count as large_live */
};

/* Was this field filled in, by a library that may be older than this header? */
#define HAK_STATS_HAS(stats, field) ((stats)->size >= offsetof(struct hak_stats, field) + sizeof((stats)->field))

/* Fills in the statistics. `size` is sizeof(struct hak_stats) as the caller was compiled: no byte beyond it is written, and what
 * the library does not know of is 0. So a program runs with older and newer libraries than the one it was compiled for.
 * Returns 0, or -1: errno is EINVAL if `stats` is NULL or `size` too small for the first two fields, ENOMEM if there is no memory
 * for the walk. Walks over all slabs and threads' caches and takes locks for moments: some milliseconds in a heap of GiB. What
 * other threads do meanwhile is seen before or after. */
int hak_get_stats(struct hak_stats *stats, size_t size);

/* Writes the report (as at exit, see HAKMEM_REPORT in docs/OPTIONS.md) to a file, which is replaced whole: JSON if the name
 * ends in .json, OpenMetrics if in .prom, "-" is stderr; %p in the name is the process id. Returns 0, or -1 if the file cannot be
 * written. errno is kept in any case. */
int hak_report(const char *path);

/* Writes the heap profile so far (docs/PROFILING.md) to a file, for pprof or jeprof; "-" is stderr, %p the process id. Returns 0, or
 * -1 if the file cannot be written, or no samples are taken (HAKMEM_HEAP_PROFILE, HAKMEM_HEAP_SAMPLE). errno is kept in any case. */
int hak_heap_profile(const char *path);

/* Heaps of the program's own: memory with a name and a limit, of which all blocks can be freed at once: for a tenant, a query, a plugin.
 *
 *   Threads    any thread may allocate from any heap, and free, resize and measure its blocks, at any time, with hak_free, free, realloc and the
 *              rest; a block that is resized stays in its heap. Threads have caches of each heap that they use: small calls take no lock.
 *   Limit      counts physical memory: the runs of pages of the heap's blocks, also those that are free or in threads' caches, and whole pages of
 *              blocks of more than 1 MiB. It is never exceeded. A call is refused only after the free blocks in all threads' caches of the heap have
 *              come back; a block that lives holds its run of pages back.
 *   End        hak_heap_reset and hak_heap_destroy require that no other thread is in a call for the heap or uses its blocks from here on. Threads
 *              that end, fork, or use other heaps meanwhile do no harm, whatever their caches hold. free of a block that was live then, in memory that
 *              nobody has used since, does nothing, and the first is told with one line on stderr; realloc of it ends the program. If the memory
 *              serves again, free cannot know.
 *   fork       the child has the heaps; blocks in the caches of threads that it does not have stay taken until a reset.
 *   Handles    stay readable: a call with that of a destroyed heap fails with EINVAL, until hak_heap_create has given it out again. Not NULL, but
 *              where it says so.
 *   Profiles   and guards (docs/PROFILING.md, docs/GUARD.md) see blocks of the process's heap only. While an option checks each free, heaps have
 *              no caches, and a block that is freed twice is found at once. */
typedef struct hak_heap hak_heap_t;

/* A heap without memory. `name`, which is copied and may be NULL, is for reports: 63 bytes of it; names need not differ. `limit` in bytes, 0 for none:
 * the first small block takes 65536. Up to 65535 heaps at a time. */
HAK_USED_ hak_heap_t *hak_heap_create(const char *name, size_t limit);
/* Frees all blocks of the heap, which goes on empty, with its name, limit and peak. 0; or -1 and EINVAL: NULL, or the heap has ended. Costs the time
 * of its runs of pages, not of its blocks, and no system calls but for blocks of more than 1 MiB: the process's heap has the memory then. */
int hak_heap_reset(hak_heap_t *heap);
/* The same, and the heap ends. */
int hak_heap_destroy(hak_heap_t *heap);
/* From now on. What the heap has beyond a lower limit it keeps. 0; or -1 and EINVAL. */
int hak_heap_set_limit(hak_heap_t *heap, size_t limit);
/* The heap that the block is of; NULL: the process's, or `block` is NULL or no block. errno is kept. */
hak_heap_t *hak_heap_of(const void *block);

/* As hak_malloc, hak_calloc, hak_realloc, from this heap; NULL and ENOMEM also where the limit refuses, and EINVAL if the heap has ended. realloc of
 * another heap's block moves it to this one. */
HAK_FRESH_ HAK_SIZE_(2) HAK_USED_ void *hak_heap_malloc(hak_heap_t *heap, size_t size);
HAK_FRESH_ HAK_PRODUCT_(2, 3) HAK_USED_ void *hak_heap_calloc(hak_heap_t *heap, size_t count, size_t size);
HAK_SIZE_(3) HAK_USED_ void *hak_heap_realloc(hak_heap_t *heap, void *block, size_t size);
/* At a multiple of `alignment`; NULL and EINVAL if that is no power of two. */
HAK_FRESH_ HAK_SIZE_(3) HAK_ALIGN_(2) HAK_USED_
    void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t size);
/* hak_free, a little faster where the block is the heap's. errno is kept. */
void hak_heap_free(hak_heap_t *heap, void *block);

/* Bytes and numbers of a heap, now. Fields are only ever added, at the end. */
struct hak_heap_stats {
    uint64_t size;        /* bytes of this structure that the library has filled in; see HAK_STATS_HAS */
    uint64_t limit;       /* 0: none */
    uint64_t physical;    /* what the limit counts */
    uint64_t peak;        /* the most that `physical` has been since hak_heap_create */
    uint64_t live;        /* in blocks with the program, rounded up to their classes */
    uint64_t cached;      /* in free blocks in threads' caches; of other threads as a moment ago */
    uint64_t large;       /* of physical and live: blocks of more than 1 MiB */
    uint64_t live_blocks; /* their number */
    uint64_t caches;      /* threads that have a cache of the heap since its last reset */
    uint64_t mallocs;     /* blocks handed out since hak_heap_create */
    uint64_t refused;     /* calls that the limit has refused */
    uint64_t resets;      /* calls of hak_heap_reset */
    char name[64];        /* ends with 0 */
};
/* Fills in the statistics; `size` as for hak_get_stats. 0; or -1 and EINVAL: a NULL, the heap has ended, or `size` is too small for one field. */
int hak_heap_get_stats(hak_heap_t *heap, struct hak_heap_stats *stats, size_t size);

/* dlopen and dlmopen as libhakmem.so has them: plugins are opened without RTLD_DEEPBIND, with which they would free blocks of HAKMEM's to
 * the C library (HAKMEM_DEEPBIND in docs/OPTIONS.md). A program that is linked with libhakmem.a, but with a shared C library, gets
 * them under those names by -Wl,--defsym=dlopen=hak_dlopen,--defsym=dlmopen=hak_dlmopen. `space` is an Lmid_t. Results and errno
 * are the C library's; NULL where it has no such function. */
void *hak_dlopen(const char *file, int mode);
void *hak_dlmopen(long space, const char *file, int mode);

/* pthread_create as libhakmem.so has it: it counts the program's threads, so that HAKMEM may have one of its own beside them (HAKMEM_BACKGROUND
 * in docs/OPTIONS.md). With libhakmem.a and a shared C library: -Wl,--defsym=pthread_create=hak_pthread_create. Returns what the C
 * library's returns: 0 or an error number; ENOSYS where it has no such function. */
int hak_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);

#ifdef __cplusplus
}
#endif

#undef HAK_HAS_ATTRIBUTE_
#undef HAK_FRESH_
#undef HAK_SIZE_
#undef HAK_PRODUCT_
#undef HAK_ALIGN_
#undef HAK_USED_
#undef HAK_NOT_NULL_

#endif
