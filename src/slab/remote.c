/* Sets, counts and claims the remote bits of slabs. */
#include "slab/remote.h"
#include "slab/joined_blocks.h"
#include "slab/remote_track.h"

static _Atomic int64_t xclean_remote;

static HK_COLD void refuse(const struct hk_slab *slab, unsigned word, uint64_t twice)
{
    hk_invalid_pointer(HK_CALL_FLUSH, HK_TEXT_already_free, hk_slab_block(slab, word * 64 + hk_ctz64(twice)));
}

/* Adds the bits, which must be clear. An atomic addition is one instruction, but an atomic OR that returns the old bits is a loop. */
void hk_remote_mark(struct hk_slab *slab, unsigned word, uint64_t bits)
{
    uint64_t before = atomic_fetch_add_explicit(&slab->xremote[word], bits, memory_order_release);
    if (HK_UNLIKELY((before & bits) != 0))
        refuse(slab, word, before & bits);
}

/* Counts the blocks and sets QUEUED in one atomic step. If these were two steps, another thread could release the slab in between. The first attempt
 * assumes 0 and loads nothing, because the owner has usually written to the line last. A load would then move the line, and the write would move it
 * again. An attempt that fails moves it once and returns its value. */
bool hk_remote_count(struct hk_slab *slab, unsigned blocks)
{
    uint32_t before = 0, after;
    do
        after = (before + blocks * HK_REMOTE_BLOCK) | HK_REMOTE_QUEUED;
    while (!atomic_compare_exchange_weak_explicit(&slab->xstate, &before, after, memory_order_acq_rel,
                                                  memory_order_relaxed));
    return (before & HK_REMOTE_QUEUED) == 0;
}

void hk_remote_note_clean(struct hk_slab *slab, size_t bytes)
{
    hk_add(xclean_remote, (int64_t)bytes - (int64_t)slab->purged_remote);
    slab->purged_remote = (uint32_t)bytes;
}

size_t hk_remote_clean(void) { return hk_positive_part(hk_load(xclean_remote)); }

static void forget_look(struct hk_slab *slab)
{
    if (slab->purged_remote != 0)
        hk_remote_note_clean(slab, 0);
    slab->seen_remote = 0;
}

/* Clears QUEUED. Called before the remote bits are read. So a thread that counts blocks later finds QUEUED clear, and queues the slab again. */
static void unqueue(struct hk_slab *slab)
{
    forget_look(slab);
    atomic_fetch_and_explicit(&slab->xstate, ~(uint32_t)HK_REMOTE_QUEUED, memory_order_acq_rel);
}

static uint64_t claim_word(struct hk_slab *slab, unsigned word)
{
    if (hk_load(slab->xremote[word]) == 0)
        return 0;
    return atomic_exchange_explicit(&slab->xremote[word], 0, memory_order_acquire);
}

static void uncount(struct hk_slab *slab, unsigned blocks)
{
    atomic_fetch_sub_explicit(&slab->xstate, blocks * HK_REMOTE_BLOCK, memory_order_acq_rel);
}

unsigned hk_remote_collect(struct hk_slab *slab)
{
    unsigned first = slab->first_word, got = 0, more = 0;
    bool joins = hk_load(slab->xjoined) != NULL, looks = joins || slab->track != NULL;
    unqueue(slab);
    for (unsigned word = slab->words; word-- > 0;) {
        uint64_t bits = claim_word(slab, word);
        if (bits == 0)
            continue;
        if (HK_UNLIKELY(looks))
            hk_track_step(slab, HK_TRACK_COLLECT, word, bits);
        if (HK_UNLIKELY((slab->freebits[word] & bits) != 0))
            refuse(slab, word, slab->freebits[word] & bits);
        if (HK_UNLIKELY(looks) && joins)
            more += hk_joined_part(slab, word, bits);
        slab->freebits[word] |= bits;
        first = word < first ? word : first;
        got += hk_popcount64(bits);
    }
    slab->first_word = (uint16_t)first;
    hk_slab_count_free(slab, got + more);
    uncount(slab, got);
    return got;
}

unsigned hk_remote_claim(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS])
{
    unsigned got = 0;
    for (unsigned word = 0; word < slab->words; word++) {
        uint64_t claimed = claim_word(slab, word);
        if (HK_UNLIKELY((claimed & bits[word]) != 0))
            refuse(slab, word, claimed & bits[word]);
        hk_track_step(slab, HK_TRACK_CLAIM, word, claimed);
        bits[word] |= claimed;
        got += hk_popcount64(claimed);
    }
    uncount(slab, got);
    return got;
}

unsigned hk_remote_let_go(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS])
{
    unqueue(slab);
    return hk_remote_claim(slab, bits);
}

bool hk_remote_put_back(struct hk_slab *slab, const uint64_t bits[HK_SLAB_MOST_WORDS])
{
    unsigned blocks = 0;
    for (unsigned word = 0; word < slab->words; word++)
        if (bits[word] != 0) {
            hk_track_step(slab, HK_TRACK_SEND, word, bits[word]);
            hk_remote_mark(slab, word, bits[word]);
            blocks += hk_popcount64(bits[word]);
        }
    return blocks > 0 && hk_remote_count(slab, blocks);
}

static void reset(struct hk_slab *slab, uint32_t state)
{
    if (hk_load(slab->xstate) != state)
        hk_store(slab->xstate, state);
    if (slab->seen_remote != 0 || slab->purged_remote != 0)
        forget_look(slab);
}

bool hk_remote_restart(struct hk_slab *slab)
{
    unsigned blocks = 0;
    for (unsigned word = 0; word < slab->words; word++)
        blocks += hk_popcount64(hk_load(slab->xremote[word]));
    reset(slab, blocks == 0 ? 0 : blocks * HK_REMOTE_BLOCK | HK_REMOTE_QUEUED);
    return blocks != 0;
}

/* In the child, both the free bit and the remote bit of a block may be set, because the owner may have changed the bits while fork copied them. */
bool hk_remote_merge(struct hk_slab *slab)
{
    bool any = false, joins = hk_load(slab->xjoined) != NULL;
    for (unsigned word = 0; word < slab->words; word++) {
        uint64_t bits = claim_word(slab, word);
        hk_track_step(slab, HK_TRACK_COLLECT, word, bits);
        if (bits != 0 && joins)
            hk_joined_part(slab, word, bits);
        if (bits != 0)
            slab->freebits[word] |= bits;
        any |= bits != 0;
    }
    reset(slab, 0);
    return any;
}
