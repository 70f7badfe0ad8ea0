/* Tests a slab. It must allocate the lowest blocks first, and joined blocks as a whole. Each remote free must arrive once. Purged pages must hold
 * no live block. */
#include "base/bits.h"
#include "unit/fuzz/fuzz.h"
#include "runtime/lifecycle.h"
#include "slab/joined_blocks.h"
#include "slab/remote.h"
#include "slab/remote_track.h"
#include "slab/slab.h"
#include "slab/slab_purge.h"
#include "support/pattern.h"
#include "unit/fake_os.h"

enum { OWNER = 7, MOST = 64 * HK_SLAB_MOST_WORDS, BATCH = 256 };

/* Says where each block is. JOINED is a part of a joined block that begins at a lower address. */
enum where { FREE, TAKEN, JOINED, REMOTE };
static enum where where[MOST];
static struct hk_slab *slab;

static void make_slab(struct fuzz_input *in)
{
    FUZZ_CHECK(hk_tcache_get() != NULL);
    slab = hk_slab_make((unsigned)fuzz_below(in, HK_CLASSES), OWNER, HK_USE_SPARSE);
    FUZZ_CHECK(slab != NULL && slab->d.blocks <= MOST && slab->d.blocks == slab->d.bytes / slab->d.block_size);
}

static void *block_at(unsigned i) { return (char *)slab->d.start + (size_t)i * slab->d.block_size; }
static unsigned index_of(const void *block)
{
    return (unsigned)(((uintptr_t)block - slab->d.start) / slab->d.block_size);
}

static unsigned count_where(enum where is)
{
    unsigned count = 0;
    for (unsigned i = 0; i < slab->d.blocks; i++)
        count += where[i] == is;
    return count;
}

static void check_slab(void)
{
    unsigned free = count_where(FREE);
    FUZZ_CHECK(slab->free == free, "(%u of %u)", slab->free, free);
    for (unsigned i = 0; i < slab->d.blocks; i++)
        FUZZ_CHECK((slab->freebits[i / 64] >> (i % 64) & 1) == (where[i] == FREE), "(block %u)", i);
}

static void take_lowest(unsigned n)
{
    void *taken[BATCH];
    unsigned at = 0;
    n = (unsigned)hk_min(n % (BATCH + 1), slab->free);
    hk_slab_alloc(slab, taken + n, n);
    for (unsigned i = n; i-- > 0; where[at] = TAKEN) {
        while (where[at] != FREE)
            at++;
        FUZZ_CHECK(taken[i] == block_at(at), "(%p, block %u)", taken[i], at);
    }
}

static void give_back(unsigned i)
{
    if (where[i] != TAKEN)
        return;
    hk_slab_free(slab, block_at(i));
    for (where[i++] = FREE; i < slab->d.blocks && where[i] == JOINED; i++)
        where[i] = FREE;
}

static void release_slab(void)
{
    for (unsigned i = 0; i < slab->d.blocks; i++)
        give_back(i);
    check_slab();
    uintptr_t start = slab->d.start;
    FUZZ_CHECK(hk_slab_all_free(slab));
    hk_slab_release(slab);
    FUZZ_CHECK(hk_page_map_lookup(start) == 0);
}

void fuzz_slab(struct fuzz_input *in)
{
    make_slab(in);
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        unsigned first = (unsigned)fuzz_below(in, slab->d.blocks);
        if (op < 64)
            take_lowest(op % 4 == 0 ? first : op);
        for (unsigned i = first; op >= 64 && i < slab->d.blocks && i <= first + (op % 8 == 0 ? op : 1); i++)
            give_back(i);
        size_t inside = first * (size_t)slab->d.block_size + op % slab->d.block_size;
        FUZZ_CHECK(hk_slab_index(slab, slab->d.start + inside) == first && hk_slab_at(slab->d.start + inside) == slab);
        check_slab();
    }
    release_slab();
}

/* Takes joined blocks. Each must be a run of free blocks, and the lowest runs must be taken first. */
static void take_joined_blocks(unsigned cells, unsigned n)
{
    void *taken[16];
    unsigned got = hk_joined_take(slab, cells, taken + 16, n), want = 0, at = 0;
    while (want < n && at + cells <= slab->d.blocks) {
        unsigned run = 0;
        while (run < cells && where[at + run] == FREE)
            run++;
        if (run < cells) {
            at += run + 1;
            continue;
        }
        FUZZ_CHECK(want < got && taken[15 - want] == block_at(at), "(joined block %u of %u cells at %u)", want, cells,
                   at);
        FUZZ_CHECK(hk_joined_bytes(block_at(at)) == (size_t)cells * slab->d.block_size);
        where[at] = TAKEN;
        for (unsigned i = 1; i < cells; i++)
            where[at + i] = JOINED;
        at += cells;
        want++;
    }
    FUZZ_CHECK(got == want, "(%u of %u)", got, want);
}

