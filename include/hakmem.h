/* hakmem.h declares HAKMEM's own functions. A program that preloads or links HAKMEM gets its malloc and free without this header.
 *
 * The following holds for every function, unless its comment says otherwise.
 *   Units      Sizes, amounts of memory and alignments are in bytes. Times are in milliseconds.
 *   Alignment  Blocks are aligned to at least 16 bytes. A size of 0 gives a unique pointer that must be freed.
 *   Blocks     Each of these functions accepts blocks from any other, and from malloc and related functions if HAKMEM serves them. Any thread may
 *              resize or free a block. An invalid pointer ends the program with one line on stderr (docs/FREE.md).
 *   errno      A call that succeeds keeps errno. A call fails if the system or HAKMEM_LIMIT refuses memory, or if the size is over PTRDIFF_MAX.
 *              The result is then NULL, errno is ENOMEM, and nothing else has changed.
 *   Threads    Any thread may call the functions at any time, and the caller needs no lock. No function is a cancellation point, except
 *              hak_dlopen and hak_dlmopen, which run constructors.
 *   Moments    The functions may be called before main (in constructors), after main (in destructors and atexit functions), in thread-specific
 *              destructors, and in the child of a fork, even if the parent has threads. They must not be called in the child of a vfork.
 *   Signals    A signal handler must not call a function below if the handler may have interrupted a call of malloc or of such a function. There
 *              is one exception: a function whose comment says "Signals any" may be called in every signal handler.
 *
 * The header is for compilers of C99, C++98 and later. It leaves out the attributes that a compiler does not know. */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* The version of this header. hak_version() and hak_stats.version give the version of the library, which may be another. */
#define HAKMEM_VERSION_MAJOR 0
#define HAKMEM_VERSION_MINOR 1
#define HAKMEM_VERSION_PATCH 0
/* HAKMEM_VERSION is one number that grows with each version. Example: #if HAKMEM_VERSION >= HAKMEM_VERSION_OF(0, 2, 0) */
#define HAKMEM_VERSION_OF(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define HAKMEM_VERSION HAKMEM_VERSION_OF(HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR, HAKMEM_VERSION_PATCH)

/* The attributes are written with underscores (__malloc__), so that a macro of the program such as "#define malloc" does not change them. Functions
 * that allocate do not have the attribute returns_nonnull, because they return NULL if memory is refused. Functions that resize do not have the
 * attribute malloc, because they may return the same block. */
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

/* Returns the version of the library, for example "0.1.0". The text is static. Signals any. */
HAK_NOT_NULL_ const char *hak_version(void);

/* Returns a block of `size` bytes with undefined contents. */
HAK_FRESH_ HAK_SIZE_(1) HAK_USED_ void *hak_malloc(size_t size);
/* Returns a block of count * size bytes, all zero. If the product overflows, returns NULL with errno ENOMEM. */
HAK_FRESH_ HAK_PRODUCT_(1, 2) HAK_USED_ void *hak_calloc(size_t count, size_t size);
/* Changes the size of a block to `size` bytes. Returns the block, which may have moved. If it has moved, the old address is free. The contents are
 * kept up to the smaller of the two sizes. A block that was aligned to more than 16 bytes may lose this alignment. On failure, returns NULL with
 * errno ENOMEM, and the block is unchanged. A call that shrinks a block never fails. If `block` is NULL, works as hak_malloc(size). If `size` is 0,
 * frees the block, returns NULL and keeps errno. */
HAK_SIZE_(2) HAK_USED_ void *hak_realloc(void *block, size_t size);
/* Resizes a block to count * size bytes as hak_realloc does. If the product overflows, returns NULL with errno ENOMEM, and the block is unchanged. */
HAK_PRODUCT_(2, 3) HAK_USED_ void *hak_reallocarray(void *block, size_t count, size_t size);
/* Free the block. They do nothing if `block` is NULL. They keep errno. */
void hak_free(void *block);
void hak_cfree(void *block);
/* Free the block like hak_free (C23). `size` and `alignment` are those of the request. A wrong size ends the program if the library happens to check
 * the size (docs/FREE.md). The alignment is not checked. They keep errno. */
