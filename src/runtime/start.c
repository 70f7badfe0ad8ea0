/* Runs the steps of the start in order, under a lock. */
#include "runtime/start.h"

#include <dlfcn.h>

#include "base/message.h"
#include "large/large.h"
#include "guard/sampled.h"
#include "heaps/heap_state.h"
#include "os/os.h"
#include "guard/guard.h"
#include "guard/track_report.h"
#include "policy/policy.h"
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
#include "hakmem.h"

struct hk_lock hk_start_lock = HK_LOCK_INIT(HK_RANK_START);

static unsigned steps_done HK_EACH_PROCESS_DATA; /* read before it is written: a page of zeros would cost two faults */
_Atomic bool hk_start_done;

/* Before relocation, the value is that in the file, not the address. */
static void *volatile own_address = (void *)&own_address;

bool hk_is_bootstrapping(void)
{
    /* Once false, it stays false; hk_self is initialized last. */
    return (uintptr_t)own_address != (uintptr_t)&own_address || !hk_os_has_thread_pointer() || hk_self == NULL;
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

#pragma weak dlsym

HK_PROCESS(void *, malloc_of_process, (size_t size), malloc, hak_malloc)
HK_PROCESS(void, free_of_process, (void *block), free, hak_free)

static _Atomic bool xasking;

int hk_answer_who_serves(void) { return hk_load(xasking) ? 0 : HK_MALLOPT_HAKMEM; }

HK_EACH_PROCESS bool hk_process_is_served_by_another(void)
{
    int (*mallopt_of_process)(int, int) = NULL;
    void *(*known)(size_t) = malloc_of_process;
    HK_FORGET(known);
    if (known == hak_malloc || dlsym == NULL)
        return false;
    *(void **)&mallopt_of_process = dlsym(RTLD_DEFAULT, "mallopt");
    hk_store(xasking, true);
    bool answered = mallopt_of_process != NULL && mallopt_of_process(HK_MALLOPT_WHO_SERVES, 0) == HK_MALLOPT_HAKMEM;
    hk_store(xasking, false);
    return answered;
}

/* Decides by a block that the process's malloc returns. */
bool hk_process_is_served(void)
{
    static _Atomic unsigned xanswer;
    enum { NOT_ASKED, YES, NO };
    unsigned answer = hk_load(xanswer);
    if (answer == NOT_ASKED) {
        void *block = HK_WHOEVER(malloc_of_process)(1);
        if (block == NULL)
            return true; /* refused: undecided; the next call tries again */
        answer = hk_page_map_lookup((uintptr_t)block) != 0 || hk_sampled_has(block) ? YES : NO;
        HK_WHOEVER(free_of_process)(block);
        hk_store(xanswer, answer);
    }
    return answer == YES;
}