void fuzz_joined_blocks(struct fuzz_input *in)
{
    make_slab(in);
    if (slab->d.blocks < 32)
        return;
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        unsigned first = (unsigned)fuzz_below(in, slab->d.blocks), cells = 2u + op % (HK_JOINED_MOST_CELLS - 1u);
        if (op < 40)
            take_lowest(op % 4 == 0 ? first : op);
        else if (op < 110)
            take_joined_blocks(cells, 1 + op % 9);
        for (unsigned i = first; op >= 110 && i < slab->d.blocks && i <= first + op % 32; i++)
            give_back(i);
        check_slab();
        FUZZ_CHECK(slab->joined == count_where(JOINED) && slab->mixed == (slab->joined > 0) &&
                   hk_entry_is_mixed(hk_page_map_lookup(slab->d.start)) == slab->mixed);
        for (unsigned i = 0; i < slab->d.blocks; i++)
            FUZZ_CHECK(hk_slab_joins(slab, i) == (where[i] == JOINED));
    }
    release_slab();
}

/* Models the protocol of remote frees. One thread at a time makes a step. Each block is claimed once. The slab is kept until all threads have
 * counted their blocks. */
static struct {
    unsigned uncounted; /* blocks that are marked, but not counted */
    int counted;        /* blocks that are counted, but not claimed; below 0: they were claimed first */
    bool queued;
} remote;

static void send_word(unsigned word, uint64_t bits)
{
    hk_track_step(slab, HK_TRACK_SEND, word, bits);
    hk_remote_mark(slab, word, bits);
}

static void mark_word(struct fuzz_input *in)
{
    unsigned word = (unsigned)fuzz_below(in, slab->words);
    uint64_t bits = 0, wanted = fuzz_word(in);
    for (unsigned bit = 0; bit < 64 && word * 64 + bit < slab->d.blocks; bit++)
        if ((wanted >> bit & 1) != 0 && where[word * 64 + bit] == TAKEN) {
            bits |= (uint64_t)1 << bit;
            where[word * 64 + bit] = REMOTE;
            hk_track_step(slab, HK_TRACK_PUT, word, (uint64_t)1 << bit);
        }
    if (bits != 0)
        send_word(word, bits);
    remote.uncounted += hk_popcount64(bits);
}

static void count_some(unsigned n)
{
    n = (unsigned)hk_min(n, remote.uncounted);
    if (n == 0)
        return;
    FUZZ_CHECK(hk_remote_count(slab, n) == !remote.queued);
    remote.queued = true;
    remote.uncounted -= n;
    remote.counted += (int)n;
}

/* Marks remote blocks as free in the model. If a block is joined, all of its cells become free. */
static void free_remote(void)
{
    bool freed = false;
    for (unsigned i = 0; i < slab->d.blocks; i++) {
        freed = where[i] == REMOTE || (freed && where[i] == JOINED);
        where[i] = freed ? FREE : where[i];
    }
}

static void collect_all(void)
{
    unsigned waiting = count_where(REMOTE);
    FUZZ_CHECK(hk_remote_collect(slab) == waiting);
    free_remote();
    remote.counted -= (int)waiting;
    remote.queued = false;
}

/* Claims blocks, checks them, lets the slab go, and sends the claimed blocks again, as a walk that purges does. */
static void claim_and_send(void)
{
    uint64_t bits[HK_SLAB_MOST_WORDS] = {0}, set = 0;
    unsigned claimed = hk_remote_claim(slab, bits);
    FUZZ_CHECK(claimed == count_where(REMOTE));
    FUZZ_CHECK(hk_remote_let_go(slab, bits) == 0);
    remote.counted -= (int)claimed;
    remote.queued = false;
    for (unsigned word = 0; word < slab->words; word++)
        for (unsigned bit = 0; bit < 64 && word * 64 + bit < slab->d.blocks; bit++) {
            bool is = (bits[word] >> bit & 1) != 0;
            FUZZ_CHECK(is == (where[word * 64 + bit] == REMOTE));
            set += is;
        }
    FUZZ_CHECK(set == claimed);
    for (unsigned word = 0; word < slab->words; word++)
        if (bits[word] != 0)
            send_word(word, bits[word]);
    remote.uncounted += claimed;
    count_some(claimed);
}

