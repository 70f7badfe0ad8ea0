/* The remote track (HAKMEM_TRACE_REMOTE) follows each remote free, stage by stage, until the block is home. A block is home while no remote free
 * of the block is in progress. The diagram shows the allowed steps. Any other step ends the program. The message says where the block was freed.
 *
 *   home --put--> outbox --send--> remote --collect--> home
 *                                  ^    \--claim--> claimed --receive--> home, in a bin
 *                                  \------send------/
 *
 * Owns       If the track is on, it owns a word for each block of a slab. The word holds the stage, and the call stack and the thread of the free.
 * Invariant  Only the thread that has a block changes the stage of the block, before it sets the remote bit or after it has claimed the bit. Each
 *            change is one atomic step. Tracked slabs have no plain extent (slab.h), so each block that is freed in them is checked.
 * Threads    Any thread may call these functions.
 * Never      The track does not touch the blocks. While it is off, it takes no memory, and none of its steps runs. */
#pragma once

#include "slab/slab.h"

enum hk_stage { HK_STAGE_HOME, HK_STAGE_OUTBOX, HK_STAGE_REMOTE, HK_STAGE_CLAIMED, HK_STAGES };
enum { HK_STAGE_BITS = 3, HK_STAGE_MASK = (1 << HK_STAGE_BITS) - 1 };

/* Some functions of the track need call stacks and threads. guard/track_report.c sets the pointers to these functions when HAKMEM starts. */
struct hk_remote_track {
    bool on;
    /* Returns the upper bits of a word, which tell this thread and the call stack of a free. If `whole` is false, the stack consists only of
     * `caller`. If `caller` is NULL, the bits tell only the thread. */
    uint64_t (*place)(const void *caller, bool whole);
    /* Writes the message about an invalid pointer, and ends the program. `word` is the word of the block. */
    void (*tell)(enum hk_call call, const char *fault, const void *block, uint64_t word) __attribute__((noreturn));
};
extern struct hk_remote_track hk_remote_track;

/* Begins to track a new slab if the track is on. Does nothing if the system refuses memory for the words. */
void hk_track_slab(struct hk_slab *slab);
/* Frees the words of a slab that is being released. Ends the program if a block of the slab is not home. */
void hk_track_slab_ends(struct hk_slab *slab);
/* Returns the track's word of a block, or 0 if the block is not tracked. */
uint64_t hk_track_of(const void *block);
/* Stores in the block's word where the program frees the block. `self` is the owner number of the freeing thread. */
void hk_track_freed(enum hk_call call, const void *block, const void *caller, uint32_t self);
/* Ends the program if the block is not home. Called when a thread takes the block from its bin or puts the block into its bin. */
void hk_track_expect_home(enum hk_call call, const void *block);
/* The steps of a remote free. `bits` is a set of blocks of a bitmap word. hk_track_step() applies a step to these blocks. */
enum hk_track_step { HK_TRACK_PUT, HK_TRACK_SEND, HK_TRACK_COLLECT, HK_TRACK_CLAIM, HK_TRACK_RECEIVE };
void hk_track_step(struct hk_slab *slab, enum hk_track_step step, unsigned word, uint64_t bits);
/* Ends the program if one of the n blocks that the slab gives out is not home. Each block consists of `cells` cells (see joined_blocks.h). */
void hk_track_give_out(struct hk_slab *slab, void *const *blocks, size_t n, unsigned cells);
/* Checks that a block is home and not free yet. Called when the slab's holder frees the block. */
void hk_track_give_back(struct hk_slab *slab, size_t index);
/* Computes the stages from the remote bits in a fork child. Called before the remote bits are changed. */
void hk_track_restart(struct hk_slab *slab);