void hak_free_sized(void *block, size_t size);
void hak_free_aligned_sized(void *block, size_t alignment, size_t size);

/* Return a block of `size` bytes at a multiple of `alignment`, which has no upper limit. `size` need not be a multiple of the alignment. An alignment
 * that is not a power of two is rounded up to one, as in glibc. If it cannot be rounded up, they return NULL with errno EINVAL. */
HAK_FRESH_ HAK_SIZE_(2) HAK_ALIGN_(1) HAK_USED_ void *hak_aligned_alloc(size_t alignment, size_t size);
HAK_FRESH_ HAK_SIZE_(2) HAK_ALIGN_(1) HAK_USED_ void *hak_memalign(size_t alignment, size_t size);
/* Allocates as hak_aligned_alloc does, but stores the block in *block and returns 0. Returns EINVAL if the alignment is not a power of two, or not a
 * multiple of sizeof(void *). Returns ENOMEM if memory is refused. On failure, *block is unchanged. Always keeps errno. */
HAK_USED_ int hak_posix_memalign(void **block, size_t alignment, size_t size);
/* Return a block that is aligned to the size of a system page. hak_pvalloc also rounds the size of the block up to whole pages. */
HAK_FRESH_ HAK_SIZE_(1) HAK_USED_ void *hak_valloc(size_t size);
HAK_FRESH_ HAK_USED_ void *hak_pvalloc(size_t size);

/* Returns the number of bytes that the program may use in the block, which is at least the requested size. Returns 0 for NULL. A compiler that checks
 * accesses (_FORTIFY_SOURCE) allows only the requested bytes. Keeps errno. */
size_t hak_malloc_usable_size(void *block);

/* Returns 1 if a move of the block helps to save memory, and otherwise 0. To move a block, the program allocates a new block of the same size, copies
 * the contents, and frees the old block. A move helps if the block lies in a sparse slab, and the thread's next block of this size comes from another
 * slab that is at least as full. A slab is a range of 64 to 256 KiB that is cut into blocks of one size. It is sparse if at least an eighth of the
 * blocks are free. The result holds until the thread allocates or frees another block of about this size, so the program must move the block at once.
 * If the program asks for all its blocks, and repeats this until no result is 1, it ends after a few passes. The slabs that have become empty are
 * free memory, which hak_malloc_trim returns. docs/DEPLOY.md has an example.
 *
 * The result is 0 for a block of more than 32768 bytes, because the system gets the free pages around such a block back without a move. The result is
 * also 0 for NULL, for a block of a heap that the program created, for a sampled block beside a guard page, and for an address that is not HAKMEM's.
 *
 * The call compares the numbers of used blocks of two slabs. A free block in the cache of a thread counts as used. So does a block that another thread
 * than the slab's owner has freed, until the owner takes the block back. If another thread owns the block's slab, the call reads the slab's number
 * without a lock. The result may then be outdated, and a move may help less, but any result is safe. If that thread sleeps or has ended, the
 * caller's thread takes over its slabs. No thread may free the block during the call. The call also returns some free blocks from the cache of the
 * caller's thread to their slabs. Keeps errno. */
int hak_should_move(const void *block);

/* Gives free memory back to the system at once. Returns 1 if any memory was given back, and otherwise 0. First empties the calling thread's cache,
 * and takes back the blocks of this thread that other threads have freed. Then gives back free pages between blocks in use, pages without any block,
 * and cached large blocks. `keep` is the argument `pad` of malloc_trim. At most `keep` bytes of pages without any block and of cached large blocks
 * stay resident for the next allocations. The memory that was freed last is kept. A large block stays only as a whole. If the system has membarrier,
 * also takes the free blocks, except one of each size class, out of the caches of other threads that are not just allocating. The call takes from
 * microseconds to some 100 ms, and the program pays for page faults when it uses the memory again. Keeps errno. */
int hak_malloc_trim(size_t keep);

/* Return statistics in structs of <malloc.h>. The functions are declared only if <malloc.h> was included before this header. If there is no memory to
 * collect the statistics, all fields are 0. hak_mallinfo() returns INT_MAX for larger numbers. */
