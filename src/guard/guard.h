/* Guard: which checks of the program's calls are in force.
 *
 *   HAKMEM_SAFE_FREE, HAKMEM_HARDENED -> protections in force -> the gate stays shut: every call is a miss, and is checked
 *
 * Owns       the protections in force.
 * Threads    written at the start, before a second thread exists; constant afterwards. */
#ifndef HK_GUARD_H
#define HK_GUARD_H

#include "base/message.h"

enum hk_protection {
#define HK_PROTECTION(word, meaning) HK_PROTECTION_##word,
#include "guard/protections.def"
    HK_PROTECTIONS,
};

struct hk_guard {
    bool on;            /* calls are checked */
    bool leaves;        /* a fault is reported and the block is left alone; else it ends the program */
    bool contents;      /* a protection that reads or writes blocks is in force */
    uint32_t words;     /* bit n: protection n is in force */
    bool frees_plainly; /* a block that is live, and of the right kind, is freed without further checks */
    size_t least;       /* the smallest size that comes from a bin, */
    size_t small;       /* the number of sizes from it on that do, 0 while hooks see each call, */
    size_t canary;      /* and the bytes added to them */
    uint64_t secret;
};

extern struct hk_guard hk_guard HK_ALIGNED(HK_CACHE_LINE);
#define HK_GUARDS(word) ((hk_guard.words >> HK_PROTECTION_##word & 1) != 0)

/* True for a size whose blocks come from a bin. */
HK_INLINE bool hk_guard_is_small(size_t size)
{
    return size - HK_LOAD_SETTLED(hk_guard.least) < HK_LOAD_SETTLED(hk_guard.small);
}

/* At the start, after the options are read and before the first mapping: puts in force what they ask for. */
void hk_guard_begin(void);
/* At the start: hooks see each call, as long as the process lives. */
void hk_guard_take_hooks(void);

/* Turns the remote track on (slab/remote_track.h), after the options are read and before the first slab is made. With HAKMEM_TRACE_REMOTE=1 it notes
 * the whole call stack of each free by another thread, and every free is checked first (block_checks.h). A debug build notes the caller. */
void hk_track_report_begin(void);
/* Returns `fault` in `text`, with what the track knows of the block, and writes the stack of the block's free. Returns `fault` alone if the track
 * knows nothing. */
const char *hk_track_report_fault(struct hk_text *text, const char *fault, const void *block);

#endif
