/* Chooses, by the mode, which features see a call that the plain allocator does not serve alone. */
#include "api/instrumented.h"
#include "api/record.h"
#include "runtime/learning.h"
#include "runtime/lifecycle.h"
#include "runtime/background.h"
#include "span/bootstrap.h"

static HK_COLD void *alloc_before_start(struct hk_request *request)
{
    request->zeroed = true;
    return hk_is_bootstrapping() ? hk_bootstrap_alloc(request->size, request->align) : NULL;
}

HK_NOINLINE void *hk_instrumented_alloc(struct hk_request *request)
{
    if (!hk_started())
        return alloc_before_start(request);
    if (hk_mode_has(HK_MODE_GUARD))
        return hk_guarded_alloc(request);
    void *block = hk_record_alloc(request);
    if (HK_UNLIKELY(hk_learning_is_due()))
        hk_learning_tick(); /* if the bin has served the request, too: the gate may be shut for the sake of the tick */
    if (hk_mode_has(HK_MODE_WAKE))
        hk_background_begin_in_malloc(request->caller, hk_thread_make);
    return block;
}

HK_NOINLINE void *hk_instrumented_malloc(size_t size, void *caller)
{
    if (HK_LIKELY(hk_mode_has(HK_MODE_GUARD)))
        return hk_guarded_malloc(size, caller);
    struct hk_request request = {.size = size, .align = HK_FINE_STEP, .caller = caller};
    return hk_instrumented_alloc(&request);
}

static enum hk_kind kind_freed_by(enum hk_call call)
{
    if (call == HK_CALL_FREE || call == HK_CALL_FREE_SIZED)
        return HK_KIND_MALLOC;
    return call == HK_CALL_DELETE_ARRAY ? HK_KIND_NEW_ARRAY : HK_KIND_NEW;
}

void hk_instrumented_free(enum hk_call call, void *block, size_t size, void *caller)
{
    if (HK_LIKELY(hk_mode_has(HK_MODE_GUARD)))
        hk_guarded_free(call, block, kind_freed_by(call), size, caller);
    else if (hk_started() || !hk_is_bootstrapping())
        hk_record_free(call, block, hk_page_map_lookup((uintptr_t)block), size, caller);
}
