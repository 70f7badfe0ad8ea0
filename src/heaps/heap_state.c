/* Allocates the records of user heaps, finds a heap by its number, and charges memory to the heap's limit. */
#include "heaps/heap_state.h"
#include "os/os.h"
#include "span/meta.h"

/* The first lock protects the table. Heaps share the other 64 locks, so that a heap needs no memory for a lock, and fork takes few locks. */
enum { LOCKS_OF_HEAPS = 64, HEAPS_IN_PART = 1024, PARTS_OF_HEAPS = 64 };
_Static_assert(HEAPS_IN_PART *PARTS_OF_HEAPS > HK_HEAPS_MOST, "a place for each number");

static struct hk_lock locks[1 + LOCKS_OF_HEAPS] = {[0 ... LOCKS_OF_HEAPS] = HK_LOCK_INIT(HK_RANK_HEAPS)};

static struct {
    _Atomic uint32_t xend;
    struct hak_heap *closed;
    _Atomic(_Atomic(struct hak_heap *) *) xparts[PARTS_OF_HEAPS];
} heap_table HK_COLD_DATA;
const uintptr_t hk_heaps_layout[] = {(uintptr_t)heap_table.xparts, HEAPS_IN_PART};

/* Registers only the first lock, so that fork takes no other lock in a process without heaps. The first heap registers the other locks. */
void hk_heap_state_init(void) { hk_lock_register(HK_RANK_HEAPS, &locks[0]); }

uint32_t hk_heaps_end(void) { return hk_load_acquire(heap_table.xend); }

struct hak_heap *hk_heap_by_index(uint32_t index)
{
    if (index >= hk_heaps_end())
        return NULL;
    return hk_load_acquire(hk_load_acquire(heap_table.xparts[index / HEAPS_IN_PART])[index % HEAPS_IN_PART]);
}

static struct hak_heap *new_heap_locked(void)
{
    uint32_t index = hk_load(heap_table.xend);
    if (index >= HK_HEAPS_MOST)
        return NULL;
    _Atomic(_Atomic(struct hak_heap *) *) *part = &heap_table.xparts[index / HEAPS_IN_PART];
    if (hk_load(*part) == NULL)
        hk_store_release(*part, hk_meta_alloc(HEAPS_IN_PART * sizeof(struct hak_heap *)));
    struct hak_heap *heap = hk_load(*part) != NULL ? hk_meta_alloc(sizeof *heap) : NULL;
    if (heap == NULL)
        return NULL;
    heap->index = index;
    heap->key = hk_entry(HK_FIRST_HEAP + index, 0) | HK_ENTRY_MIXED;
    heap->lock = &locks[1 + index % LOCKS_OF_HEAPS];
    hk_store_release(hk_load(*part)[index % HEAPS_IN_PART], heap);
    hk_store_release(heap_table.xend, index + 1);
    hk_lock_register_more(HK_RANK_HEAPS, LOCKS_OF_HEAPS, sizeof locks[0]);
    return heap;
}

/* Reuses the number of the heap that was closed last, if any, so that the new heap is served by the caches that threads have for this number. */
struct hak_heap *hk_heap_open(const char *name, size_t limit)
{
    hk_lock(&locks[0]);
    struct hak_heap *heap = heap_table.closed != NULL ? heap_table.closed : new_heap_locked();
    if (heap == heap_table.closed && heap != NULL)
        heap_table.closed = heap->next_closed;
    hk_unlock(&locks[0]);
    if (heap == NULL)
        return NULL;
    hk_lock(heap->lock);
    size_t length = name != NULL ? strnlen(name, HK_HEAP_NAME) : 0;
    if (length == HK_HEAP_NAME)
        for (length--; length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80;)
            length--;
    if (length > 0)
        memcpy(heap->name, name, length);
    heap->name[length] = 0;
    hk_store(heap->xlimit, limit);
    hk_store(heap->xpeak, 0);
    hk_store(heap->xrefused, 0);
    heap->earlier += heap->served + heap->large_calls;
    heap->served = heap->large_calls = heap->resets = 0;
    heap->has_caches = limit == 0 || hk_os.can_fence();
    hk_store_release(heap->xgeneration, hk_load(heap->xgeneration) + 1);
    hk_unlock(heap->lock);
    return heap;
}

void hk_heap_close(struct hak_heap *heap)
{
    hk_lock(&locks[0]);
    heap->next_closed = heap_table.closed;
    heap_table.closed = heap;
    hk_unlock(&locks[0]);
}

bool hk_heap_charge(struct hak_heap *heap, size_t bytes)
{
    size_t now = hk_load(heap->xcharged), limit = hk_load(heap->xlimit);
    do {
        if (limit != 0 && (now > limit || bytes > limit - now))
            return false;
    } while (!hk_replace(heap->xcharged, &now, now + bytes, memory_order_relaxed));
    now += bytes;
    size_t peak = hk_load(heap->xpeak);
    while (now > peak && !hk_replace(heap->xpeak, &peak, now, memory_order_relaxed))
        continue;
    return true;
}
