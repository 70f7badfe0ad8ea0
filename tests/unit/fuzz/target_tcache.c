/* Tests the parts of a thread's cache against models. A bin is a stack, a depot is a stack of magazines, and the pool has the numbers of caches. */
#include "base/bits.h"
#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/shadow.h"
#include "policy/policy.h"
#include "runtime/lifecycle.h"
#include "support/knobs.h"
#include "tcache/tcache.h"
#include "unit/fake_os.h"
#include "unit/invariants.h"

enum { LIVE = 1024, MAGAZINES = 64 };

/* Holds the bin under test, and the program's live blocks of its class. */
static struct {
    struct hk_tcache *cache;
    struct hk_bin *bin;
    unsigned class, lives;
    size_t size, offset;
    void *live[LIVE];
} of;

static void pop_block(void)
{
    size_t items = hk_bin_items(of.bin);
    void *newest = items > 0 ? *of.bin->top : NULL, *block = hk_hit_pop(&of.cache->hot, of.offset, false);
    FUZZ_CHECK(block == newest && hk_bin_items(of.bin) == items - (items > 0));
    if (block == NULL)
        return;
    FUZZ_CHECK(shadow_enter(block, of.size));
    of.live[of.lives++] = block;
}

static void push_block(unsigned at)
{
    bool room = hk_bin_items(of.bin) < hk_bin_capacity(of.bin);
    FUZZ_CHECK(hk_hit_push(&of.cache->hot, of.offset, of.live[at]) == room);
    if (!room)
        return;
    FUZZ_CHECK(*of.bin->top == of.live[at] && shadow_leave(of.live[at], of.size));
    of.live[at] = of.live[--of.lives];
}

static void fill_bin(void)
{
    size_t got = hk_bin_fill(of.cache, of.class);
    FUZZ_CHECK(got == hk_bin_items(of.bin) && (got > 0 || fake_os.refuse != NULL));
}

/* Flushes the n oldest blocks of the bin. */
static void flush_bin(size_t n)
{
    size_t items = hk_bin_items(of.bin);
    void *newest = *of.bin->top;
    hk_bin_flush(of.cache, of.class, n);
    FUZZ_CHECK(hk_bin_items(of.bin) == items - n && (n == items || *of.bin->top == newest));
}

static void grow_bin(void)
{
    size_t capacity = hk_bin_capacity(of.bin), items = hk_bin_items(of.bin);
    bool grows = hk_bin_grow(of.cache, of.class);
    FUZZ_CHECK((hk_bin_capacity(of.bin) > capacity) == grows && hk_bin_items(of.bin) == items);
}

/* If a block should move, the next block of the bin lies in another slab. */
static void ask_to_move(const void *block)
{
    bool moves = hk_tcache_should_move(of.cache, block);
    FUZZ_CHECK(!moves || hk_bin_items(of.bin) == 0 ||
               hk_slab_at((uintptr_t)*of.bin->top) != hk_slab_at((uintptr_t)block));
}

static void check_bins(void)
{
    static struct hk_heap_stats heap_stats;
    const char *wrong = heap_is_wrong(&heap_stats);
    FUZZ_CHECK(wrong == NULL && heap_stats.classes[of.class].live_blocks == of.lives, "(%s)",
               wrong != NULL ? wrong : "");
}

static void seldom_with_bins(uint8_t op)
{
    if (op < 246) {
        op % 2 == 0 ? hk_bin_empty(of.cache, of.class) : hk_bins_empty(of.cache, true);
        FUZZ_CHECK(hk_bin_items(of.bin) == 0);
    } else if (op < 249) {
        hk_bins_flush_idle(of.cache);
    } else if (op == 251 && of.lives > 0) {
        ask_to_move(of.live[0]);
    } else if (op < 252) {
        fake_os_refuse(op == 249 ? fake_refuse_mappings : NULL);
    } else {
        check_bins();
    }
}

/* The bin must hold what was pushed, and pop the newest block. */
void fuzz_bins(struct fuzz_input *in)
{
    shadow_begin();
    FUZZ_CHECK(hk_tcache_get() != NULL);
    of.cache = hk_tcache_self();
    of.class = (unsigned)fuzz_below(in, HK_CLASSES);
    of.size = hk_classes[of.class].size;
    of.offset = of.class * (size_t)HK_CLASS_BYTES;
    of.bin = &of.cache->hot.bins[of.class];
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        size_t items = hk_bin_items(of.bin);
        if (op < 110 && of.lives < LIVE)
            pop_block();
        else if (op < 220 && of.lives > 0)
            push_block((unsigned)fuzz_below(in, of.lives));
        else if (op < 228 && items == 0 && hk_bin_capacity(of.bin) > 0)
            fill_bin();
        else if (op < 236 && items > 0)
            flush_bin(1 + fuzz_byte(in) % items);
        else if (op < 242)
            grow_bin();
        else
            seldom_with_bins(op);
        FUZZ_CHECK(hk_bin_items(of.bin) <= hk_bin_capacity(of.bin) && *of.bin->base == NULL);
    }
}

