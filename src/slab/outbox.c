/* Collects a thread's remote frees in a hash table, and sends them to their slabs. Each entry of the table holds one bitmap word. */
#include "slab/outbox.h"
#include "os/os.h"
#include "slab/abandoned.h"
#include "slab/joined_blocks.h"
#include "slab/remote_track.h"
#include "span/meta.h"

enum {
    GROWTH = 2,
    ENTRIES_PER_EVICTION = 16, /* the table is too small if more than 1/16 of its entries are evicted between ticks */
    FOOTPRINT_PER_BYTE_OF_TABLE = 64,
    FOOTPRINT_PER_WAITING_BYTE = 32,
};
#define ROOM_PER_ENTRY (4 * HK_KIB)
#define LEAST_ALLOWED (4 * HK_KIB)
#define LEAST_ALLOWED_TO_ALL (512 * HK_KIB)

static _Atomic size_t xtables;

void hk_send(struct hk_slab *slab)
{
    for (;;) {
        uint32_t owner = hk_load_acquire(slab->xowner);
        if (owner == HK_ABANDONED ? hk_abandoned_collect(slab) : hk_inbox_push(hk_owner_by_id(owner), slab))
            return;
        hk_os_pause(); /* the owner is ending, so its slabs will be abandoned in a moment */
    }
}

/* Returns the index of the block in its slab. Ends the program if `block` is not the start of a block. */
static size_t block_index(const struct hk_slab *slab, const void *block)
{
    size_t index;
    if (HK_UNLIKELY(!hk_slab_begins(slab, (uintptr_t)block, &index)))
        hk_slab_refuse(slab, block);
    return index;
}

static void send_to(struct hk_slab *slab, void *block)
{
    size_t index = block_index(slab, block);
    unsigned word = (unsigned)(index / 64);
    uint64_t bit = (uint64_t)1 << (index % 64);
    hk_track_step(slab, HK_TRACK_PUT, word, bit);
    hk_track_step(slab, HK_TRACK_SEND, word, bit);
    hk_remote_mark(slab, word, bit);
    if (hk_remote_count(slab, 1))
        hk_send(slab);
}

void hk_remote_free(void *block, uint32_t entry)
{
    uint32_t owner = hk_entry_owner(entry);
    if (owner == HK_NOBODY)
        hk_invalid_pointer(HK_CALL_FLUSH, HK_TEXT_already_free, block);
    if (owner != HK_ABANDONED || !hk_abandoned_free(block, hk_entry_class(entry)))
        send_to(hk_slab_at((uintptr_t)block), block);
}

static struct hk_outbox_entry no_entry; /* an entry that accepts no block */

void hk_outbox_shut(struct hk_outbox *outbox)
{
    outbox->entries = (char *)&no_entry;
    outbox->mask = 0;
}

/* Lets the fast path use the table. If every free is traced or tracked, shuts the fast path, because the fast path neither traces nor tracks. */
static void show_table(struct hk_outbox *outbox)
{
    hk_outbox_shut(outbox);
    if (outbox->table == NULL || hk_load(outbox->self->ring.xevents) != NULL || hk_remote_track.on)
        return;
    outbox->entries = (char *)outbox->table;
    outbox->mask = (outbox->size - 1) << HK_OUTBOX_ENTRY_SHIFT;
}

void hk_outbox_open(struct hk_outbox *outbox, struct hk_owner *self)
{
    outbox->self = self;
    outbox->allowed = LEAST_ALLOWED;
    outbox->room = LEAST_ALLOWED;
    outbox->evicted = 0;
    show_table(outbox);
}

static size_t table_bytes(size_t entries) { return entries * sizeof(struct hk_outbox_entry); }

static void use_table(struct hk_outbox *outbox, struct hk_outbox_entry *table, size_t entries)
{
    hk_add(xtables, (size_t)(table != NULL) - (outbox->table != NULL));
    if (outbox->table != NULL)
        hk_meta_free(outbox->table, table_bytes(outbox->size));
    outbox->table = table;
    outbox->size = entries;
    hk_store_release(outbox->xtable, entries == 0 ? 0 : (uintptr_t)table | hk_ctz64(entries));
    show_table(outbox);
}

void hk_outbox_drop(struct hk_outbox *outbox)
{
    if (outbox->table != NULL)
        use_table(outbox, NULL, 0);
}

void hk_outbox_drop_idle(struct hk_outbox *outbox)
{
    if (!outbox->used)
        hk_outbox_drop(outbox);
    outbox->used = false;
}

