/* Declares the slow paths that all exported functions share, and those of user heaps.
 * Threads  Any thread may call these functions. Only one thread at a time may use, free or resize a block. */
#pragma once

#include "tcache/layout.h"

/* HK_CALLER is the return address of the exported function, but only in that function, in its tail calls, and in functions inlined into it. */
#define HK_CALLER __builtin_return_address(0)

/* Serves a malloc after a miss. If memory is refused, returns NULL and sets errno to ENOMEM. malloc calls this function as a tail call, so that
 * HK_CALLER still is malloc's return address. A parameter for this address would cost an instruction. */
void *hk_malloc_slow(size_t size);
/* Allocates a block after a miss of a function other than malloc. Returns NULL if memory is refused, and does not set errno. */
void *hk_alloc_slow(struct hk_request *request);
/* Counts a refusal of memory, sets errno to ENOMEM and returns NULL. Before the loader has relocated HAKMEM, only returns NULL. */
void *hk_refuse(size_t size);
/* Copies exactly `bytes` bytes from `block` to `to`, frees `block`, and returns `to`. Does not copy in larger steps, because a sampled block may end
 * at a guard page. If `to` is NULL, does nothing and returns NULL. */
void *hk_move_exactly(void *to, void *block, size_t bytes);
/* Each of these functions finishes a free or delete after one kind of miss (enum hk_free_end). The free and delete forms differ only in the name of
 * the call in messages. `offset` is the block's page map entry XOR the thread's key, and is the bin's offset if this thread owns the slab. */
void hk_free_elsewhere(void *block);
void hk_delete_elsewhere(void *block);
void hk_free_not_mine(void *block, struct hk_thread_state *hot, size_t offset);
void hk_delete_not_mine(void *block, struct hk_thread_state *hot, size_t offset);
void hk_free_medium(void *block, struct hk_thread_state *hot, size_t offset);
void hk_delete_medium(void *block, struct hk_thread_state *hot, size_t offset);
void hk_free_full(void *block, struct hk_thread_state *hot, size_t offset);
void hk_delete_full(void *block, struct hk_thread_state *hot, size_t offset);

/* Frees a block on the hit path. After a miss, makes one of the four calls that are the macro's arguments. The calls may use `hot` and `offset`. */
#define HK_FREE_OR(block, elsewhere, not_mine, medium, full)                                                           \
    do {                                                                                                               \
        struct hk_thread_state *hot;                                                                                   \
        size_t offset;                                                                                                 \
        enum hk_free_end end = hk_hit_free(block, &hot, &offset);                                                      \
        if (HK_UNLIKELY(end == HK_FREE_ELSEWHERE))                                                                     \
            elsewhere;                                                                                                 \
        else if (HK_UNLIKELY(end == HK_FREE_NOT_MINE))                                                                 \
            not_mine;                                                                                                  \
        else if (HK_UNLIKELY(end == HK_FREE_MEDIUM))                                                                   \
            medium;                                                                                                    \
        else if (HK_UNLIKELY(end == HK_FREE_FULL))                                                                     \
            full;                                                                                                      \
    } while (0)

/* Frees a block. realloc calls this function instead of hak_free(), because compilers do not inline an exported function. */
HK_INLINE void hk_free(void *block)
{
    HK_FREE_OR(block, hk_free_elsewhere(block), hk_free_not_mine(block, hot, offset),
               hk_free_medium(block, hot, offset), hk_free_full(block, hot, offset));
}

/* After a miss, these functions finish a free or delete that names a size, and check the size (guard/block_checks.h). Hits and remote frees do not
 * check the size, because the check would slow them down. */
void hk_sized_elsewhere(void *block, size_t size, enum hk_call call);
void hk_sized_medium(void *block, size_t size, size_t offset, struct hk_thread_state *hot, enum hk_call call);
void hk_sized_full(void *block, size_t size, size_t offset, struct hk_thread_state *hot, enum hk_call call);

/* Sets errno to `error` and returns NULL. */
void *hk_failed(int error);
/* Allocates a block of a user heap after a miss. Returns NULL and sets errno if memory is refused or the heap has ended. */
void *hk_heap_alloc_slow(struct hak_heap *heap, size_t size, size_t align, bool *zeroed, void *caller);
/* Frees a block whose page map entry names a heap. */
void hk_free_in_heap(enum hk_call call, void *block, uint32_t entry, struct hk_thread_state *hot);
/* Frees a block of a heap after a miss: the cache of the thread has no room, the heap has ended, or attach sampling has picked the block. */
void hk_free_in_heap_slow(enum hk_call call, void *block, uint32_t entry);
/* Resizes a heap's block for realloc. The block stays in its heap. Returns NULL and sets errno if memory is refused. */
void *hk_heap_resized(void *block, size_t size, void *caller);
