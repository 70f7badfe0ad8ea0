/* Turns the remote track on, and reports a block whose stage in the track does not allow the next step. */
#include "guard/guard.h"
#include "guard/fault_text.h"
#include "tcache/layout.h"

enum { THREAD_SHIFT = 32 };

/* Returns the thread and the call stack of a free as one word. Asks the system only once for the number of a thread that has a tcache. */
static uint64_t place_of_free(const void *caller, bool whole)
{
    struct hk_tcache *cache = hk_tcache_self();
    uint32_t unknown = 0, *number = cache != NULL ? &cache->system_thread : &unknown;
    if (*number == 0)
        *number = (uint32_t)hk_os_thread_id();
    uint64_t thread = (uint64_t)*number << THREAD_SHIFT;
    if (caller == NULL)
        return thread;
    struct hk_stack stack = {1, {(void *)(uintptr_t)caller}};
    if (whole && hk_options.trace_remote == HK_TRACE_REMOTE_ON)
        hk_stack_capture(&stack, (void *)(uintptr_t)caller);
    return thread | (uint64_t)hk_stack_table_enter(&stack) << HK_STAGE_BITS;
}

static const char *explain(struct hk_text *text, const char *fault, uint64_t word)
{
    static const char *const stages[HK_STAGES] = {"at home", "in an outbox", "among the remote frees of its slab",
                                                  "claimed by a draining thread"};
    const struct hk_packed_stack *known = hk_stack_table_get((uint32_t)word >> HK_STAGE_BITS);
    hk_text_init(text, HK_NOWHERE);
    hk_text_add(text, "%s, %s", fault, stages[word & HK_STAGE_MASK]);
    if (word >> THREAD_SHIFT != 0)
        hk_text_add(text, ", freed by thread %u", (unsigned)(word >> THREAD_SHIFT));
    if (known != NULL) {
        struct hk_packed_stack packed = *known;
        struct hk_module_place place;
        struct hk_stack stack;
        hk_stack_unpack(&stack, known);
        packed.thread = (int)(word >> THREAD_SHIFT);
        struct hk_text *report = stack.depth > 1 ? hk_fault_text_begin() : NULL;
        if (report != NULL) {
            hk_text_add(report, "hakmem: remote free:\n");
            hk_fault_text_packed("freed", &packed);
            hk_fault_text_end();
        }
        hk_text_add(text, " at 0x%zx", (uintptr_t)stack.frames[0] - 1);
        hk_fault_text_name(text, (uintptr_t)stack.frames[0] - 1, &place);
    }
    text->bytes[hk_min(text->used, sizeof text->bytes - 1)] = 0;
    return text->bytes;
}

const char *hk_track_report_fault(struct hk_text *text, const char *fault, const void *block)
{
    uint64_t word = hk_track_of(block);
    return word != 0 ? explain(text, fault, word) : fault;
}

/* Reports the fault and ends the program. This thread may hold locks. It sets hk_is_aborting first, so that no thread waits for these locks. */
static __attribute__((noreturn)) void tell_and_end(enum hk_call call, const char *fault, const void *block,
                                                   uint64_t word)
{
    struct hk_text text;
    hk_store(hk_is_aborting, true);
    hk_invalid_pointer(call, explain(&text, fault, word), block);
}

HK_EACH_PROCESS void hk_track_report_begin(void)
{
    hk_remote_track.place = place_of_free;
    hk_remote_track.tell = tell_and_end;
    hk_remote_track.on =
        hk_options.trace_remote == HK_TRACE_REMOTE_ON || (HK_DEBUG && hk_options.trace_remote == HK_TRACE_REMOTE_AUTO);
    if (hk_remote_track.on)
        (void)hk_stack_table_make(); /* without the table, the track still finds faults, but has no stacks */
}