#if defined(M_MXFAST) && defined(__GLIBC_PREREQ)
struct mallinfo hak_mallinfo(void);
#if __GLIBC_PREREQ(2, 33)
struct mallinfo2 hak_mallinfo2(void);
#endif
#endif
/* Changes nothing, because HAKMEM adapts by itself. Returns the result of glibc's mallopt(), which is 0 for a bad M_MXFAST, and 1 otherwise. */
int hak_mallopt(int parameter, int value);
struct _IO_FILE; /* the FILE of <stdio.h> */
/* Writes statistics to `file` as XML. Returns 0, EINVAL if `options` is not 0, or ENOMEM if there is no memory to collect the statistics. */
int hak_malloc_info(int options, struct _IO_FILE *file);
/* Writes the report of hak_report() to stderr. */
void hak_malloc_stats(void);

/* Statistics of the process. New versions add fields only at the end. Each field has 64 bits. */
struct hak_stats {
    uint64_t size;    /* bytes of this struct that the library has filled in; see HAK_STATS_HAS */
    uint64_t version; /* HAKMEM_VERSION of the library */

    /* Current amounts in bytes. The fields marked with "part" add up to `mapped` if no other thread allocates during the call. */
    uint64_t mapped;         /* memory that is mapped for writing */
    uint64_t footprint;      /* memory of the heap that may be resident, without HAKMEM's tables */
    uint64_t live;           /* part: requested by the program in blocks of up to 1 MiB (an estimate) */
    uint64_t rounding;       /* part: bytes beyond `live`, from rounding up to size classes (an estimate) */
    uint64_t large_live;     /* part: blocks of more than 1 MiB that the program has, in whole pages */
    uint64_t thread_caches;  /* part: free blocks in the caches of threads */
    uint64_t remote_pending; /* part: blocks that another thread has freed and that have not returned to their owner */
    uint64_t free_in_slabs;  /* part: free blocks in slabs that are partly used */
    uint64_t slab_tails;     /* part: ends of slabs that are too short for another block */
    uint64_t large_cached;   /* part: freed large blocks that are kept for reuse, and unused ends of large blocks */
    uint64_t idle;           /* part: pages without any block, resident or returned to the system */
    uint64_t metadata;       /* part: HAKMEM's own tables */
    uint64_t metadata_spare; /* part: mapped for tables but not used */
    uint64_t idle_resident;  /* the bytes of `idle` that may be resident */

    /* Current numbers. */
    uint64_t live_blocks; /* blocks that the program has */
    uint64_t threads;     /* threads that have a cache */

    /* Numbers since the process began. The child of a fork continues with the numbers of its parent. `mallocs` and `frees` are exact if
     * HAKMEM_COUNT=1 or HAKMEM_REPORT is set. Otherwise, they are the least numbers that are possible, because calls that find a block are not counted. */
    uint64_t mallocs; /* blocks that were allocated */
    uint64_t frees;   /* blocks that were freed */
    uint64_t misses;  /* part of mallocs: the thread's cache, or the cache of large blocks, had no block for them */
    uint64_t remote_frees;    /* part of frees: blocks sent to the thread that owns them */
    uint64_t large_calls;     /* part of mallocs: more than 1 MiB, or an alignment of more than 64 KiB */
    uint64_t large_mapped;    /* part of large_calls: the block needed a new mapping */
    uint64_t purges;          /* times that a range of free memory was returned to the system */
    uint64_t purged_bytes;    /* bytes in the ranges that `purges` counts */
    uint64_t os_refusals;     /* times that the system refused memory */
    uint64_t limit_refusals;  /* times that HAKMEM_LIMIT refused memory */
    uint64_t out_of_memory;   /* calls that failed because there was no memory */
    uint64_t threads_started; /* thread caches that were begun */
    uint64_t threads_ended;   /* thread caches that have ended */
    uint64_t forks;           /* forks in this process and its ancestors */

    uint64_t heaps; /* bytes, part of mapped: memory of the program's own heaps, without their large blocks */
};

/* Is true if the library has filled in this field. Older libraries do not know the newest fields. */
#define HAK_STATS_HAS(stats, field) ((stats)->size >= offsetof(struct hak_stats, field) + sizeof((stats)->field))

