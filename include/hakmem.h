/* hakmem.h: HAKMEM's own names. A program that preloads or links HAKMEM need not include this: malloc and free are HAKMEM's then.
 *
 * All functions may be called from any thread at any time, from constructors and destructors, and in a fork child.
 * None may be called from a signal handler that can interrupt another of them (as with any malloc).
 * Sizes are bytes. Blocks are aligned to 16 bytes at least. A size of 0 gives a unique pointer that has to be freed.
 * Where memory is refused, the result is NULL and errno is ENOMEM; nothing else has changed. Sizes over PTRDIFF_MAX are refused.
 * A block from any of these, or from malloc and its kin while HAKMEM serves them, may be freed or resized by any of these.
 * An invalid pointer ends the program with one line on stderr (docs/FREE.md). */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <pthread.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that serves, as text. */
const char *hak_version(void);

/* `size` bytes, contents undefined. */
void *hak_malloc(size_t size) __attribute__((malloc, alloc_size(1), warn_unused_result));
/* count * size bytes, zero. An overflowing product is refused. */
void *hak_calloc(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2), warn_unused_result));
/* The block resized, its contents kept up to the smaller size; it may have moved. On failure the old block is as it was.
 * realloc(NULL, n) is malloc(n); realloc(p, 0) frees p and returns NULL without an error. */
void *hak_realloc(void *block, size_t size) __attribute__((alloc_size(2), warn_unused_result));
/* realloc of count * size bytes; an overflowing product is refused. */
void *hak_reallocarray(void *block, size_t count, size_t size) __attribute__((alloc_size(2, 3), warn_unused_result));
/* NULL is allowed and does nothing. errno is kept. */
void hak_free(void *block);
/* free, for who knows the size (C23): the size or alignment asked for. They are hints. */
void hak_free_sized(void *block, size_t size);
void hak_free_aligned_sized(void *block, size_t alignment, size_t size);

/* A block at a multiple of `alignment`, up to 1 GiB and more. As in glibc, an alignment that is no power of two is rounded up
 * to one by memalign and aligned_alloc; one that cannot be rounded up is refused with EINVAL. */
void *hak_aligned_alloc(size_t alignment, size_t size) __attribute__((malloc, alloc_size(2), warn_unused_result));
void *hak_memalign(size_t alignment, size_t size) __attribute__((malloc, alloc_size(2), warn_unused_result));
/* Returns 0, EINVAL (alignment no power of two, or no multiple of sizeof(void *)) or ENOMEM; on error *block is untouched.
 * errno is kept. */
int hak_posix_memalign(void **block, size_t alignment, size_t size) __attribute__((warn_unused_result));
/* Page-aligned; pvalloc also rounds the size up to whole pages. */
void *hak_valloc(size_t size) __attribute__((malloc, alloc_size(1), warn_unused_result));
void *hak_pvalloc(size_t size) __attribute__((malloc, warn_unused_result));

/* Bytes that may be used in the block: what was asked for, or more. 0 for NULL. */
size_t hak_usable_size(void *block);

/* Gives back to the system what is free: the calling thread's cache, empty slabs and cached ranges, at once. Of whole free runs of
 * pages and cached big blocks at most `keep` bytes stay, those freed last. Returns 1 if memory was given back, else 0. Costs system
 * calls. */
int hak_trim(size_t keep);

/* Writes the report (as at exit, see HAKMEM_REPORT in docs/OPTIONS.md) to a file, which is replaced whole: JSON if the name
 * ends in .json, OpenMetrics if in .prom, "-" is stderr. Returns 0, or -1 if the file cannot be written. */
int hak_report(const char *path);

/* Writes the heap profile so far (docs/PROFILING.md) to a file, for pprof or jeprof; "-" is stderr. Returns 0, or -1 if the file
 * cannot be written, or no samples are taken (HAKMEM_HEAP_PROFILE, HAKMEM_HEAP_SAMPLE). */
int hak_heap_profile(const char *path);

/* dlopen and dlmopen as libhakmem.so has them: plugins are opened without RTLD_DEEPBIND, with which they would free blocks of HAKMEM's to
 * the C library (HAKMEM_DEEPBIND in docs/OPTIONS.md). A program that is linked with libhakmem.a, but with a shared C library, gets
 * them under those names by -Wl,--defsym=dlopen=hak_dlopen,--defsym=dlmopen=hak_dlmopen. `space` is an Lmid_t. */
void *hak_dlopen(const char *file, int mode);
void *hak_dlmopen(long space, const char *file, int mode);

/* pthread_create as libhakmem.so has it: it counts the program's threads, so that HAKMEM may have one of its own beside them (HAKMEM_BACKGROUND
 * in docs/OPTIONS.md). With libhakmem.a and a shared C library: -Wl,--defsym=pthread_create=hak_pthread_create. */
int hak_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);

#ifdef __cplusplus
}
#endif

#endif
