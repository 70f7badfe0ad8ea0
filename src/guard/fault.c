#include "guard/fault.h"

#include "guard/states.h"
#include "slab/slab.h"
#include "span/bootstrap.h"
#include "span/foreign.h"
#include "tcache/free_miss.h"

HK_COLD void hk_guard_fault(enum hk_call call, const char *fault, const void *block)
{
    if (!hk_guard.leaves)
        hk_invalid_pointer(call, fault, block);
    HK_COUNT(guard_faults, 1);
    hk_report_pointer(call, fault, block);
}

static const char *fault_in_slab(const void *block)
{
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    size_t index;
    bool begins = hk_which((uintptr_t)block - slab->d.start, slab->reciprocal, &index) && index < slab->d.blocks &&
                  !hk_slab_joins(slab, index);
    if (!begins)
        return "pointer inside a block";
    hk_state_byte *state = hk_state_at((uintptr_t)block);
    return state != NULL && hk_load(*state) != HK_STATE_NONE ? "block already free" : "block never allocated";
}

HK_COLD const char *hk_guard_fault_of(const void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    hk_state_byte *state = hk_state_at((uintptr_t)block);
    if (entry != 0 && hk_entry_class(entry) != HK_CLASS_BIG)
        return fault_in_slab(block);
    if (state != NULL && (uintptr_t)block % HK_FINE_STEP == 0 && (hk_load(*state) & HK_STATE_FREE) != 0)
        return "block already free";
    if (hk_bootstrap_size(block) != SIZE_MAX || hk_foreign_readable(block) != 0)
        return NULL;
    return entry != 0 ? "pointer inside a block" : hk_tcache_foreign_fault(block);
}
