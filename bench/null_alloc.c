/* The limit: the least that can be called an allocator. One static LIFO stack
 * of blocks that fit any small size; malloc pops, free pushes. It checks
 * nothing, returns no memory, serves one thread only, and at most BLOCKS small
 * blocks live at once. It measures the speed of the harness, and never runs a
 * program.
 *
 * Larger blocks are bumped from a reserved range, and join the stack when they
 * are freed: they are larger than a small block, so that does no harm. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL 2048u
/* One cache line more than the size: neighbours fall into different sets. */
#define STRIDE (SMALL + 64u)
#define BLOCKS 8192u
#define PUSHED 65536u /* bumped blocks that may join the stack */
#define EMPTY 64u     /* NULLs below the stack: a block too many is NULL */
#define RANGE ((size_t)1 << 34)

void *pvalloc(size_t size); /* not in the headers of every C library */

static _Alignas(64) unsigned char arena[BLOCKS][STRIDE];
static void *stack[EMPTY + BLOCKS + PUSHED];
static void **top;
static unsigned char *bump, *bump_end;
/* Sizes below it are served by the stack: none before the first call. */
static size_t served;

static void start(void)
{
    void *range = mmap(NULL, RANGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range != MAP_FAILED) {
        bump = range;
        bump_end = bump + RANGE;
    }
    top = stack + EMPTY;
    for (size_t i = BLOCKS; i-- > 0;)
        *top++ = arena[i];
    served = SMALL + 1;
}

/* The size stands in the 64 bytes before the block. */
static void *take_range(size_t align, size_t size)
{
    if (align < 64)
        align = 64;
    uintptr_t at = ((uintptr_t)bump + 64 + align - 1) & ~(uintptr_t)(align - 1);
    size_t rounded = size < SMALL ? SMALL : size;
    if (bump == NULL || rounded > RANGE || at + rounded > (uintptr_t)bump_end) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy((void *)(at - sizeof(size_t)), &rounded, sizeof rounded);
    bump = (unsigned char *)(at + rounded);
    return (void *)at;
}

__attribute__((noinline, cold)) static void *take_slow(size_t size)
{
    if (top == NULL)
        start();
    return size < served ? *--top : take_range(64, size);
}

static inline void *take(size_t size)
{
    if (__builtin_expect(size >= served, 0))
        return take_slow(size);
    return *--top;
}

static size_t size_of(const void *block)
{
    uintptr_t at = (uintptr_t)block, first = (uintptr_t)arena;
    if (at - first < sizeof arena)
        return SMALL;
    size_t size;
    memcpy(&size, (const void *)(at - sizeof size), sizeof size);
    return size;
}

static void *take_aligned(size_t align, size_t size)
{
    if (top == NULL)
        start();
    return align <= 64 ? take(size) : take_range(align, size);
}

void *malloc(size_t size) { return take(size); }

void free(void *block)
{
    *top = block;
    top += block != NULL;
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = take(bytes);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

void *realloc(void *block, size_t size)
{
    if (block == NULL)
        return take(size);
    size_t old = size_of(block);
    if (size <= old)
        return block;
    void *moved = take(size);
    if (moved != NULL) {
        memcpy(moved, block, old);
        free(block);
    }
    return moved;
}

void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

void *aligned_alloc(size_t align, size_t size) { return take_aligned(align, size); }
void *memalign(size_t align, size_t size) { return take_aligned(align, size); }
void *valloc(size_t size) { return take_aligned(4096, size); }
void *pvalloc(size_t size) { return take_aligned(4096, (size + 4095) & ~(size_t)4095); }

int posix_memalign(void **block, size_t align, size_t size)
{
    void *p = take_aligned(align, size);
    if (p == NULL)
        return ENOMEM;
    *block = p;
    return 0;
}

size_t malloc_usable_size(void *block) { return block != NULL ? size_of(block) : 0; }
