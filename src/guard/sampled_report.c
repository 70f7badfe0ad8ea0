#include "guard/sampled_report.h"

#include "base/bits.h"
#include "count/stats.h"
#include "guard/told.h"

enum { FRAMES_BELOW = 1 << 20 };

static bool tell_begin(void)
{
    HK_COUNT(guard_faults, 1);
    return hk_told_begin();
}

static void tell_place(const struct hk_slot *slot, uintptr_t address)
{
    uintptr_t block = hk_load(slot->xblock), end_of_block = block + hk_load(slot->xsize);
    struct hk_text *text = hk_told_text();
    const char *which = hk_load(slot->xstate) == HK_SLOT_FREED ? "freed " : "";
    if (address < block)
        hk_text_add(text, "%zu bytes before the start of the", block - address);
    else if (address >= end_of_block)
        hk_text_add(text, "%zu bytes behind the end of the", address - end_of_block);
    else
        hk_text_add(text, "byte %zu of the", address - block);
    hk_text_add(text, " %sblock of %zu bytes at 0x%zx\n", which, hk_load(slot->xsize), block);
}

static const char *kind_of(const struct hk_slot *slot, uintptr_t address)
{
    if (hk_load(slot->xstate) == HK_SLOT_FREED)
        return "use after free";
    return address < hk_load(slot->xblock) ? "access before a block" : "access behind a block";
}

static bool readable(uintptr_t address)
{
    unsigned char resident = 0;
    size_t page = hk_os.page_size();
    return hk_os.resident((void *)hk_align_down(address, page), page, &resident) && (resident & 1) != 0;
}

/* Follows frame pointers: only upward in the stack, only to pages that are there. */
static void walk_frames(const struct hk_fault *fault)
{
    uintptr_t frame = fault->frame, below = fault->stack;
    struct hk_stack *stack = hk_told_stack();
    while (stack->depth < HK_STACK_MOST && frame % sizeof(void *) == 0 && frame - below < FRAMES_BELOW &&
           readable(frame) && readable(frame + sizeof(void *))) {
        const uintptr_t *link = (const uintptr_t *)frame;
        if (link[1] == 0)
            return;
        stack->frames[stack->depth++] = (void *)link[1];
        below = frame + 2 * sizeof(void *);
        frame = link[0];
    }
}

/* Last, and its first frame before the unwinder runs: the stack may be broken. */
static void tell_access(const struct hk_fault *fault)
{
    hk_text_add(hk_told_text(), "  accessed by thread %d:\n", hk_os.thread_id());
    hk_told_frame(0, fault->code);
    hk_stack_capture(hk_told_stack(), (void *)fault->code);
    if (hk_told_stack()->depth == 1)
        walk_frames(fault);
    hk_told_frames(1);
}

void hk_sampled_tell_fault(const struct hk_slot *slot, uintptr_t address, const struct hk_fault *fault)
{
    static const char *const accesses[] = {"access", "read", "write"};
    if (!tell_begin())
        return;
    hk_text_add(hk_told_text(), "hakmem: %s: %s at 0x%zx, ", kind_of(slot, address), accesses[fault->access], address);
    tell_place(slot, address);
    hk_told_packed("allocated", &slot->allocated);
    hk_told_packed("freed", &slot->freed);
    tell_access(fault);
    hk_told_end();
}

void hk_sampled_tell_call(const struct hk_slot *slot, const char *what, uintptr_t address,
                          const struct hk_packed_stack *by)
{
    if (!tell_begin())
        return;
    hk_text_add(hk_told_text(), "hakmem: %s 0x%zx, ", what, address);
    tell_place(slot, address);
    hk_told_packed("allocated", &slot->allocated);
    hk_told_packed("freed", &slot->freed);
    hk_told_packed("called", by);
    hk_told_end();
}
