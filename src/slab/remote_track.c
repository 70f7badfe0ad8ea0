/* Keeps the stage of each block's remote free in a word, and ends the program at a step that the stage does not allow. */
#include "slab/remote_track.h"
#include "span/meta.h"

#define AT(stage) (1u << HK_STAGE_##stage)

struct hk_remote_track hk_remote_track;

static enum hk_stage stage_of(uint64_t word) { return (enum hk_stage)(word & HK_STAGE_MASK); }
static uint64_t place_part(uint64_t word) { return word & ~(uint64_t)HK_STAGE_MASK; }

/* The rules of each step: the stages in which the step is allowed, the stage after the step, and the fault to report in all other stages. */
static const struct {
    unsigned from;
    enum hk_stage to;
    const char *fault;
} track_steps[] = {
    [HK_TRACK_PUT] = {AT(HOME), HK_STAGE_OUTBOX, HK_TEXT_already_free},
    [HK_TRACK_SEND] = {AT(OUTBOX) | AT(CLAIMED), HK_STAGE_REMOTE, HK_TEXT_nobody_freed},
    [HK_TRACK_COLLECT] = {AT(REMOTE), HK_STAGE_HOME, HK_TEXT_drained_twice},
    [HK_TRACK_CLAIM] = {AT(REMOTE), HK_STAGE_CLAIMED, HK_TEXT_drained_twice},
    [HK_TRACK_RECEIVE] = {AT(CLAIMED), HK_STAGE_HOME, HK_TEXT_not_claimed},
};

/* If the block's word is empty, stores this thread in it, because hk_track_freed() did not store a place there. */
static void step_block(struct hk_slab *slab, size_t index, enum hk_track_step step)
{
    uint64_t before = hk_load(slab->track[index]), place;
    do {
        if (HK_UNLIKELY((track_steps[step].from >> stage_of(before) & 1) == 0))
            hk_remote_track.tell(HK_CALL_FLUSH, track_steps[step].fault, hk_slab_block(slab, index), before);
        place = before != HK_STAGE_HOME ? place_part(before) : hk_remote_track.place(NULL, false);
    } while (!atomic_compare_exchange_weak_explicit(&slab->track[index], &before, place | track_steps[step].to,
                                                    memory_order_acq_rel, memory_order_relaxed));
}

void hk_track_step(struct hk_slab *slab, enum hk_track_step step, unsigned word, uint64_t bits)
{
    for (; bits != 0 && slab->track != NULL; bits &= bits - 1)
        step_block(slab, (size_t)word * 64 + hk_ctz64(bits), step);
}

void hk_track_slab(struct hk_slab *slab)
{
    if (!hk_remote_track.on)
        return;
    slab->track = hk_meta_alloc(slab->d.blocks * sizeof slab->track[0]);
    hk_slab_note_plain(slab);
}

void hk_track_slab_ends(struct hk_slab *slab)
{
    if (slab->track == NULL)
        return;
    for (size_t index = 0; index < slab->d.blocks; index++) {
        uint64_t word = hk_load_acquire(slab->track[index]);
        if (HK_UNLIKELY(stage_of(word) != HK_STAGE_HOME))
            hk_remote_track.tell(HK_CALL_FLUSH, HK_TEXT_lost, hk_slab_block(slab, index), word);
    }
    hk_meta_free((void *)slab->track, slab->d.blocks * sizeof slab->track[0]);
    slab->track = NULL;
}

/* Returns the word of a block, or NULL if the block is not tracked, or if `block` is not the start of a block. */
static _Atomic uint64_t *tracked_word(const void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    if (hk_entry_owner(entry) == HK_NOBODY || hk_entry_class(entry) >= HK_CLASSES)
        return NULL;
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    size_t index;
    return slab->track != NULL && hk_slab_begins(slab, (uintptr_t)block, &index) ? &slab->track[index] : NULL;
}

uint64_t hk_track_of(const void *block)
{
    const _Atomic uint64_t *word = hk_remote_track.on ? tracked_word(block) : NULL;
    return word != NULL ? hk_load_acquire(*word) : 0;
}

static void expect_home(enum hk_call call, const void *block, uint64_t word)
{
    if (HK_UNLIKELY(stage_of(word) != HK_STAGE_HOME))
        hk_remote_track.tell(call, call == HK_CALL_MALLOC ? HK_TEXT_given_twice : HK_TEXT_already_free, block, word);
}

void hk_track_expect_home(enum hk_call call, const void *block) { expect_home(call, block, hk_track_of(block)); }

/* For a remote free, stores the whole call stack. For a free by the owner, stores only the caller, which suffices to find the call. */
void hk_track_freed(enum hk_call call, const void *block, const void *caller, uint32_t self)
{
    _Atomic uint64_t *word = hk_remote_track.on ? tracked_word(block) : NULL;
    if (word == NULL)
        return;
    uint64_t before = hk_load_acquire(*word);
    expect_home(call, block, before);
    bool own = hk_entry_owner(hk_page_map_lookup((uintptr_t)block)) == self;
    uint64_t after = hk_remote_track.place(caller, !own);
    if (before != after && !atomic_compare_exchange_strong(word, &before, after))
        expect_home(call, block, before);
}

void hk_track_give_out(struct hk_slab *slab, void *const *blocks, size_t n, unsigned cells)
{
    for (size_t i = 0; slab->track != NULL && i < n; i++) {
        size_t first = hk_slab_index(slab, (uintptr_t)blocks[i]);
        for (size_t index = first; index < first + cells; index++) {
            uint64_t word = hk_load(slab->track[index]);
            expect_home(HK_CALL_MALLOC, hk_slab_block(slab, index), word);
            if (word != HK_STAGE_HOME) /* an unneeded store would make the word's page resident */
                hk_store(slab->track[index], HK_STAGE_HOME);
        }
    }
}

void hk_track_give_back(struct hk_slab *slab, size_t index)
{
    if (slab->track == NULL)
        return;
    uint64_t word = hk_load_acquire(slab->track[index]);
    bool is_free = (slab->freebits[index / 64] >> (index % 64) & 1) != 0;
    if (HK_UNLIKELY(is_free) || HK_UNLIKELY(stage_of(word) != HK_STAGE_HOME))
        hk_remote_track.tell(HK_CALL_FLUSH, HK_TEXT_already_free, hk_slab_block(slab, index), word);
}

/* Marks each block as remote or home. The fork child has lost the blocks that other threads had claimed or had in outboxes, so they are home. */
void hk_track_restart(struct hk_slab *slab)
{
    for (size_t index = 0; slab->track != NULL && index < slab->d.blocks; index++) {
        uint64_t word = hk_load(slab->track[index]);
        bool remote = (hk_load(slab->xremote[index / 64]) >> (index % 64) & 1) != 0;
        uint64_t after = place_part(word) | (remote ? HK_STAGE_REMOTE : HK_STAGE_HOME);
        if (after != word)
            hk_store(slab->track[index], after);
    }
}
