/* Keeps the stage of each block's remote free in a word, and ends the program at a step that the stage does not allow. */
#include "slab/remote_track.h"
#include "span/meta.h"

#define AT(stage) (1u << HK_STAGE_##stage)

struct hk_remote_track hk_remote_track;

static enum hk_stage stage_of(uint64_t word) { return (enum hk_stage)(word & HK_STAGE_MASK); }
static uint64_t place_part(uint64_t word) { return word & ~(uint64_t)HK_STAGE_MASK; }

static const void *block_at(const struct hk_slab *slab, size_t index)
{
    return (const void *)(slab->d.start + index * slab->d.block_size);
}

static HK_COLD _Noreturn void refuse_step(enum hk_call call, const char *fault, const void *block, uint64_t word)
{
    hk_remote_track.tell(call, fault, block, word);
}

/* Changes the stage of a block to `to`. Ends the program if the present stage is not one of the bits `from`. */
static void step(struct hk_slab *slab, size_t index, unsigned from, enum hk_stage to, const char *fault)
{
    uint64_t before = hk_load(slab->track[index]);
    do
        if (HK_UNLIKELY((from >> stage_of(before) & 1) == 0))
            refuse_step(HK_CALL_FLUSH, fault, block_at(slab, index), before);
    while (!atomic_compare_exchange_weak_explicit(&slab->track[index], &before, place_part(before) | to,
                                                  memory_order_acq_rel, memory_order_relaxed));
}

static void step_each(struct hk_slab *slab, unsigned word, uint64_t bits, unsigned from, enum hk_stage to,
                      const char *fault)
{
    for (; slab->track != NULL && bits != 0; bits &= bits - 1)
        step(slab, (size_t)word * 64 + hk_ctz64(bits), from, to, fault);
}

/* Returns true if a word of the slab's track was written. Otherwise, callers read no word, because a read would make the word's page resident. */
static bool is_noted(const struct hk_slab *slab) { return slab->track != NULL && hk_load(slab->xnoted); }

static void note_written(struct hk_slab *slab)
{
    if (!hk_load(slab->xnoted))
        hk_store(slab->xnoted, true);
}

static size_t track_bytes(const struct hk_slab *slab) { return slab->d.blocks * sizeof slab->track[0]; }

void hk_track_slab(struct hk_slab *slab)
{
    if (!hk_remote_track.on)
        return;
    slab->track = hk_meta_alloc(track_bytes(slab));
    hk_store(slab->xnoted, false);
    hk_slab_note_plain(slab);
}

void hk_track_slab_ends(struct hk_slab *slab)
{
    if (slab->track == NULL)
        return;
    for (size_t index = 0; is_noted(slab) && index < slab->d.blocks; index++) {
        uint64_t word = hk_load_acquire(slab->track[index]);
        if (HK_UNLIKELY(stage_of(word) != HK_STAGE_HOME))
            refuse_step(HK_CALL_FLUSH, HK_TEXT_lost, block_at(slab, index), word);
    }
    hk_meta_free((void *)slab->track, track_bytes(slab));
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
    bool begins = hk_which((uintptr_t)block - slab->d.start, slab->reciprocal, &index) && index < slab->d.blocks;
    return begins && slab->track != NULL ? &slab->track[index] : NULL;
}

uint64_t hk_track_of(const void *block)
{
    const _Atomic uint64_t *word = hk_remote_track.on ? tracked_word(block) : NULL;
    return word != NULL && is_noted(hk_slab_at((uintptr_t)block)) ? hk_load_acquire(*word) : 0;
}

static void expect_home(enum hk_call call, const void *block, uint64_t word)
{
    if (HK_UNLIKELY(stage_of(word) != HK_STAGE_HOME))
        refuse_step(call, call == HK_CALL_MALLOC ? HK_TEXT_given_twice : HK_TEXT_already_free, block, word);
}

void hk_track_expect_home(enum hk_call call, const void *block) { expect_home(call, block, hk_track_of(block)); }

