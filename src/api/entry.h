/* Declares the slow paths that all exported functions share.
 * Threads  Any thread may call these functions. */
#ifndef HK_ENTRY_H
#define HK_ENTRY_H

#include "policy/gate.h"
#include "tcache/hit.h"

/* The return address of the exported function. It is valid in that function, in its tail calls, and in functions inlined into it. */
#define HK_CALLER __builtin_return_address(0)

/* Serves a malloc after a miss. If memory is refused, returns NULL and sets errno to ENOMEM. malloc calls this function as a tail call, so that the
 * function itself can read malloc's return address. A parameter for the address would cost each coarse hit an instruction. */
void *hk_malloc_slow(size_t size);
/* Allocates a block after a miss of a function other than malloc. Returns NULL if memory is refused, and does not set errno. */
void *hk_alloc_slow(struct hk_request *request);
/* Counts a refusal of memory, sets errno to ENOMEM and returns NULL. */
void *hk_refuse(size_t size);
/* Copies exactly `bytes` bytes to `to`, and frees the block. The number is not rounded up, because a sampled block may end at a guard page. Returns
 * `to`. If `to` is NULL, does nothing. */
void *hk_move_exactly(void *to, void *block, size_t bytes);
/* These functions continue after a miss of free or delete (enum hk_free_end). The variants for free and for delete differ only in the name of the
 * call in error messages. If the thread owns the block's slab, `offset` is the offset of the block's bin. Otherwise `offset` is the page map entry
 * XOR the thread's key. */
void hk_free_elsewhere(void *block);
void hk_delete_elsewhere(void *block);
void hk_free_not_mine(void *block, struct hk_thread_state *hot, size_t offset);
void hk_delete_not_mine(void *block, struct hk_thread_state *hot, size_t offset);
void hk_free_medium(void *block, struct hk_thread_state *hot, size_t offset);
void hk_delete_medium(void *block, struct hk_thread_state *hot, size_t offset);
void hk_free_full(void *block, struct hk_thread_state *hot, size_t offset);
void hk_delete_full(void *block, struct hk_thread_state *hot, size_t offset);

/* Frees a block on the hit path. A miss makes one of the four calls that are the macro's arguments. The calls may use `hot` and `offset`. */
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

/* Frees a block. realloc calls this function, because compilers inline it, but do not inline hak_free(). */
HK_INLINE void hk_free(void *block)
{
    HK_FREE_OR(block, hk_free_elsewhere(block), hk_free_not_mine(block, hot, offset),
               hk_free_medium(block, hot, offset), hk_free_full(block, hot, offset));
}

/* These functions continue after a miss of a free or delete that names a size. They check the size (see block_checks.h). The hit path does not check
 * the size, because this would slow it. So only the sizes of own medium blocks, of blocks whose bin is full, and of large blocks are checked. */
void hk_sized_elsewhere(void *block, size_t size, enum hk_call call);
void hk_sized_medium(void *block, size_t size, size_t offset, struct hk_thread_state *hot, enum hk_call call);
void hk_sized_full(void *block, size_t size, size_t offset, struct hk_thread_state *hot, enum hk_call call);

#endif