void hk_outbox_tune(struct hk_outbox *outbox, size_t footprint)
{
    hk_assert(outbox->table != NULL);
    if (outbox->evicted > outbox->size / ENTRIES_PER_EVICTION && outbox->size < HK_OUTBOX_MOST &&
        table_bytes(outbox->size * GROWTH) <= footprint / FOOTPRINT_PER_BYTE_OF_TABLE) {
        hk_outbox_send_all(outbox);
        struct hk_outbox_entry *table = hk_meta_alloc(table_bytes(outbox->size * GROWTH));
        if (table != NULL)
            use_table(outbox, table, outbox->size * GROWTH);
    }
    outbox->evicted = 0;
    size_t to_all = LEAST_ALLOWED_TO_ALL + footprint / FOOTPRINT_PER_WAITING_BYTE;
    size_t most = hk_min(to_all / hk_max(1, hk_load(xtables)), outbox->size * ROOM_PER_ENTRY);
    outbox->allowed = hk_max(most, LEAST_ALLOWED);
}

HK_INLINE void mark_word(struct hk_outbox_entry *entry, bool tracked)
{
    if (HK_UNLIKELY(tracked))
        hk_track_step(entry->slab, HK_TRACK_SEND, entry->word, entry->bits);
    uint64_t bits = entry->bits;
    hk_remote_mark(entry->slab, entry->word, bits);
    bool one = (bits & (bits - 1)) == 0;
    entry->marked += one ? 1 : hk_popcount64(bits);
    entry->bits = 0;
}

static void send(struct hk_outbox *outbox, struct hk_outbox_entry *entry)
{
    mark_word(entry, hk_remote_track.on);
    struct hk_slab *slab = entry->slab;
    unsigned blocks = entry->marked;
    entry->marked = 0;
    entry->slab = NULL;
    entry->bytes = 0;
    HK_COUNT_THREAD(&outbox->self->counts, remote_frees, blocks);
    if (hk_remote_count(slab, blocks))
        hk_send(slab);
}

void hk_outbox_send_all(struct hk_outbox *outbox)
{
    for (size_t at = 0; at < outbox->size / 64; at++) {
        uint64_t left = outbox->filled[at];
        outbox->filled[at] = 0;
        for (; left != 0; left &= left - 1)
            send(outbox, &outbox->table[at * 64 + hk_ctz64(left)]);
    }
    outbox->room = (int64_t)outbox->allowed;
}

/* Makes the entry hold another word, in which one block waits. `bytes` is 0 for medium blocks, because only the slow path checks their marks. */
HK_INLINE void open_word(struct hk_outbox_entry *entry, const struct hk_slab *slab, size_t index)
{
    size_t size = slab->d.block_size, first = index & ~(size_t)63;
    entry->word = (uint32_t)(index / 64);
    entry->bytes = size <= HK_FINE_MAX ? hk_min(slab->d.blocks - first, 64) * size : 0;
    entry->start = slab->d.start + first * size;
    entry->bits = (uint64_t)1 << (index % 64);
}

/* Takes an entry for a slab. If the entry holds blocks of another slab, first sends these blocks. */
static HK_NOINLINE void take_entry(struct hk_outbox *outbox, struct hk_outbox_entry *entry, struct hk_slab *slab)
{
    if (entry->slab != NULL) {
        outbox->evicted++;
        send(outbox, entry);
    }
    size_t at = (size_t)(entry - outbox->table);
    outbox->filled[at / 64] |= (uint64_t)1 << (at % 64);
    entry->slab = slab;
    entry->block_size = (int64_t)slab->d.block_size;
    entry->reciprocal = slab->reciprocal;
}

HK_INLINE void put_in_table(struct hk_outbox *outbox, struct hk_slab *slab, void *block, bool tracked)
{
    size_t at = hk_outbox_hash(block) & ((outbox->size - 1) << HK_OUTBOX_ENTRY_SHIFT);
    struct hk_outbox_entry *entry = (struct hk_outbox_entry *)(void *)((char *)outbox->table + at);
    size_t index = block_index(slab, block);
    if (HK_UNLIKELY(tracked))
        hk_track_step(slab, HK_TRACK_PUT, (unsigned)(index / 64), (uint64_t)1 << (index % 64));
    outbox->used = true;
    outbox->room -= slab->d.block_size;
    if (HK_UNLIKELY(entry->slab != slab)) {
        take_entry(outbox, entry, slab);
    } else if (HK_UNLIKELY(entry->word == index / 64)) { /* the fast path refused the block, maybe for lack of room */
        if (!hk_bit_set(&entry->bits, index))
            hk_invalid_pointer(HK_CALL_FLUSH, HK_TEXT_already_free, block);
        return;
    } else {
        mark_word(entry, tracked);
    }
    open_word(entry, slab, index);
}

