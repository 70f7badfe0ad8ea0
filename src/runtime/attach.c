/* Exports the record by which the tool `hakmem` finds the state of a running process. Starts and stops sampling at the request of the tool. */
#include "runtime/attach.h"

struct hk_attach_state hk_attach_state HK_COLD_DATA;

/* If no sampling begins, opens the gate that `hakmem` has shut, unless hooks need it shut. At the end, clears this request, but keeps a newer one. */
static HK_COLD void answer(uint64_t wanted)
{
    bool ends = wanted == HK_ATTACH_END, every_call = hk_hooks.mean != 0 && !hk_hooks.watches;
    bool begun = !ends && (every_call || hk_hooks_watch(wanted));
    if (ends && hk_hooks.watches)
        hk_hooks_unwatch();
    else if (!begun && HK_LOAD_SETTLED(hk_window.hits) != 0)
        hk_gate_release(HK_SHUT_FINE);
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
    .magic = "hakmem attach 4",
    .state = &hk_attach_state,
    .gate = &hk_gate,
    .due = &hk_decay_learner_due_ms,
    .classes = hk_classes,
    .watch = &hk_attach_sampling,
    .hooks = &hk_hooks,
    .samples = &hk_samples,
    .window = &hk_window,
    .descriptors = hk_descriptors_layout,
    .owners = hk_owners_layout,
    .heaps = hk_heaps_layout,
#define HK_AT(type, field) offsetof(struct hk_##type, field),
#define HK_AT_HEAP(field) offsetof(struct hak_heap, field),
#define HK_SIZE(type) sizeof(struct hk_##type),
#define HK_CONSTANT(name) HK_##name,
    .layout =
        {
#include "runtime/layout.def"
        },
};
