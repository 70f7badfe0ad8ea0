#include "guard/sampled_fault.h"

#include <signal.h>

#include "guard/sampled_report.h"
#include "os/os.h"

/* A live block's own pages are accessible, unless the program changed their protection. */
static bool is_mistake(const struct hk_slot *slot, uintptr_t address)
{
    switch (hk_load_acquire(slot->xstate)) {
    case HK_SLOT_LIVE: return !hk_slot_opens(slot, address);
    case HK_SLOT_FREED: return true;
    default: return false;
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    bool here = info->si_code > 0 && hk_slots_hold((const void *)address);
    const struct hk_slot *slot = here ? hk_slot_near(address) : NULL;
    if (slot == NULL || !is_mistake(slot, address)) {
        hk_os.pass_fault(number, info, context);
        return;
    }
    struct hk_fault fault = hk_os.fault_of(context);
    hk_sampled_tell_fault(slot, address, &fault);
    hk_os.leave_fault(number);
}

void hk_sampled_watch(void)
{
    static _Atomic bool xwatched;
    if (!atomic_exchange(&xwatched, true))
        hk_store(xwatched, hk_os.catch_faults(on_fault));
}
