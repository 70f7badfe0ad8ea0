/* Heap block: a block in the model of the target `heap`. The functions allocate, resize and free blocks in all ways, and check each call. */
#ifndef TEST_FUZZ_HEAP_BLOCK_H
#define TEST_FUZZ_HEAP_BLOCK_H

#include "unit/fuzz/fuzz.h"

/* Lists the forms of allocation. Those from HEAP_ALIGNED on take an alignment. */
enum heap_how {
    HEAP_MALLOC,
    HEAP_CALLOC,
    HEAP_REALLOC,
    HEAP_REALLOCARRAY,
    HEAP_NEW,
    HEAP_NEW_ARRAY,
    HEAP_NEW_NOTHROW,
    HEAP_NEW_ARRAY_NOTHROW,
    HEAP_VALLOC,
    HEAP_PVALLOC,
    HEAP_ALIGNED,
    HEAP_ALIGNED_ALLOC = HEAP_ALIGNED,
    HEAP_POSIX_MEMALIGN,
    HEAP_MEMALIGN,
    HEAP_NEW_ALIGNED,
    HEAP_NEW_ARRAY_ALIGNED,
    HEAP_NEW_ALIGNED_NOTHROW,
    HEAP_NEW_ARRAY_ALIGNED_NOTHROW,
    HEAP_HOWS
};

struct heap_block {
    void *p; /* NULL: the slot is empty */
    size_t size, align;
    /* the number of bytes that the program may use: the requested size, or the usable size after heap_block_ask() */
    size_t known;
    uint64_t seed;
    uint8_t how; /* enum heap_how */
};

/* These flags say what may happen in this process. */
extern struct heap_rules {
    _Atomic bool xmay_refuse; /* The system or a limit may refuse memory. */
    _Atomic uint64_t xlive;   /* number of live blocks */
    _Atomic uint64_t xseed;   /* seed of the last block */
} heap_rules;

void heap_block_get(struct heap_block *block, enum heap_how how, size_t align, size_t size);
/* Frees the block. `way` is any number, which chooses one of the forms of free that suit the block. */
void heap_block_put(struct heap_block *block, unsigned way);
void heap_block_resize(struct heap_block *block, size_t size, bool array);
/* Asks for the usable size. After this call, the program uses all of these bytes. */
void heap_block_ask(struct heap_block *block);
void heap_block_check(const struct heap_block *block);
/* Requests impossible sizes and alignments, which must be refused. */
void heap_refuse_absurd(unsigned which);

#endif
