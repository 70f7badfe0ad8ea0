/* Remote track: follows each block that another thread frees, stage by stage, until it is home; a step that the stage does not allow
 * is a mistake, and ends the program with the place of the free (HAKMEM_TRACE_REMOTE).
 *
 *   home --put--> outbox --send--> remote --collect--> home
 *                                  ^    \--claim--> claimed --receive--> home, in a bin
 *                                  \------send------/
 *
 * Owns       a word for each block of the slabs that were made while the track is on: stage, call stack and thread of the free.
 * Invariant  a block's stage changes in one step, before its remote bit is set and after the bit was claimed, because the thread that changes it
 *            has the block at that moment. Tracked slabs have no plain extent, so each block that is freed in them is checked.
 * Threads    any.
 * Never      touches the blocks. If it is off, it takes no memory, and none of its steps runs. */
#ifndef HK_REMOTE_TRACK_H
#define HK_REMOTE_TRACK_H

#include "slab/slab.h"

enum hk_stage { HK_STAGE_HOME, HK_STAGE_OUTBOX, HK_STAGE_REMOTE, HK_STAGE_CLAIMED, HK_STAGES };
enum { HK_STAGE_BITS = 3, HK_STAGE_MASK = (1 << HK_STAGE_BITS) - 1 };

/* Written at the start by the rooms above, which know call stacks and threads. */
struct hk_remote_track {
    bool on;
    /* Returns the upper bits of a word: this thread, and the call stack of a free if `whole`, otherwise only `caller`, which may be NULL. */
    uint64_t (*place)(const void *caller, bool whole);
    /* Ends the program with the line about an invalid pointer. `word` is the word of the block. */
    void (*tell)(enum hk_call call, const char *fault, const void *block, uint64_t word) __attribute__((noreturn));
};
extern struct hk_remote_track hk_remote_track;

/* Tracks a new slab from now on, if the track is on and there is memory for the words. */
void hk_track_slab(struct hk_slab *slab);
/* Ends the track of a slab that is being released. Ends the program unless all its blocks are home. */
void hk_track_slab_ends(struct hk_slab *slab);
/* Returns the word of a block, or 0 if it is not tracked. */
uint64_t hk_track_of(const void *block);
/* Stores the place where the program frees a block. `self` is the number of the freeing thread as an owner. */
void hk_track_freed(enum hk_call call, const void *block, const void *caller, uint32_t self);
/* Ends the program unless the block is home. Called when its own thread pops it from a bin or pushes it to one. */
void hk_track_expect_home(enum hk_call call, const void *block);
/* The steps of the diagram above. They apply to the block at `index`, or to the blocks `bits` of a bitmap word. */
void hk_track_put(struct hk_slab *slab, size_t index);
void hk_track_send(struct hk_slab *slab, unsigned word, uint64_t bits);
void hk_track_collect(struct hk_slab *slab, unsigned word, uint64_t bits);
void hk_track_claim(struct hk_slab *slab, unsigned word, uint64_t bits);
void hk_track_receive(struct hk_slab *slab, size_t index);
/* Checks n blocks that the slab gives out. Each of them takes up `cells` of the slab's blocks. */
void hk_track_give_out(struct hk_slab *slab, void *const *blocks, size_t n, unsigned cells);
/* Checks a block that is freed in the slab itself. Also detects that it is already free there. */
void hk_track_give_back(struct hk_slab *slab, size_t index);
/* Computes the stages from the remote bits in a fork child. Called before the remote bits are changed. */
void hk_track_restart(struct hk_slab *slab);

#endif
