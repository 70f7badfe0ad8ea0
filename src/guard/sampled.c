/* Allocates sampled blocks next to guard pages, and reports wrong accesses and frees of these blocks. */
#include "guard/sampled.h"
#include <errno.h>
#include "guard/fault_text.h"
#include "guard/sampled_due.h"

void hk_sampled_tell(const struct hk_slot *slot, uintptr_t address, const struct hk_fault *fault, const char *what,
                     const struct hk_packed_stack *by)
{
    static const char *const accesses[] = {": access at", ": read at", ": write at"};
    HK_COUNT(guard_faults, 1);
    struct hk_text *text = hk_fault_text_begin();
    if (text == NULL)
        return;
    uintptr_t block = hk_load(slot->xblock), end_of_block = block + hk_load(slot->xsize);
    bool freed = hk_load(slot->xstate) == HK_SLOT_FREED;
    if (fault != NULL)
        what = freed ? HK_TEXT_after_free : address < block ? HK_TEXT_access_before : HK_TEXT_access_behind;
    hk_text_add(text, "hakmem: %s%s 0x%zx, ", what, fault != NULL ? accesses[fault->access] : "", address);
    if (address < block)
        hk_text_add(text, "%zu bytes before the start of the", block - address);
    else if (address >= end_of_block)
        hk_text_add(text, "%zu bytes behind the end of the", address - end_of_block);
    else
        hk_text_add(text, "byte %zu of the", address - block);
    hk_text_add(text, " %sblock of %zu bytes at 0x%zx\n", freed ? "freed " : "", hk_load(slot->xsize), block);
    hk_fault_text_packed("allocated", &slot->allocated);
    hk_fault_text_packed("freed", &slot->freed);
    if (fault != NULL)
        hk_fault_text_access(fault);
    else
        hk_fault_text_packed("called", by);
    hk_fault_text_end();
}

/* Reports a fault in the slots. Passes on faults outside the slots or in accessible pages of live blocks, because HAKMEM did not cause them. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    bool here = info->si_code > 0 && hk_slots_hold((const void *)address);
    const struct hk_slot *slot = here ? hk_slot_near(address) : NULL;
    uint8_t state = slot != NULL ? hk_load_acquire(slot->xstate) : HK_SLOT_UNUSED;
    if (state == HK_SLOT_UNUSED || (state == HK_SLOT_LIVE && hk_slot_opens(slot, address))) {
        hk_os_pass_fault(number, info, context);
        return;
    }
    struct hk_fault fault = hk_os_fault_of(context);
    hk_sampled_tell(slot, address, &fault, NULL, NULL);
    hk_os_leave_fault(number);
}

static HK_NOINLINE void stack_here(struct hk_packed_stack *by, void *caller)
{
    struct hk_stack stack;
    hk_stack_capture(&stack, caller);
    hk_stack_pack(by, &stack, hk_os_thread_id());
}

void *hk_sampled_alloc(struct hk_request *request)
{
    static _Atomic bool xwatched;
    struct hk_tcache *cache = hk_tcache_self();
    if (HK_LIKELY((cache != NULL && cache->sampling) || !hk_sample_is_due(cache, request)))
        return NULL;
    int saved_errno = errno;
    cache->sampling = true;
    struct hk_slot *slot = hk_slot_take(request->size, request->align);
    if (slot != NULL) {
        if (!atomic_exchange(&xwatched, true))
            hk_store(xwatched, hk_os_catch_faults(on_fault));
        stack_here(&slot->allocated, request->caller);
    }
    cache->sampling = false;
    errno = saved_errno;
    if (slot == NULL) {
        HK_COUNT(guard_missed, 1);
        return NULL;
    }
    HK_COUNT(guard_samples, 1);
    request->zeroed = true;
    return (void *)hk_load(slot->xblock);
}

static HK_COLD _Noreturn void refuse_pointer(enum hk_call call, const void *block, enum hk_slot_find found,
                                             void *caller)
{
    struct hk_packed_stack by;
    const struct hk_slot *slot = hk_slot_near((uintptr_t)block);
    bool known = hk_load(slot->xstate) != HK_SLOT_UNUSED, inside = hk_slot_opens(slot, (uintptr_t)block);
    bool again = found == HK_SLOT_FREE_ALREADY;
    stack_here(&by, caller);
    if (known)
        hk_sampled_tell(slot, (uintptr_t)block, NULL, again ? HK_TEXT_sampled_again : HK_TEXT_sampled_inside, &by);
    hk_invalid_pointer(call, again ? HK_TEXT_already_free : known && inside ? HK_TEXT_inside : HK_TEXT_foreign, block);
}

size_t hk_sampled_size(enum hk_call call, const void *block)
{
    enum hk_slot_find found = hk_slot_find(block);
    if (HK_UNLIKELY(found != HK_SLOT_BLOCK))
        refuse_pointer(call, block, found, __builtin_return_address(0));
    return hk_load(hk_slot_near((uintptr_t)block)->xsize);
}

HK_COLD void hk_sampled_free(enum hk_call call, void *block, void *caller)
{
    struct hk_packed_stack by;
    stack_here(&by, caller);
    const struct hk_slot *slot = hk_slot_near((uintptr_t)block);
    uintptr_t damage = hk_slot_find(block) == HK_SLOT_BLOCK ? hk_slot_damage(slot) : 0;
    if (HK_UNLIKELY(damage != 0)) {
        hk_sampled_tell(slot, damage, NULL, HK_TEXT_sampled_beside, &by);
        hk_invalid_pointer(call, HK_TEXT_written_beside, block);
    }
    enum hk_slot_find found = hk_slot_put(block, &by);
    if (HK_UNLIKELY(found != HK_SLOT_BLOCK))
        refuse_pointer(call, block, found, caller);
}
