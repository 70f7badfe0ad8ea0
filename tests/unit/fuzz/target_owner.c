/* Tests slabs while threads pass them on by outboxes and inboxes, abandon them, or own them. */
#include "base/bits.h"
#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/shadow.h"
#include "runtime/lifecycle.h"
#include "slab/abandoned.h"
#include "slab/outbox.h"
#include "slab/slab_heap.h"
#include "slab/slab.h"
#include "support/pattern.h"
#include "tcache/tcache.h"
#include "unit/fake_os.h"
#include "unit/invariants.h"

enum { SLABS = 12, BLOCKS = 64 * HK_SLAB_MOST_WORDS };

/* Owners are embedded in caches because the heap statistics read the whole cache. */
static struct hk_tcache owner_caches[2];
static struct hk_owner *const first_owner = &owner_caches[0].owner, *const second_owner = &owner_caches[1].owner;
static struct hk_owner freer;

static void begin_owners(void)
{
    shadow_begin();
    FUZZ_CHECK(hk_tcache_get() != NULL && hk_owner_register(first_owner) && hk_owner_register(second_owner));
    hk_owner_open(first_owner);
    hk_owner_open(second_owner);
}

/* Holds slabs whose blocks are all taken, and notes which blocks were freed to their owner. */
static struct sent_slab {
    struct hk_slab *slab;
    bool sent[BLOCKS], arrived[BLOCKS];
} sent_slabs[SLABS];

static void make_full_slab(struct sent_slab *it, unsigned class, const struct hk_owner *owner)
{
    static void *blocks[BLOCKS];
    it->slab = hk_slab_make(class, owner->id, HK_USE_SPARSE);
    FUZZ_CHECK(it->slab != NULL);
    hk_slab_alloc(it->slab, blocks + it->slab->d.blocks, it->slab->d.blocks);
}

static size_t bytes_waiting(const struct hk_outbox *outbox)
{
    int64_t bytes[HK_CLASSES] = {0}, sum = 0;
    hk_outbox_count(outbox, bytes);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        sum += bytes[class];
    return (size_t)sum;
}

static void collect_inbox(struct hk_owner *owner, unsigned most)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        for (struct hk_slab *slab = hk_inbox_take(owner, class, most), *next; slab != NULL; slab = next) {
            next = hk_inbox_next(slab);
            FUZZ_CHECK(slab->d.class == class && hk_entry_owner(hk_page_map_lookup(slab->d.start)) == owner->id);
            hk_remote_collect(slab);
        }
}

/* Checks that the free bit or the remote bit of a block is set only if the block was freed. */
static void check_sent(bool all)
{
    for (unsigned s = 0; s < SLABS; s++)
        for (unsigned i = 0; i < sent_slabs[s].slab->d.blocks; i++) {
            const struct hk_slab *slab = sent_slabs[s].slab;
            bool free = (slab->freebits[i / 64] >> (i % 64) & 1) != 0,
                 waits = (hk_load(slab->xremote[i / 64]) >> (i % 64) & 1) != 0;
            FUZZ_CHECK(!(free && waits) && (!(free || waits) || sent_slabs[s].sent[i]), "(slab %u, block %u)", s, i);
            FUZZ_CHECK(!all || free == sent_slabs[s].sent[i], "(slab %u, block %u)", s, i);
        }
}

static void put_out(struct hk_outbox *outbox, struct sent_slab *to, unsigned i)
{
    void *block = (char *)to->slab->d.start + (size_t)i * to->slab->d.block_size;
    if (to->sent[i])
        return;
    to->sent[i] = true;
    struct hk_outbox_entry *entry = hk_outbox_entry_of(outbox, block);
    if (entry == NULL || !hk_outbox_put_fast(outbox, entry, block))
        hk_outbox_put(outbox, block);
}

void fuzz_outbox(struct fuzz_input *in)
{
    static struct hk_outbox outbox;
    begin_owners();
    hk_outbox_open(&outbox, &freer);
    for (unsigned i = 0; i < SLABS; i++)
        make_full_slab(&sent_slabs[i], (unsigned)fuzz_below(in, HK_CLASSES), i % 2 == 0 ? first_owner : second_owner);
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        struct sent_slab *to = &sent_slabs[fuzz_byte(in) % SLABS];
        unsigned at = (unsigned)fuzz_below(in, to->slab->d.blocks);
        if (op < 200)
            for (unsigned i = at; i < to->slab->d.blocks && i <= at + (op % 4 == 0 ? op : 0); i++)
                put_out(&outbox, to, i);
        else if (op < 225)
            collect_inbox(op % 2 == 0 ? first_owner : second_owner, 1 + op % 3);
        else if (op < 235) {
            if (outbox.table != NULL)
                hk_outbox_tune(&outbox, (size_t)op * at * 4096);
        } else if (op < 240)
            fake_os_refuse(op % 2 == 0 ? fake_refuse_mappings : NULL);
        else if (op < 250)
            hk_outbox_send_all(&outbox);
        else if (op < 252)
            check_sent(false);
        else if (bytes_waiting(&outbox) == 0)
            hk_outbox_drop_idle(&outbox);
        size_t waiting = bytes_waiting(&outbox);
        FUZZ_CHECK(waiting <= outbox.allowed + HK_MEDIUM_MAX && (op < 240 || op >= 250 || waiting == 0), "(%zu bytes)",
                   waiting);
    }
    hk_outbox_send_all(&outbox);
    for (unsigned i = 0; i < 2; i++) { /* The first call takes the backlog, and the second takes the inbox. */
        collect_inbox(first_owner, SLABS);
        collect_inbox(second_owner, SLABS);
    }
    check_sent(true);
}

