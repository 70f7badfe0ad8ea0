/* The guard checks the program's calls. struct hk_guard says which checks are in force. The struct does not change after a second thread exists.
 *
 *   HAKMEM_SAFE_FREE, HAKMEM_HARDENED -> protections in force -> the gate (policy/gate.h) stays shut: every call is a miss, and is checked */
#pragma once

#include "base/message.h"

enum hk_protection {
#define HK_PROTECTION(word, meaning) HK_PROTECTION_##word,
#include "guard/protections.def"
    HK_PROTECTIONS,
};

struct hk_guard {
    bool on;            /* calls are checked */
    bool leaves;        /* a fault is reported, and the call has no effect; false: a fault ends the program */
    bool contents;      /* a protection that reads or writes blocks is in force */
    uint32_t words;     /* bit n: protection n is in force */
    bool frees_plainly; /* a live block of the right kind is freed without further checks */
    size_t least;       /* the smallest requested size that is served from a bin */
    size_t small;       /* the number of sizes that bins serve, starting at `least`; 0 while hooks see each call */
    size_t canary;      /* the bytes that a canary adds to the requested size */
    uint64_t secret;
};

extern struct hk_guard hk_guard HK_ALIGNED(HK_CACHE_LINE);
#define HK_GUARDS(word) ((hk_guard.words >> HK_PROTECTION_##word & 1) != 0)

/* Returns true if a request of this size is served from a bin. */
HK_INLINE bool hk_guard_is_small(size_t size)
{
    return size - HK_LOAD_SETTLED(hk_guard.least) < HK_LOAD_SETTLED(hk_guard.small);
}

/* Puts the protections of the options in force. Runs at the start, after the options are read and before the first mapping. */
void hk_guard_begin(void);

/* Turns on the remote track (slab/remote_track.h) if the options ask for it. Runs before the first slab is made. With HAKMEM_TRACE_REMOTE=1, the
 * track notes the stack of each remote free, and the guard checks each free first. By default, only debug builds track, and note only the caller. */
void hk_track_report_begin(void);
/* Returns `fault`, followed by what the track knows about the block. Writes the stack of the block's free if known. `text` holds the result. */
const char *hk_track_report_fault(struct hk_text *text, const char *fault, const void *block);
