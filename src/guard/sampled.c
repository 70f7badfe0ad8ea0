#include "guard/sampled.h"

#include <errno.h>

#include "guard/sampled_fault.h"
#include "guard/sampled_report.h"
#include "os/os.h"

void hk_sampled_begin(void)
{
    hk_slots_init();
    hk_apart_init();
}

static struct hk_packed_stack stack_here(void *caller)
{
    struct hk_stack stack;
    struct hk_packed_stack packed;
    int saved_errno = errno;
    hk_stack_capture(&stack, caller);
    hk_stack_pack(&packed, &stack, hk_os.thread_id());
    errno = saved_errno;
    return packed;
}

static HK_NOINLINE struct hk_slot *take(size_t size, size_t align, void *caller)
{
    hk_stack_prime(caller);
    if (!hk_slots_open())
        return NULL;
    hk_sampled_watch();
    struct hk_packed_stack by = stack_here(caller);
    return hk_slot_take(size, align, &by);
}

/* The loader holds locks that the unwinder wants. */
HK_COLD void *hk_sampled_alloc(size_t size, size_t align, void *caller)
{
    struct hk_tcache *cache = hk_tcache_self();
    if (cache->sampling || hk_os.in_loader(caller))
        return NULL;
    int saved_errno = errno;
    cache->sampling = true;
    struct hk_slot *slot = take(size, align, caller);
    cache->sampling = false;
    errno = saved_errno;
    if (slot == NULL) {
        HK_COUNT(guard_missed, 1);
        return NULL;
    }
    HK_COUNT(guard_samples, 1);
    return (void *)hk_load(slot->xblock);
}

static HK_COLD _Noreturn void refuse_pointer(enum hk_call call, const void *block, enum hk_slot_find found,
                                             const struct hk_packed_stack *by)
{
    const struct hk_slot *slot = hk_slot_near((uintptr_t)block);
    bool known = hk_load(slot->xstate) != HK_SLOT_UNUSED, inside = hk_slot_opens(slot, (uintptr_t)block);
    const char *what = found == HK_SLOT_FREE_ALREADY ? "the block is already free:" : "not the start of a block:";
    if (known)
        hk_sampled_tell_call(slot, what, (uintptr_t)block, by);
    hk_invalid_pointer(call,
                       found == HK_SLOT_FREE_ALREADY ? "block already free"
                       : known && inside             ? "pointer inside a block"
                                                     : "pointer not from this allocator",
                       block);
}

size_t hk_sampled_size(enum hk_call call, const void *block)
{
    if (hk_apart_holds(block))
        return hk_apart_size(call, block);
    enum hk_slot_find found = hk_slot_find(block);
    if (HK_UNLIKELY(found != HK_SLOT_BLOCK)) {
        struct hk_packed_stack by = stack_here(__builtin_return_address(0));
        refuse_pointer(call, block, found, &by);
    }
    return hk_load(hk_slot_near((uintptr_t)block)->xsize);
}

static HK_COLD _Noreturn void refuse_damaged(enum hk_call call, const struct hk_slot *slot, uintptr_t damage,
                                             const struct hk_packed_stack *by)
{
    hk_sampled_tell_call(slot, "a byte beside a block was written, found at its free:", damage, by);
    hk_invalid_pointer(call, "bytes beside the block were written", (const void *)hk_load(slot->xblock));
}

HK_COLD void hk_sampled_free(enum hk_call call, void *block, void *caller)
{
    if (hk_apart_holds(block)) {
        hk_apart_free(call, block);
        return;
    }
    struct hk_packed_stack by = stack_here(caller);
    const struct hk_slot *slot = hk_slot_near((uintptr_t)block);
    enum hk_slot_find found = hk_slot_find(block);
    uintptr_t damage = found == HK_SLOT_BLOCK ? hk_slot_damage(slot) : 0;
    if (HK_UNLIKELY(damage != 0))
        refuse_damaged(call, slot, damage, &by);
    if (found == HK_SLOT_BLOCK)
        found = hk_slot_put(block, &by);
    if (HK_UNLIKELY(found != HK_SLOT_BLOCK))
        refuse_pointer(call, block, found, &by);
}
