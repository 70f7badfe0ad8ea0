/* Remote track: follows each block that another thread frees, stage by stage, until it is home; a step that the stage does not allow
 * is a mistake, and ends the program with the place of the free (HAKMEM_TRACE_REMOTE).
 *
 *   home --put--> outbox --send--> remote --collect--> home
 *                                  ^    \--claim--> claimed --receive--> home, in a bin
 *                                  \------send------/
 *
 * Owns       a word for each block of the slabs that were made while the track is on: stage, call stack and thread of the free.
 * Invariant  a block's stage changes in one step, before its remote bit is set and after the bit was claimed: the thread that changes it
 *            has the block at that moment. Tracked slabs have no plain extent: each block that is freed in them is looked at.
 * Threads    any.
 * Never      touches the blocks. Off, it takes no memory, and no step of it runs. */
#ifndef HK_REMOTE_TRACK_H
#define HK_REMOTE_TRACK_H

#include "slab/slab.h"

enum hk_stage { HK_STAGE_HOME, HK_STAGE_OUTBOX, HK_STAGE_REMOTE, HK_STAGE_CLAIMED, HK_STAGES };
enum { HK_STAGE_BITS = 3, HK_STAGE_MASK = (1 << HK_STAGE_BITS) - 1 };

/* Written at the start. The rooms above know call stacks and threads. */
struct hk_remote_track {
    bool on;
    /* The upper bits of a word: the call stack of a free, or its caller alone, and this thread. A caller of NULL is unknown. */
    uint64_t (*place)(const void *caller, bool whole);
    /* Ends the program with the line about an invalid pointer. `word` is the block's. */
    void (*tell)(enum hk_call call, const char *fault, const void *block, uint64_t word) __attribute__((noreturn));
};
extern struct hk_remote_track hk_remote_track;

/* A new slab is tracked from here on, if the track is on; not where memory is refused. */
void hk_track_slab(struct hk_slab *slab);
/* The slab is being released: all its blocks are home. */
void hk_track_slab_ends(struct hk_slab *slab);
/* The word of a block; 0 if it is not tracked. */
uint64_t hk_track_of(const void *block);
/* The program frees a block, in a thread whose number as an owner is `self`: notes the place. */
void hk_track_freed(enum hk_call call, const void *block, const void *caller, uint32_t self);
/* A block that its own thread pops from a bin or pushes to it. */
void hk_track_expect_home(enum hk_call call, const void *block);
/* The steps. The block at `index`, the blocks `bits` of a bitmap word, or n blocks of the slab. */
void hk_track_put(struct hk_slab *slab, size_t index);
void hk_track_send(struct hk_slab *slab, unsigned word, uint64_t bits);
void hk_track_collect(struct hk_slab *slab, unsigned word, uint64_t bits);
void hk_track_claim(struct hk_slab *slab, unsigned word, uint64_t bits);
void hk_track_receive(struct hk_slab *slab, size_t index);
/* Blocks that the slab gives out; each takes up `cells` of its blocks. */
void hk_track_give_out(struct hk_slab *slab, void *const *blocks, size_t n, unsigned cells);
/* A block that is freed in the slab itself. Tells also of one that is free there already. */
void hk_track_give_back(struct hk_slab *slab, size_t index);
/* In a fork child, before the remote bits are looked at: the bits are believed, the stages are made from them. */
void hk_track_restart(struct hk_slab *slab);

#endif