/* Stores the whole call stack of a remote free. Stores only the caller of a free by the owner, because the caller suffices to find the call. */
void hk_track_freed(enum hk_call call, const void *block, const void *caller, uint32_t self)
{
    _Atomic uint64_t *word = hk_remote_track.on ? tracked_word(block) : NULL;
    if (word == NULL)
        return;
    uint64_t before = hk_load_acquire(*word);
    expect_home(call, block, before);
    bool own = hk_entry_owner(hk_page_map_lookup((uintptr_t)block)) == self;
    uint64_t after = hk_remote_track.place(caller, !own);
    note_written(hk_slab_at((uintptr_t)block));
    if (before != after && !atomic_compare_exchange_strong(word, &before, after))
        expect_home(call, block, before);
}

/* Stores the place of the free if the block's word has no place. A word has a place if the program freed the block earlier into a bin. */
void hk_track_put(struct hk_slab *slab, size_t index)
{
    if (slab->track == NULL)
        return;
    note_written(slab);
    uint64_t known = hk_load(slab->track[index]);
    if (known == HK_STAGE_HOME)
        atomic_compare_exchange_strong(&slab->track[index], &known, hk_remote_track.place(NULL, false));
    step(slab, index, AT(HOME), HK_STAGE_OUTBOX, HK_TEXT_already_free);
}

void hk_track_send(struct hk_slab *slab, unsigned word, uint64_t bits)
{
    step_each(slab, word, bits, AT(OUTBOX) | AT(CLAIMED), HK_STAGE_REMOTE, HK_TEXT_nobody_freed);
}

void hk_track_collect(struct hk_slab *slab, unsigned word, uint64_t bits)
{
    step_each(slab, word, bits, AT(REMOTE), HK_STAGE_HOME, HK_TEXT_drained_twice);
}

void hk_track_claim(struct hk_slab *slab, unsigned word, uint64_t bits)
{
    step_each(slab, word, bits, AT(REMOTE), HK_STAGE_CLAIMED, HK_TEXT_drained_twice);
}

void hk_track_receive(struct hk_slab *slab, size_t index)
{
    if (slab->track != NULL)
        step(slab, index, AT(CLAIMED), HK_STAGE_HOME, HK_TEXT_not_claimed);
}

void hk_track_give_out(struct hk_slab *slab, void *const *blocks, size_t n, unsigned cells)
{
    for (size_t i = 0; is_noted(slab) && i < n; i++) {
        size_t first = hk_slab_index(slab, (uintptr_t)blocks[i]);
        for (size_t index = first; index < first + cells; index++) {
            uint64_t word = hk_load(slab->track[index]);
            expect_home(HK_CALL_MALLOC, block_at(slab, index), word);
            hk_store(slab->track[index], HK_STAGE_HOME);
        }
    }
}

void hk_track_give_back(struct hk_slab *slab, size_t index)
{
    if (slab->track == NULL)
        return;
    uint64_t word = is_noted(slab) ? hk_load_acquire(slab->track[index]) : HK_STAGE_HOME;
    bool is_free = (slab->freebits[index / 64] >> (index % 64) & 1) != 0;
    if (HK_UNLIKELY(is_free) || HK_UNLIKELY(stage_of(word) != HK_STAGE_HOME))
        refuse_step(HK_CALL_FLUSH, HK_TEXT_already_free, block_at(slab, index), word);
}

/* Marks as home each block that another thread had claimed or had in its outbox, because the fork child has lost this block. */
void hk_track_restart(struct hk_slab *slab)
{
    for (size_t index = 0; is_noted(slab) && index < slab->d.blocks; index++) {
        uint64_t word = hk_load(slab->track[index]);
        bool remote = (hk_load(slab->xremote[index / 64]) >> (index % 64) & 1) != 0;
        uint64_t after = place_part(word) | (remote ? HK_STAGE_REMOTE : HK_STAGE_HOME);
        if (after != word)
            hk_store(slab->track[index], after);
    }
}