/* Models the depot. Magazines are taken as a whole, the newest first. Their bytes stay within the limit. */
static struct magazine_model {
    void *blocks[HK_MAGAZINE_BLOCKS];
    size_t count;
} magazines[3][MAGAZINES];
static size_t magazine_counts[3], depot_bytes;
static struct hk_depot depot;
static const unsigned depot_classes[] = {3, 20, 40};

static void put_magazine(unsigned which, size_t n, uintptr_t start, bool scattered)
{
    void *blocks[HK_MAGAZINE_BLOCKS + 4];
    size_t size = hk_classes[depot_classes[which]].size, step = scattered ? 5 * size : size;
    for (size_t i = 0; i < n; i++)
        blocks[i] = (void *)(start + i * step);
    /* The depot refuses a magazine if every eighth of its blocks lie too far apart. */
    bool close = (n - 1) / 8 * 8 * step <= 4 * n * size;
    bool right = n <= HK_MAGAZINE_BLOCKS && depot_bytes + n * size <= HK_POLICY(depot) && close;
    FUZZ_CHECK(hk_depot_put(&depot, depot_classes[which], blocks, n) == right, "(%zu blocks of %zu bytes)", n, size);
    if (!right)
        return;
    struct magazine_model *model = &magazines[which][magazine_counts[which]++];
    memcpy(model->blocks, blocks, n * sizeof *blocks);
    model->count = n;
    depot_bytes += n * size;
}

static void take_magazine(unsigned which, size_t room)
{
    void *blocks[HK_MAGAZINE_BLOCKS];
    size_t got = hk_depot_take(&depot, depot_classes[which], blocks, room);
    const struct magazine_model *newest =
        magazine_counts[which] > 0 ? &magazines[which][magazine_counts[which] - 1] : NULL;
    FUZZ_CHECK(got == (newest != NULL && newest->count <= room ? newest->count : 0));
    FUZZ_CHECK(got == 0 || memcmp(blocks, newest->blocks, got * sizeof *blocks) == 0);
    magazine_counts[which] -= got > 0;
    depot_bytes -= got * hk_classes[depot_classes[which]].size;
}

void fuzz_depot(struct fuzz_input *in)
{
    FUZZ_CHECK(hk_tcache_get() != NULL);
    SET_KNOB(depot, 1 + fuzz_bytes(in, 3));
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        unsigned which = op % 3u;
        size_t n = 1 + fuzz_byte(in) % (HK_MAGAZINE_BLOCKS + 4u);
        if (op < 140 && magazine_counts[which] < MAGAZINES)
            put_magazine(which, n, 0x10000000 + (uintptr_t)fuzz_byte(in) * 4096, op < 8);
        else if (op >= 140)
            take_magazine(which, hk_min(n, HK_MAGAZINE_BLOCKS));
        FUZZ_CHECK(depot.bytes == depot_bytes);
    }
    size_t blocks = 0;
    for (unsigned which = 0; which < 3; which++)
        for (size_t i = 0; i < magazine_counts[which]; i++)
            blocks += magazines[which][i].count;
    FUZZ_CHECK(hk_depot_forget(&depot) == blocks && depot.bytes == 0);
}

/* The pool must return the waiting cache with the lowest number, or a new number if none waits. */
void fuzz_pool(struct fuzz_input *in)
{
    enum { CACHES = 200 };
    static struct hk_tcache *taken[CACHES];
    static bool waits[CACHES + 64];
    FUZZ_CHECK(hk_tcache_get() != NULL);
    uint32_t first = hk_owner_end();
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        unsigned at = fuzz_byte(in) % CACHES;
        if (op >= 250) {
            op % 2 == 0 ? (void)hk_pool_purge() : hk_pool_epoch(op);
        } else if (op >= 246) {
            fake_os_refuse(op == 246 ? fake_refuse_mappings : NULL);
        } else if (taken[at] == NULL && op < 150) {
            uint32_t lowest = first, end = hk_owner_end();
            while (lowest < end && !waits[lowest - first])
                lowest++;
            taken[at] = hk_pool_take();
            FUZZ_CHECK(taken[at] != NULL || (fake_os.refuse != NULL && lowest == end));
            if (taken[at] == NULL)
                continue;
            FUZZ_CHECK(taken[at]->owner.id == lowest, "(%u, not %u)", taken[at]->owner.id, lowest);
            FUZZ_CHECK(hk_tcache_by_id(lowest) == taken[at] && !hk_owner_rests(lowest));
            for (unsigned class = 0; class < HK_CLASSES; class ++)
                FUZZ_CHECK(hk_bin_items(&taken[at]->hot.bins[class]) == 0 &&
                           taken[at]->depot.classes[class].newest == NULL);
            waits[lowest - first] = false;
        } else if (taken[at] != NULL && op >= 100) {
            waits[taken[at]->owner.id - first] = true;
            hk_pool_put(taken[at]);
            taken[at] = NULL;
            FUZZ_CHECK(hk_pool_waits());
        }
    }
}