/* Each queued slab must be taken out exactly once, by its owner or by another thread. */
static bool queued[SLABS];

static void note_out(struct hk_slab *chain, unsigned most)
{
    for (struct hk_slab *slab = chain; slab != NULL; slab = hk_inbox_next(slab), most--) {
        unsigned i = 0;
        while (i < SLABS && sent_slabs[i].slab != slab)
            i++;
        FUZZ_CHECK(i < SLABS && queued[i] && most > 0);
        queued[i] = false;
    }
}

static unsigned queued_of(unsigned class)
{
    unsigned count = 0;
    for (unsigned i = 0; i < SLABS; i++)
        count += queued[i] && sent_slabs[i].slab->d.class == class;
    return count;
}

void fuzz_inbox(struct fuzz_input *in)
{
    bool open = true, last;
    begin_owners();
    for (unsigned i = 0; i < SLABS; i++)
        make_full_slab(&sent_slabs[i], 20 + i % 3, first_owner);
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        unsigned i = fuzz_byte(in) % SLABS, class = 20 + i % 3, most = 1 + op % 5u, before = queued_of(class);
        if (op < 128 && !queued[i]) {
            FUZZ_CHECK(hk_inbox_push(first_owner, sent_slabs[i].slab) == open);
            queued[i] = open;
        } else if (op < 170) {
            note_out(hk_inbox_take(first_owner, class, most), most);
            FUZZ_CHECK(before == 0 || queued_of(class) < before);
        } else if (op < 200) {
            struct hk_slab *one = hk_inbox_steal(first_owner, class, 1, UINT64_MAX, &last);
            note_out(one, 1);
            FUZZ_CHECK((one != NULL) == (before > 0));
        } else if (op < 240) {
            uint64_t awake = op % 2 == 0 ? 100 : 300;
            hk_store(first_owner->xawake, 200);
            struct hk_slab *stolen = hk_inbox_steal(first_owner, class, most, awake, &last);
            FUZZ_CHECK((stolen != NULL) == (before > 0 && awake == 300));
            note_out(stolen, most);
        } else if (op == 255) {
            hk_inboxes_close(first_owner);
            open = false;
        }
        FUZZ_CHECK(hk_load(hk_queued_slabs[class]) == (int32_t)queued_of(class));
    }
    for (unsigned class = 20; class < 23; class ++)
        while (queued_of(class) > 0)
            note_out(hk_inbox_take(first_owner, class, 2), 2);
}

/* The test holds up to LIVE live blocks of one class. Their slabs are abandoned, or belong to one of two owners. */
enum { LIVE = 512 };
static void *live[LIVE];

static void note_live(void *block, size_t size, unsigned at)
{
    FUZZ_CHECK(shadow_enter(block, size), "(%p)", block);
    pattern_fill(block, 16, at);
    live[at] = block;
}

static void note_freed(unsigned at, size_t size)
{
    FUZZ_CHECK(pattern_holds(live[at], 16, at) && shadow_leave(live[at], size));
    live[at] = NULL;
}

static void take_for_live(unsigned class, unsigned first, unsigned n, bool common)
{
    void *taken[64];
    unsigned at = first, got = 1;
    n = 1 + n % 64;
    if (common)
        got = hk_abandoned_take(class, HK_COMMONS, taken + 64, n);
    else
        taken[63] = hk_abandoned_alloc(class, HK_FOR_ADOPTION);
    FUZZ_CHECK(got <= n && ((got > 0 && taken[63] != NULL) || fake_os.refuse != NULL));
    for (unsigned i = 0; i < got && taken[63] != NULL; i++, at++) {
        while (live[at % LIVE] != NULL && at < first + LIVE)
            at++;
        if (at >= first + LIVE)
            FUZZ_CHECK(hk_abandoned_free(taken[63 - i], class));
        else
            note_live(taken[63 - i], hk_classes[class].size, at % LIVE);
    }
}

static uint32_t holder_of(const void *block) { return hk_entry_owner(hk_page_map_lookup((uintptr_t)block)); }