/* Fills in the statistics. `size` is sizeof(struct hak_stats) in the calling program. The library writes exactly `size` bytes, and writes 0 into
 * fields that it does not know. Therefore a program also runs with older and newer libraries than the one that it was compiled for. Returns 0 on
 * success. Returns -1 with errno EINVAL if `stats` is NULL or `size` is too small for the first two fields, and -1 with errno ENOMEM if there is no
 * memory to collect the statistics. The call looks at all slabs and all caches, and takes locks for short times. It takes some ms if the heap has
 * gigabytes. It may see or miss a change that another thread makes during the call. */
int hak_get_stats(struct hak_stats *stats, size_t size);

/* Writes the report to a file, and replaces the file if it exists. The report is the same as at exit (HAKMEM_REPORT in docs/OPTIONS.md). The format
 * is JSON if the name ends in .json, OpenMetrics if it ends in .prom, and text otherwise. The name "-" means stderr. %p in the name becomes the
 * process id. Returns 0, or -1 if the file cannot be written. Always keeps errno. */
int hak_report(const char *path);

/* Writes the heap profile so far (docs/PROFILING.md) to a file, for pprof or jeprof. The name "-" means stderr. %p becomes the process id. Returns 0,
 * or -1 if the file cannot be written, or if HAKMEM_HEAP_PROFILE and HAKMEM_HEAP_SAMPLE take no samples. Always keeps errno. */
int hak_heap_profile(const char *path);

/* A program can create its own heaps, for example one for each tenant, query or plugin. A heap has a name and a limit, and all its blocks can be
 * freed at once.
 *
 *   Threads    Any thread may allocate from any heap at any time. Any thread may free, resize and measure the blocks of the heap with hak_free,
 *              free, realloc and the other functions. A block that is resized stays in its heap. Each thread has a cache of each heap that it
 *              uses, so that small calls take no lock.
 *   Limit      The limit is in bytes. It counts all pages that the heap has for its blocks, including free blocks and blocks in threads' caches.
 *              The limit is never exceeded. Before a call is refused, the heap takes back the blocks in all threads' caches, and releases its runs
 *              of pages without live blocks.
 *   End        No other thread may be in a call for the heap, or use its blocks, once hak_heap_reset or hak_heap_destroy has begun. Other threads
 *              may end, fork or use other heaps during the call. Afterwards, the old blocks must not be used. While their memory has not been used
 *              again, a free of such a block does nothing, and the first such free is reported with one line on stderr. A realloc of such a block
 *              ends the program. If the memory has been used again, the mistake cannot be detected.
 *   fork       The child has the heaps. Blocks in the caches of threads that the child does not have stay in use until a reset.
 *   Handles    The memory of a handle is never unmapped. A call with the handle of a destroyed heap fails with errno EINVAL until hak_heap_create
 *              returns the same handle again. A handle must not be NULL, unless the comment of the function allows it.
 *   Profiles   Profiles and guards (docs/PROFILING.md, docs/GUARD.md) see only blocks outside these heaps. While an option checks each free, heaps
 *              have no caches, and a double free is found at once. */
typedef struct hak_heap hak_heap_t;

/* Returns a new heap, or NULL with errno ENOMEM. `name` is shown in reports. It may be NULL, its first 63 bytes are copied, and several heaps may
 * have the same name. `limit` is in bytes, and 0 means no limit. The heap has no memory at first. Its first small block takes 65536 bytes from the
 * limit. There can be up to 65535 heaps at a time. */
HAK_USED_ hak_heap_t *hak_heap_create(const char *name, size_t limit);
/* Frees all blocks of the heap. The heap keeps its name, its limit and its peak. Returns 0, or -1 with errno EINVAL if `heap` is NULL or was
 * destroyed. The call takes time for each run of pages, but not for each block. It makes system calls only for blocks of more than 1 MiB, because the
 * other memory stays with HAKMEM for reuse. */
