/* Holds the two records that stand in for the cache of a thread that has none. Also opens and shuts the gate of the hit path. */
#include "tcache/layout.h"

struct hk_gate hk_gate HK_EACH_PROCESS_DATA;

static void *no_items[2];

void hk_bin_reset(struct hk_bin *bin) { bin->top = bin->limit = bin->base = no_items + 1; }

static size_t opens_to HK_EACH_PROCESS_DATA; /* the largest size of a hit while nobody shuts the gate */
/* Protects xshut_by and HAKMEM's writes to the gate. Without it, a thread could open the gate by an older value of xshut_by while recall.c takes blocks. */
static struct hk_lock gate_lock = HK_LOCK_INIT(HK_RANK_GATE);
static _Atomic unsigned xshut_by;

static void set_gate(unsigned shut, unsigned released)
{
    hk_lock(&gate_lock);
    unsigned by = (hk_load(xshut_by) | shut) & ~released;
    hk_store(xshut_by, by);
    bool open = opens_to == HK_ALL_HIT && (by & (HK_SHUT_FINE | HK_SHUT_IN_ROUND | HK_SHUT_RECALL)) == 0;
    __atomic_store_n(&hk_gate.coarse_sizes, open && by == 0 ? HK_MEDIUM_MAX - HK_FINE_MAX : 0, __ATOMIC_RELEASE);
    (open ? hk_mode_set : hk_mode_clear)(HK_MODE_OPEN);
    (by & HK_SHUT_IN_ROUND ? hk_mode_set : hk_mode_clear)(HK_MODE_IN_ROUND);
    (by & HK_SHUT_RECALL ? hk_mode_set : hk_mode_clear)(HK_MODE_RECALL);
    size_t below = opens_to > 0 && by == 0 ? hk_min(opens_to, HK_FINE_MAX) + 1 : 0;
    __atomic_store_n(&hk_gate.sizes_below, below, __ATOMIC_RELEASE);
    hk_unlock(&gate_lock);
}

void hk_gate_open(size_t sizes_to)
{
    hk_window_open(sizes_to == HK_ALL_HIT);
    opens_to = sizes_to;
    set_gate(0, 0);
}

void hk_gate_shut(unsigned by) { set_gate(by, 0); }
void hk_gate_release(unsigned by) { set_gate(0, by); }

bool hk_gate_counts_all(void) { return opens_to == 0 || (hk_load(xshut_by) & HK_SHUT_TO_COUNT) != 0; }

struct hk_cacheless hk_thread_unborn, hk_thread_ended HK_COLD_DATA;

_Thread_local struct hk_thread_state *hk_self = &hk_thread_unborn.hot;

/* Initializes a record at run time, because static initializers for its pointers would need 240 relocations, which take 8 KiB of the library file. */
void hk_cacheless_shut(struct hk_cacheless *cacheless)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_bin_reset(&cacheless->hot.bins[class]);
    cacheless->hot.key = HK_NO_KEY;
    hk_outbox_shut(&cacheless->outbox);
    if (hk_gate.fine_offsets != NULL)
        return; /* an earlier call has set the fields below, which must not change while the gate is open */
    hk_lock_register(HK_RANK_GATE, &gate_lock);
    hk_gate.self = hk_window.self = (uintptr_t)&hk_self - HK_THREAD_POINTER();
    hk_gate.fine_offsets = hk_fine_offsets;
}
