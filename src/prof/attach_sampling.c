/* Begins and ends the rounds in which a running process is sampled. */
#include "prof/attach_sampling.h"
#include "tcache/pool.h"

enum {
    ROUND_NS = 5000000,
    ROUND_PICKS = 64,
    ROUND_CALLS = 32768,
    CALLS_PER_LOOK = 32,
    FINE_PART = 32, /* fine blocks are picked in rounds only; the mean bytes between picks are then `mean` / 32 */
};

struct hk_attach_sampling hk_attach_sampling HK_COLD_DATA;

/* Updates the counts of blocks that the bins and the user heaps have served. */
static void note_served(void)
{
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        hk_store(hk_attach_sampling.xserved[class],
                 hk_tcaches_served(class) - hk_load(hk_attach_sampling.xserved_before[class]));
}

bool hk_attach_sampling_begin(uint64_t mean)
{
    struct hak_heap *heap = hk_load(hk_attach_sampling.xheap);
    if (heap == NULL && (heap = hk_heap_open("sampled by hakmem", 0)) == NULL)
        return false;
    heap->has_caches = false;
    hk_store_release(hk_attach_sampling.xheap, heap);
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        hk_store(hk_attach_sampling.xserved_before[class],
                 hk_tcaches_served(class) - hk_load(hk_attach_sampling.xserved[class]));
    hk_store(hk_attach_sampling.xmean, mean);
    hk_store(hk_attach_sampling.xfine_mean, hk_max(1, mean / FINE_PART));
    hk_store_release(hk_attach_sampling.xon, true);
    hk_heaps_set_sampled(true);
    hk_gate_shut(HK_SHUT_ATTACHED);
    return true;
}

static void end_round(void)
{
    if (atomic_exchange_explicit(&hk_attach_sampling.xround, false, memory_order_relaxed))
        hk_gate_release(HK_SHUT_FINE);
}

void hk_attach_sampling_end(void)
{
    note_served();
    hk_store(hk_attach_sampling.xon, false);
    hk_store(hk_attach_sampling.xround, false);
    hk_gate_release(HK_SHUT_FINE | HK_SHUT_ATTACHED);
}

void hk_attach_sampling_tick(void)
{
    note_served();
    if (!hk_load(hk_attach_sampling.xon))
        return;
    hk_store(hk_attach_sampling.xends_ns, hk_os.clock_ns() + ROUND_NS);
    hk_store(hk_attach_sampling.xcalls, ROUND_CALLS);
    hk_store(hk_attach_sampling.xpicks, ROUND_PICKS);
    hk_add(hk_attach_sampling.xrounds, 1);
    hk_store(hk_attach_sampling.xround, true);
    hk_gate_shut(HK_SHUT_FINE);
}

static HK_COLD void count_calls(void)
{
    uint32_t left = hk_sub(hk_attach_sampling.xcalls, CALLS_PER_LOOK);
    if (left - 1 >= ROUND_CALLS || left <= CALLS_PER_LOOK || hk_os.clock_ns() >= hk_load(hk_attach_sampling.xends_ns))
        end_round();
}

bool hk_attach_sampling_picks(struct hk_tcache *cache, size_t size)
{
    bool fine = size <= HK_FINE_MAX;
    if (!hk_load_acquire(hk_attach_sampling.xon) || (fine && !hk_load(hk_attach_sampling.xround)))
        return false;
    if (fine && ++cache->watched_calls % CALLS_PER_LOOK == 0)
        count_calls();
    if (!hk_countdown_runs_out(&cache->countdown, fine ? size : hk_max(1, size / FINE_PART)) ||
        !hk_countdown_picks(&cache->countdown, hk_load(hk_attach_sampling.xfine_mean)))
        return false;
    uint32_t left = fine ? hk_sub(hk_attach_sampling.xpicks, 1) : ROUND_PICKS;
    if (left == 1)
        end_round();
    return left - 1 < ROUND_PICKS;
}

void *hk_attach_sampling_alloc(size_t size, size_t align)
{
    bool by_limit;
    unsigned class = hk_class_of_aligned(size, align);
    return class < HK_FINE_CLASSES ? hk_heap_refill(NULL, hk_load_acquire(hk_attach_sampling.xheap), class, &by_limit)
                                   : NULL;
}
