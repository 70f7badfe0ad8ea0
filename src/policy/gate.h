/* Gate: says which sizes the hit path of malloc serves. The mode, a word of bits, says which features must see the calls that miss.
 * A call that is no hit is a miss. If the mode is HK_MODE_PLAIN, the plain allocator serves the miss, and otherwise the instrumented allocator.
 * Owns       This file owns the gate and the mode. The tool attached.py shuts the gate by writing sizes_below and mode from another process.
 * Invariant  A feature that is off costs a miss nothing, because one compare of the mode rules out all features.
 * Threads    Any thread may read the gate and change the mode. */
#pragma once

#include "base/base.h"

enum hk_mode {
    HK_MODE_OPEN = 1,      /* HAKMEM has started, and the gate admits all sizes of bins, or is shut only to count */
    HK_MODE_GUARD = 2,     /* protections check each call (guard/guard.h) */
    HK_MODE_HOOKS = 4,     /* hooks see each miss (prof/hooks.h) */
    HK_MODE_SAMPLING = 8,  /* a tick may pick an allocation for a guard page (guard/sampled.h) */
    HK_MODE_WAKE = 16,     /* a background thread is needed, and the next thread that may create it does so */
    HK_MODE_IN_ROUND = 32, /* an allocation may be picked for a guard page although its bin has blocks */
    HK_MODE_RECALL = 256,  /* a recall takes blocks out of bins; not in the lowest byte, which attached.py writes */
    HK_MODE_PLAIN = HK_MODE_OPEN,
    HK_MODE_NO_POP = HK_MODE_IN_ROUND | HK_MODE_RECALL,
};

/* Names the reasons to shut the gate. The gate is open for a size if no reason shuts it. */
enum hk_shut_by {
    HK_SHUT_FINE = 1,     /* prof/attach_sampling.h must see allocations of up to 32 KiB */
    HK_SHUT_IN_ROUND = 2, /* guard/sampled_due.h must see all allocations */
    /* The bins must count all allocations, because an option or an attached tool asks for it, or in a window of sampled_due.h. */
    HK_SHUT_TO_COUNT = 4,
    HK_SHUT_ATTACHED = 8,
    HK_SHUT_IN_WINDOW = 16,
    HK_SHUT_RECALL = 32, /* tcache/recall.c takes blocks out of bins */
};

/* HAKMEM (tcache/cacheless.c) and attached.py write the gate. If sizes_below is 0, no malloc is a hit. hk_window.hits is the gate of free. */
struct hk_gate {                  /* attached.py knows the offsets of sizes_below and mode, and clears HK_MODE_OPEN */
    size_t sizes_below;           /* hk_hit_malloc() serves only sizes below this value */
    uintptr_t self;               /* on aarch64 (HK_PAIRS), a copy of hk_window.self; constant once malloc may hit */
    size_t mode;                  /* bits of enum hk_mode */
    size_t coarse_sizes;          /* number of sizes above HK_FINE_MAX that hk_hit_malloc_coarse() serves */
    const uint16_t *fine_offsets; /* on aarch64 (HK_PAIRS), the address of hk_fine_offsets, to save an instruction */
} HK_ALIGNED(HK_NEAR_ALIGN);

extern struct hk_gate hk_gate __attribute__((visibility("hidden")));

HK_INLINE bool hk_mode_is_plain(void)
{
    bool plain = HK_LOAD_SETTLED(hk_gate.mode) == HK_MODE_PLAIN;
    HK_READ_NO_EARLIER();
    return plain;
}
HK_INLINE bool hk_mode_has(enum hk_mode bit) { return (HK_LOAD_SETTLED(hk_gate.mode) & bit) != 0; }
/* Sets a bit of the mode. The release order ensures that a thread that sees the bit also sees the data that the feature has set up. */
HK_INLINE void hk_mode_set(enum hk_mode bit) { (void)__atomic_fetch_or(&hk_gate.mode, bit, __ATOMIC_RELEASE); }
HK_INLINE void hk_mode_clear(enum hk_mode bit)
{
    (void)__atomic_fetch_and(&hk_gate.mode, ~(size_t)bit, __ATOMIC_RELEASE);
}

/* Says which functions have allocated a block: malloc and its family, operator new, or operator new[]. */
enum hk_kind { HK_KIND_MALLOC, HK_KIND_NEW, HK_KIND_NEW_ARRAY, HK_KINDS };

/* Describes one call of malloc, of its family or of operator new that was no hit. The caller has the struct on its stack. */
struct hk_request {
    size_t size;
    size_t align; /* a power of two, at least 16 */
    enum hk_kind kind;
    bool zeroed;  /* set by the allocator if all bytes of the block are zero */
    void *caller; /* the return address of the exported function */
};
