/* HeapBlock: a block as the heap's driver knows it, and each way to get it, to resize it and to free it, with what has to hold of each. */
#ifndef TEST_FUZZ_HEAP_BLOCK_H
#define TEST_FUZZ_HEAP_BLOCK_H

#include "unit/fuzz/fuzz.h"

/* The forms of allocation, in order. Those that follow CALLED_ALIGNED take an alignment. */
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
    void *p; /* NULL: none */
    size_t size, align;
    size_t known; /* bytes that the program may use: the size, or more once it has asked */
    uint64_t seed;
    uint8_t how; /* enum heap_how */
};

/* What holds in this process. */
extern struct heap_rules {
    _Atomic bool xmay_refuse; /* the system or a limit refuses memory */
    _Atomic uint64_t xlive;   /* blocks */
    _Atomic uint64_t xseed;   /* of the last block */
} heap_rules;

void heap_block_get(struct heap_block *block, enum heap_how how, size_t align, size_t size);
/* `way`: any number; picks among the forms that suit the block. */
void heap_block_put(struct heap_block *block, unsigned way);
void heap_block_resize(struct heap_block *block, size_t size, bool array);
/* From here on the program uses all that is usable. */
void heap_block_ask(struct heap_block *block);
void heap_block_check(const struct heap_block *block);
/* Sizes and alignments that cannot be. */
void heap_refuse_absurd(unsigned which);

#endif
