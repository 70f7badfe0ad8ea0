/* Runs the steps of the start in order, under a lock. */
#include "runtime/start.h"

#include "base/message.h"
#include "large/large.h"
#include "guard/sampled.h"
#include "heaps/heap_state.h"
#include "os/os.h"
#include "guard/guard.h"
#include "guard/track_report.h"
#include "policy/policy.h"
#include "policy/profile.h"
#include "prof/hooks.h"
#include "prof/sites.h"
#include "runtime/background.h"
#include "runtime/exit_report.h"
#include "runtime/learning.h"
#include "runtime/named_file.h"
#include "span/meta.h"
#include "span/page_heap.h"
#include "span/page_map.h"
#include "tcache/pool.h"

struct hk_lock hk_start_lock = HK_LOCK_INIT(HK_RANK_START);

static unsigned steps_done HK_EACH_PROCESS_DATA; /* read before it is written: a page of zeros would cost two faults */
_Atomic bool hk_start_done;

/* Before relocation, the value is that in the file, not the address. */
static void *volatile own_address = (void *)&own_address;

bool hk_is_bootstrapping(void)
{
    /* Once false, it stays false; hk_self is initialized last. */
    return (uintptr_t)own_address != (uintptr_t)&own_address || !hk_os.has_thread_pointer() || hk_self == NULL;
}

static bool step_options(void)
{
    hk_options_read(hk_profile_apply);
    hk_reports_check();
    hk_named_files_begin();
    if (hk_reports_wanted())
        hk_options.background = HK_BACKGROUND_ON;
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_slab_lists_share();
    hk_policy_begin();
    return true;
}

static void init_locks_and_lists(void)
{
    hk_meta_init();
    hk_descriptors_init();
    hk_owners_init();
    hk_page_heap_init();
    hk_large_init();
    hk_heap_state_init();
    hk_decay_init();
    hk_pool_init();
    hk_sites_init();
    hk_sampled_begin();
}

static bool step_lists(void)
{
    hk_track_report_begin();
    hk_guard_begin();
    init_locks_and_lists();
    if (hk_background_home() == 0)
        hk_background_settle();
    hk_background_reset();
    hk_learning_begin();
    size_t hits_to = hk_hooks_begin(), hits_unguarded_to = hits_to;
    if (hk_guard.on)
        hits_to = 0;
    hk_cacheless_shut(&hk_thread_unborn);
    hk_gate_open(hits_to);
    if (hits_unguarded_to != HK_ALL_HIT) {
        hk_guard_take_hooks();
        hk_hooks_open();
    }
    return true;
}

static bool start_locked(void)
{
    static bool (*const steps[])(void) = {step_options, hk_page_map_init, step_lists};
    while (steps_done < sizeof steps / sizeof steps[0]) {
        if (!steps[steps_done]())
            return false;
        steps_done++;
    }
    return true;
}

HK_COLD bool hk_start(void)
{
    if (hk_is_bootstrapping())
        return false;
    hk_lock(&hk_start_lock);
    bool started = start_locked();
    hk_store_release(hk_start_done, started);
    hk_unlock(&hk_start_lock);
    return started;
}
