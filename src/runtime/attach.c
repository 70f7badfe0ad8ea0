/* Exports the record by which the tool `hakmem` finds the state of a running process. Starts and stops sampling at the request of the tool. */
#include "runtime/attach.h"
#include "prof/hooks.h"

struct hk_attach_state hk_attach_state HK_COLD_DATA;

/* If no sampling begins, opens the gate that `hakmem` has shut, unless hooks need it shut. At the end, clears this request, but keeps a newer one. */
static HK_COLD void answer(uint64_t wanted)
{
    bool ends = wanted == HK_ATTACH_END, every_call = hk_hooks.mean != 0 && !hk_hooks.watches;
    bool begun = !ends && (every_call || hk_hooks_watch(wanted));
    if (ends && hk_hooks.watches)
        hk_attach_sampling_end();
    else if (!begun && HK_LOAD_SETTLED(hk_window.hits) != 0)
        hk_gate_release(HK_SHUT_FINE);
    hk_attach_state.every_call = hk_hooks.mean != 0 && !hk_hooks.watches;
    hk_attach_state.mean = hk_hooks.watches ? hk_load(hk_attach_sampling.xmean) : hk_hooks.mean;
    hk_attach_state.fine_mean = hk_load(hk_attach_sampling.xfine_mean);
    hk_attach_state.fine_max = HK_FINE_MAX;
    hk_attach_state.fine_classes = HK_FINE_CLASSES;
    hk_attach_state.began_ms = hk_hooks.began_ms;
    hk_attach_state.sites = (uintptr_t)hk_samples.xsites;
    hk_attach_state.site_count = HK_SAMPLE_SITES;
    hk_attach_state.site_stack = offsetof(struct hk_site, stack);
    hk_attach_state.site_lifetimes = offsetof(struct hk_site, xlifetimes);
    hk_attach_state.lifetimes = HK_SAMPLE_LIFETIMES;
    hk_attach_state.place_count = hk_samples.place_count;
    hk_attach_state.blocks = (uintptr_t)hk_samples.xblocks;
    hk_attach_state.records = (uintptr_t)hk_samples.xrecords;
    hk_attach_state.born = (uintptr_t)hk_samples.xborn;
    hk_attach_state.record_site_bits = HK_SAMPLE_SITE_BITS;
    hk_store_release(hk_attach_state.xstate, ends ? HK_ATTACHED_ENDED : begun ? HK_ATTACHED : HK_ATTACHED_REFUSED);
    atomic_compare_exchange_strong(&hk_attach_state.xwanted, &wanted, 0);
}

void hk_attach_look(void)
{
    uint64_t wanted = hk_load(hk_attach_state.xwanted);
    if (HK_UNLIKELY(wanted != 0))
        answer(wanted);
    if (hk_hooks.watches)
        hk_attach_sampling_tick();
}

/* hak_attach is exported, so that `hakmem` finds it by its name. If the program was stripped of names, `hakmem` searches for the bytes of `magic`. */
HK_RETAIN HK_EXPORT const struct hk_attach_door hak_attach = {
    .magic = "hakmem attach 3",
    .state = &hk_attach_state,
    .gate = &hk_gate,
    .due = &hk_decay_learner_due_ms,
    .classes = hk_classes,
    .watch = &hk_attach_sampling,
    .watch_served = offsetof(struct hk_attach_sampling, xserved),
    .class_bytes = sizeof(struct hk_class),
};