/* Frees a block. If its slab belongs to an owner, the owner then gives up the slab. */
static void free_live(unsigned class, unsigned at, bool claims)
{
    struct hk_slab *slab = hk_slab_at((uintptr_t)live[at]);
    bool abandoned = holder_of(live[at]) == HK_ABANDONED;
    void *block = live[at];
    note_freed(at, hk_classes[class].size);
    if (abandoned && claims && hk_abandoned_list(block) == HK_FOR_ADOPTION) {
        FUZZ_CHECK(hk_abandoned_claim(block, class, first_owner) == slab && holder_of(block) == first_owner->id);
        abandoned = false;
    }
    if (abandoned) {
        FUZZ_CHECK(hk_abandoned_free(block, class));
        return;
    }
    FUZZ_CHECK(!hk_abandoned_free(block, class));
    hk_slab_free(slab, block);
    hk_abandoned_add(slab);
}

void fuzz_abandoned(struct fuzz_input *in)
{
    begin_owners();
    unsigned class = (unsigned)fuzz_below(in, HK_CLASSES - 8);
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        unsigned at = (unsigned)fuzz_below(in, LIVE);
        if (op < 80) {
            take_for_live(class, at, op % 4 == 0 ? op : 0, op % 4 == 0);
        } else if (op < 216) {
            if (live[at] != NULL)
                free_live(class, at, op % 2 == 0);
        } else if (op < 236) {
            bool has = hk_abandoned_has(class);
            struct hk_slab *slab = hk_abandoned_adopt(class, second_owner);
            FUZZ_CHECK(!has || slab != NULL);
            if (slab != NULL)
                FUZZ_CHECK(slab->free > 0 && holder_of((void *)slab->d.start) == second_owner->id);
            if (slab != NULL)
                hk_abandoned_add(slab);
        } else if (op < 240) {
            hk_abandoned_crowd(op % 2 == 0);
        } else if (op < 244) {
            hk_abandoned_purge();
        } else if (op < 248) {
            struct hk_sweep sweep = {.now = hk_os.clock_ms(), .touched = hk_os.clock_ms(), .work = 1000};
            hk_abandoned_sweep(&sweep);
            fake_os_pass_ms(at * 8);
        } else {
            fake_os_refuse(op % 4 == 0 ? fake_refuse_mappings : NULL);
        }
    }
    fake_os_refuse(NULL);
    for (unsigned at = 0; at < LIVE; at++)
        if (live[at] != NULL)
            free_live(class, at, false);
    struct hk_slab *slab = hk_abandoned_adopt(class, first_owner);
    FUZZ_CHECK(slab == NULL, "(a slab without live blocks was not released)");
}

/* Tests an owner's slabs. Batches of blocks are allocated and freed in any order, as bins do. */
enum { BATCH = 32 };
static uint8_t class_of_live[LIVE];
static unsigned lives;

static void take_batch(struct hk_owner *owner, unsigned class, unsigned want, unsigned at)
{
    void *batch[BATCH];
    unsigned n = hk_slab_heap_alloc(owner, class, batch + BATCH, want);
    FUZZ_CHECK(n <= want && (n > 0 || fake_os.refuse != NULL));
    for (unsigned i = BATCH - n; i < BATCH; i++, at++) {
        if (lives == LIVE) {
            FUZZ_CHECK(hk_slab_heap_free(owner, &batch[i], 1) == 1);
            continue;
        }
        while (live[at % LIVE] != NULL)
            at++;
        FUZZ_CHECK(holder_of(batch[i]) == owner->id);
        class_of_live[at % LIVE] = (uint8_t) class;
        note_live(batch[i], hk_classes[class].size, at % LIVE);
        lives++;
    }
}

static void give_batch(struct hk_owner *owner, unsigned from, unsigned to)
{
    void *batch[BATCH];
    unsigned n = 0;
    for (; from < to; from++)
        if (live[from % LIVE] != NULL) {
            batch[n++] = live[from % LIVE];
            note_freed(from % LIVE, hk_classes[class_of_live[from % LIVE]].size);
        }
    FUZZ_CHECK(n == 0 || hk_slab_heap_free(owner, batch, n) == n);
    lives -= n;
}

void fuzz_slab_heap(struct fuzz_input *in)
{
    static struct hk_heap_stats heap_stats;
    begin_owners();
    struct hk_owner *owner = &hk_tcache_self()->owner;
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        unsigned at = (unsigned)fuzz_below(in, LIVE);
        if (op < 96) {
            take_batch(owner, (unsigned)fuzz_below(in, HK_CLASSES), 1 + op % (unsigned)BATCH, at);
        } else if (op < 240) {
            give_batch(owner, at, at + (op % 2 == 0 ? BATCH : 1));
        } else if (op < 248) {
            struct hk_trim trim = hk_trim_begin();
            while (hk_slab_heap_trim_some(owner, &trim))
                continue;
        } else if (op < 251) {
            fake_os_refuse(op % 3 == 0 ? fake_refuse_mappings : NULL);
        } else if (op == 255) {
            const char *wrong = heap_is_wrong(&heap_stats);
            FUZZ_CHECK(wrong == NULL && heap_stats.sum.live_blocks == lives, "(%s; %zu blocks, not %u)",
                       wrong != NULL ? wrong : "", (size_t)heap_stats.sum.live_blocks, lives);
        }
    }
}
