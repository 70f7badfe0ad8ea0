/* Entry: the slow paths that all exported functions share.
 * Threads  any. */
#ifndef HK_ENTRY_H
#define HK_ENTRY_H

#include "policy/gate.h"
#include "tcache/hit.h"

/* The return address of the exported function; valid in that function, in its tail calls, and in what is inlined there. */
#define HK_CALLER __builtin_return_address(0)

/* NULL with errno set to ENOMEM if memory is refused. A tail call of malloc: it reads malloc's return address itself,
 * because passing it on would cost each coarse hit an instruction. */
void *hk_malloc_slow(size_t size);
/* The same for other functions, which have tried the bin of a size up to HK_FINE_MAX. NULL without errno. */
void *hk_alloc_slow(struct hk_request *request);
/* What they end with if memory is refused: NULL, with errno set, and the refusal counted. */
void *hk_refuse(size_t size);
/* The misses of free and of delete (enum hk_free_end). They differ in the messages about invalid pointers. `offset` is that of the
 * bin; of a block that is not the thread's, its page map entry less the thread's key. */
void hk_free_elsewhere(void *block);
void hk_delete_elsewhere(void *block);
void hk_free_not_mine(void *block, struct hk_thread_state *hot, size_t offset);
void hk_delete_not_mine(void *block, struct hk_thread_state *hot, size_t offset);
void hk_free_medium(void *block, struct hk_thread_state *hot, size_t offset);
void hk_delete_medium(void *block, struct hk_thread_state *hot, size_t offset);
void hk_free_full(void *block, struct hk_thread_state *hot, size_t offset);
void hk_delete_full(void *block, struct hk_thread_state *hot, size_t offset);

/* Frees a block on the hit path; a miss makes one of the four calls, with the thread's `hot` and the `offset`. */
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

/* Frees a block. Inline, because a compiler that weighs the misses does not inline hak_free() into realloc. */
HK_INLINE void hk_free(void *block)
{
    HK_FREE_OR(block, hk_free_elsewhere(block), hk_free_not_mine(block, hot, offset),
               hk_free_medium(block, hot, offset), hk_free_full(block, hot, offset));
}

/* The misses of a free, or a delete, that is told the size. They check it if that costs correct programs nothing: the thread's own
 * blocks of more than 32 KiB, full bins, large blocks (see block_checks.h). Remote frees are misses like those above. */
void hk_sized_elsewhere(void *block, size_t size, enum hk_call call);
void hk_sized_medium(void *block, size_t size, size_t offset, struct hk_thread_state *hot, enum hk_call call);
void hk_sized_full(void *block, size_t size, size_t offset, struct hk_thread_state *hot, enum hk_call call);

#endif