/* Checks the stage of each block if remote frees are tracked. */
static void check_stages(void)
{
    for (unsigned i = 0; slab->track != NULL && i < slab->d.blocks; i++)
        FUZZ_CHECK((hk_load(slab->track[i]) & HK_STAGE_MASK) == (where[i] == REMOTE ? HK_STAGE_REMOTE : HK_STAGE_HOME));
}

void fuzz_remote(struct fuzz_input *in)
{
    make_slab(in);
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        if (op < 56)
            take_lowest(op * 4u);
        else if (op < 64 && slab->d.blocks >= 32)
            take_joined_blocks(2 + op % 7u, 8);
        else if (op < 128)
            mark_word(in);
        else if (op < 180)
            count_some(op % 64 + 1u);
        else if (op < 210 && remote.queued)
            collect_all();
        else if (op < 230 && remote.queued)
            claim_and_send();
        else
            give_back((unsigned)fuzz_below(in, slab->d.blocks));
        check_slab();
        check_stages();
        FUZZ_CHECK(hk_remote_blocks(slab) == remote.counted);
        FUZZ_CHECK(hk_slab_all_free(slab) == (slab->free == slab->d.blocks && remote.counted == 0 && !remote.queued));
    }
    count_some(UINT32_MAX);
    if (remote.queued)
        collect_all();
    release_slab();
}

/* Checks that live blocks keep their contents, and that the pages without a live block read as zeros if they were purged. */
static void check_pages(bool purged)
{
    size_t size = slab->d.block_size;
    for (unsigned i = 0; i < slab->d.blocks; i++)
        if (where[i] == TAKEN)
            FUZZ_CHECK(pattern_holds(block_at(i), 64, i) && pattern_holds((char *)block_at(i) + size - 16, 16, i),
                       "(block %u)", i);
    size_t bytes = hk_system_page();
    uintptr_t end = slab->d.start + slab->d.blocks * size;
    for (uintptr_t page = slab->d.start; purged && page < end; page += bytes) {
        bool free = page + bytes <= end;
        for (unsigned i = index_of((void *)page); free && i < slab->d.blocks && (uintptr_t)block_at(i) < page + bytes;
             i++)
            free = where[i] == FREE;
        FUZZ_CHECK(!free || all_zero((void *)page, bytes), "(page %zu)", (page - slab->d.start) / bytes);
    }
}

static void fill_taken(void)
{
    size_t size = slab->d.block_size;
    for (unsigned i = 0; i < slab->d.blocks; i++)
        if (where[i] == TAKEN) {
            pattern_fill((char *)block_at(i) + size - 16, 16, i);
            pattern_fill(block_at(i), 64, i);
        }
}

/* Purges a slab. The first and the last bytes of each live block carry a pattern, which the purge must keep. */
void fuzz_slab_purge(struct fuzz_input *in)
{
    make_slab(in);
    if (slab->d.block_size < 128)
        return;
    struct hk_list list;
    hk_list_init(&list);
    hk_list_push_back(&list, &slab->link);
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        unsigned first = (unsigned)fuzz_below(in, slab->d.blocks);
        if (op < 64) {
            take_lowest(op % 4 == 0 ? first : op);
            fill_taken();
        } else if (op >= 200 && op < 228) {
            struct hk_trim trim = hk_trim_begin();
            while (!hk_slab_trim(slab, &trim))
                continue;
            FUZZ_CHECK(hk_slab_is_trimmed(slab, &trim));
            check_pages(true);
        } else if (op >= 228) {
            struct hk_walk walk = {list.head.next, 0};
            struct hk_sweep sweep = {.now = hk_os.clock_ms(), .touched = hk_os.clock_ms(), .work = op, .why = op % 3};
            hk_slab_sweep_slow(&walk, &list, &sweep);
            fake_os_pass_ms(first);
            check_pages(false);
        }
        for (unsigned i = first; op >= 64 && op < 200 && i < slab->d.blocks && i <= first + op % 64; i++)
            give_back(i);
        check_slab();
    }
    check_pages(false);
    hk_link_remove(&slab->link);
    release_slab();
}
