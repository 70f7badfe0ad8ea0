/* Defines the smallest possible allocator, which shows how fast the benchmarks themselves are. It has one static stack of blocks of SMALL bytes.
 * malloc pops a block, and free pushes it. It checks nothing, returns no memory to the system, and serves one thread with at most BLOCKS live
 * small blocks. It has only the four functions that these benchmarks call, and cannot run real programs.
 *
 * Larger blocks are cut from a reserved range, one after the other. When they are freed, they join the stack of small blocks, which does no harm
 * because they are larger than a small block. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL 2048u
/* A block has one cache line more than SMALL bytes, so that neighbors begin in different cache sets. */
#define STRIDE (SMALL + 64u)
#define BLOCKS 8192u
#define PUSHED 65536u /* number of blocks of more than SMALL bytes for which the stack has room */
#define EMPTY 64u     /* number of NULLs below the stack, which malloc returns if the stack is empty */
#define RANGE ((size_t)1 << 34)

static _Alignas(64) unsigned char arena[BLOCKS][STRIDE];
static void *stack[EMPTY + BLOCKS + PUSHED];
static void **top;
static unsigned char *bump, *bump_end;
/* The stack serves sizes below this value. The value is 0 at first, so that the first call takes the slow path. */
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

/* Cuts a block from the range. Its size is stored in the word before the block. */
static void *take_range(size_t size)
{
    uintptr_t at = ((uintptr_t)bump + 127) & ~(uintptr_t)63;
    if (bump == NULL || size > RANGE || at + size > (uintptr_t)bump_end) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy((void *)(at - sizeof size), &size, sizeof size);
    bump = (unsigned char *)(at + size);
    return (void *)at;
}

__attribute__((noinline, cold)) static void *take_slow(size_t size)
{
    if (top == NULL)
        start();
    return size < served ? *--top : take_range(size);
}

static inline void *take(size_t size)
{
    if (__builtin_expect(size >= served, 0))
        return take_slow(size);
    return *--top;
}

static size_t size_of(const void *block)
{
    size_t size = SMALL;
    if ((uintptr_t)block - (uintptr_t)arena >= sizeof arena)
        memcpy(&size, (const char *)block - sizeof size, sizeof size);
    return size;
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