/* Does the work of hk_outbox_put() if the outbox has no table or no room, or if every free is traced or tracked. */
static HK_NOINLINE bool put_slowly(struct hk_outbox *outbox, struct hk_slab *slab, void *block)
{
    HK_TRACE(&outbox->self->ring, remote, slab->d.block_size, block);
    bool sent = outbox->room < (int64_t)slab->d.block_size;
    struct hk_outbox_entry *table = outbox->table == NULL ? hk_meta_alloc(table_bytes(HK_OUTBOX_LEAST)) : NULL;
    if (table != NULL)
        use_table(outbox, table, HK_OUTBOX_LEAST);
    if (outbox->table == NULL) {
        HK_COUNT_THREAD(&outbox->self->counts, remote_frees, 1);
        send_to(slab, block);
        return true;
    }
    if (sent)
        hk_outbox_send_all(outbox);
    put_in_table(outbox, slab, block, hk_remote_track.on);
    return sent;
}

bool hk_outbox_put(struct hk_outbox *outbox, void *block)
{
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    if (HK_UNLIKELY(outbox->mask == 0) || HK_UNLIKELY(outbox->room < (int64_t)slab->d.block_size))
        return put_slowly(outbox, slab, block);
    put_in_table(outbox, slab, block, false); /* not tracked, because `mask` is 0 while the track is on */
    return false;
}

size_t hk_outbox_forget(struct hk_outbox *outbox)
{
    size_t blocks = 0;
    for (size_t at = 0; at < hk_min(outbox->size, HK_OUTBOX_MOST); at++)
        blocks += hk_popcount64(outbox->table[at].bits);
    *outbox = (struct hk_outbox){.self = outbox->self};
    return blocks;
}

/* Forgets marked blocks, because the fork child counts all remote bits. A slab whose blocks are counted twice would never be released. */
void hk_outboxes_recount(struct hk_outbox *survivor)
{
    hk_store(xtables, survivor != NULL && survivor->table != NULL);
    for (size_t at = 0; survivor != NULL && at < survivor->size; at++) {
        HK_COUNT_THREAD(&survivor->self->counts, remote_frees, survivor->table[at].marked);
        survivor->table[at].marked = 0;
    }
}

void hk_outbox_track_again(const struct hk_outbox *survivor)
{
    for (size_t at = 0; hk_remote_track.on && at < survivor->size; at++) {
        const struct hk_outbox_entry *entry = &survivor->table[at];
        hk_track_step(entry->slab, HK_TRACK_PUT, entry->word, entry->bits);
    }
}

/* Adds the bytes of the blocks in an entry's bits. A joined block counts in its own class. Limits the sizes, because the entry may be overwritten. */
static void count_bits(const struct hk_outbox_entry *entry, size_t block_size, int64_t bytes[HK_CLASSES])
{
    for (uint64_t left = entry->bits; left != 0; left &= left - 1) {
        uintptr_t block = entry->start + hk_ctz64(left) * block_size;
        bool joined = hk_entry_is_mixed(hk_page_map_lookup(block));
        size_t size = hk_max(joined ? hk_joined_bytes((void *)block) : block_size, hk_classes[0].size);
        unsigned class = hk_class_that_fits(hk_min(size, HK_MEDIUM_MAX));
        bytes[class] += hk_classes[class].size;
    }
}

/* Skips impossible values. The outbox's thread may have freed the table in the meantime, and the table's memory may have been reused. */
void hk_outbox_count(const struct hk_outbox *outbox, int64_t bytes[HK_CLASSES])
{
    uintptr_t word = hk_load_acquire(outbox->xtable);
    const struct hk_outbox_entry *table = (void *)(word & ~(uintptr_t)(HK_CACHE_LINE - 1));
    size_t size = word == 0 ? 0 : (size_t)1 << word % HK_CACHE_LINE;
    for (size_t at = 0; at < size; at++) {
        uint64_t block_size = (uint64_t)table[at].block_size, blocks = hk_popcount64(table[at].bits) + table[at].marked;
        if (blocks == 0 || block_size - 1 >= HK_MEDIUM_MAX || blocks > HK_OUTBOX_MOST_BLOCKS)
            continue;
        bytes[hk_class_of(block_size)] += (int64_t)(table[at].marked * block_size);
        count_bits(&table[at], block_size, bytes);
    }
}