int hak_heap_reset(hak_heap_t *heap);
/* Frees all blocks of the heap, and destroys the heap. The result and the cost are those of hak_heap_reset. */
int hak_heap_destroy(hak_heap_t *heap);
/* Sets the limit in bytes. A heap that already has more memory than the new limit keeps this memory. Returns 0, or -1 with errno EINVAL. */
int hak_heap_set_limit(hak_heap_t *heap, size_t limit);
/* Returns the heap of the block. Returns NULL if the block belongs to no heap of the program, or if `block` is NULL or not a block. Keeps errno. */
hak_heap_t *hak_heap_of(const void *block);

/* These functions work as hak_malloc, hak_calloc and hak_realloc, but their blocks are in the heap `heap`. They return NULL with errno ENOMEM if the
 * system or the limit refuses memory, and with errno EINVAL if the heap was destroyed. hak_heap_realloc moves a block from elsewhere to `heap`. */
HAK_FRESH_ HAK_SIZE_(2) HAK_USED_ void *hak_heap_malloc(hak_heap_t *heap, size_t size);
HAK_FRESH_ HAK_PRODUCT_(2, 3) HAK_USED_ void *hak_heap_calloc(hak_heap_t *heap, size_t count, size_t size);
HAK_SIZE_(3) HAK_USED_ void *hak_heap_realloc(hak_heap_t *heap, void *block, size_t size);
/* Returns a block at a multiple of `alignment`, or NULL with errno EINVAL if `alignment` is not a power of two. */
HAK_FRESH_ HAK_SIZE_(3) HAK_ALIGN_(2) HAK_USED_
    void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t size);
/* Frees the block as hak_free does. The call is a little faster than hak_free if the block belongs to `heap`. Keeps errno. */
void hak_heap_free(hak_heap_t *heap, void *block);

/* Statistics of a heap. New versions add fields only at the end. */
struct hak_heap_stats {
    uint64_t size;        /* bytes of this struct that the library has filled in; see HAK_STATS_HAS */
    uint64_t limit;       /* 0 if there is no limit */
    uint64_t physical;    /* bytes of memory that the limit counts */
    uint64_t peak;        /* the highest value of `physical` since hak_heap_create */
    uint64_t live;        /* bytes in blocks that the program has, rounded up to their size classes */
    uint64_t cached;      /* bytes in free blocks in threads' caches; may be slightly out of date */
    uint64_t large;       /* part of `physical` and of `live`: blocks of more than 1 MiB */
    uint64_t live_blocks; /* number of the blocks in `live` */
    uint64_t caches;      /* threads that have had a cache of the heap since its last reset */
    uint64_t mallocs;     /* blocks that were allocated since hak_heap_create */
    uint64_t refused;     /* calls that the limit has refused */
    uint64_t resets;      /* calls of hak_heap_reset */
    char name[64];        /* ends with a zero byte */
};
/* Fills in the statistics. `size` has the same meaning as for hak_get_stats. Returns 0, or -1 with errno EINVAL if a pointer is NULL, if the heap has
 * ended, or if `size` is too small for one field. */
int hak_heap_get_stats(hak_heap_t *heap, struct hak_heap_stats *stats, size_t size);

/* These are the dlopen and dlmopen of libhakmem.so. They open plugins without RTLD_DEEPBIND, because a plugin with this flag would pass HAKMEM's
 * blocks to the C library's free (HAKMEM_DEEPBIND in docs/OPTIONS.md). A program that is linked with libhakmem.a and a shared C library gets them
 * under the usual names with -Wl,--defsym=dlopen=hak_dlopen,--defsym=dlmopen=hak_dlmopen. `space` is an Lmid_t. Results and errno are those of the C
 * library's functions. If the C library does not have the function, the result is NULL. */
void *hak_dlopen(const char *file, int mode);
void *hak_dlmopen(long space, const char *file, int mode);

/* This is the pthread_create of libhakmem.so. It counts the threads of the program, so that HAKMEM knows when it may create a background thread of
 * its own (HAKMEM_BACKGROUND in docs/OPTIONS.md). With libhakmem.a and a shared C library, link with -Wl,--defsym=pthread_create=hak_pthread_create.
 * Returns 0 or an error number, as the C library's function does. Returns ENOSYS if the C library does not have this function. */
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
