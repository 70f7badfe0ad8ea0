/* A user heap is a heap that the program creates. Its state is its name, its limit, and the lists of its memory.
 *
 *   hak_heap_create() opens a heap, hak_heap_reset() frees its blocks, and hak_heap_destroy() closes it. Each of these calls begins a new generation.
 *
 * Owns       This file owns the table of heaps by number, the locks of heaps, and the records of closed heaps, which are reused.
 * Invariant  The generation is odd exactly while the heap is open. Blocks in caches of earlier generations no longer exist.
 *            `xcharged` counts the bytes of all slices and large blocks of the heap. `xcharged` is above the limit only if the limit was lowered
 *            later. The memory of a heap's record is never unmapped, so that a stale handle finds a closed heap or a newer heap.
 * Threads    Any thread may call these functions. The lists need the heap's lock, which several heaps share. */
#pragma once

#include "base/lock.h"
#include "slab/slab.h"

enum {
    HK_HEAPS_MOST = HK_ENDED_HEAP - HK_FIRST_HEAP,
    HK_HEAP_NAME = 64, /* bytes, including the final 0 */
};

struct hak_heap {
    /* These fields are constant while the heap is open. */
    uint32_t index;
    uint32_t key; /* page map entry of the heap's slabs, without the class */
    struct hk_lock *lock;
    char name[HK_HEAP_NAME];
    /* False for HAKMEM's own heap. Also false for a heap with a limit if the system lacks the fence that a recall needs. */
    bool has_caches;
    /* Any thread may use these fields without a lock. */
    _Atomic uint64_t xgeneration HK_ALIGNED(HK_CACHE_LINE);
    _Atomic size_t xlimit; /* bytes; 0: no limit */
    _Atomic size_t xcharged, xpeak;
    _Atomic size_t xbig;       /* bytes of large blocks, included in xcharged */
    _Atomic uint64_t xrefused; /* number of calls that the limit refused */
    /* True while a block may be in the heap profile. The caches then stay shut, because the free of this block must not be a hit. */
    _Atomic bool xsampled;
    /* Only the holder of the heap's lock uses these fields. */
    struct hak_heap *next_closed; /* the next closed heap; used under the table's lock */
    struct hk_link *full;         /* slabs without free blocks */
    struct hk_heap_slice *slices;
    struct hk_link *large;        /* large blocks */
    struct hk_heap_cache *caches; /* list of the caches of this generation */
    uint64_t served, large_calls; /* slab blocks handed out that `caches` do not count; large blocks handed out */
    uint64_t earlier;             /* blocks handed out by closed heaps that had this heap's number */
    uint64_t resets;
    size_t large_blocks_live, taken, taken_blocks; /* number of large blocks; bytes and number of taken slab blocks */
    uint32_t slabs;
    uint16_t slabs_of[HK_CLASSES];
    struct hk_link *partial[HK_CLASSES];    /* slabs with both free and allocated blocks */
    struct hk_link *empty[HK_FINE_CLASSES]; /* at most one slab, whose blocks are all free, kept for the next miss */
};

/* Where `hakmem` finds the table in a core file: the array of its parts, and the number of heaps in a part. */
extern const uintptr_t hk_heaps_layout[];
/* Registers the table's lock for fork. Runs at the start. */
void hk_heap_state_init(void);

/* Returns an open heap without memory, or NULL if memory is refused or no number is left. */
struct hak_heap *hk_heap_open(const char *name, size_t limit);
/* Closes a heap that holds no memory, so that a new heap can get its number. */
void hk_heap_close(struct hak_heap *heap);

/* hk_heaps_end() returns the highest number of any heap plus 1. hk_heap_by_index() returns the heap with this number, or NULL if there is none. */
uint32_t hk_heaps_end(void);
struct hak_heap *hk_heap_by_index(uint32_t index);

/* The lists of a heap end with NULL, so that zeros are empty lists and a new record needs no initialization. */
#define HK_HEAP_LIST_PUSH(list, item)                                                                                  \
    do {                                                                                                               \
        (item)->prev = NULL;                                                                                           \
        (item)->next = *(list);                                                                                        \
        if ((item)->next != NULL)                                                                                      \
            (item)->next->prev = (item);                                                                               \
        *(list) = (item);                                                                                              \
    } while (0)
#define HK_HEAP_LIST_REMOVE(list, item)                                                                                \
    do {                                                                                                               \
        if ((item)->next != NULL)                                                                                      \
            (item)->next->prev = (item)->prev;                                                                         \
        *((item)->prev != NULL ? &(item)->prev->next : (list)) = (item)->next;                                         \
    } while (0)

HK_INLINE bool hk_heap_is_open(struct hak_heap *heap) { return (hk_load(heap->xgeneration) & 1) != 0; }

/* Adds the bytes to xcharged. If xcharged would exceed the heap's limit, adds nothing and returns false. */
bool hk_heap_charge(struct hak_heap *heap, size_t bytes);
HK_INLINE void hk_heap_uncharge(struct hak_heap *heap, size_t bytes) { hk_sub(heap->xcharged, bytes); }
