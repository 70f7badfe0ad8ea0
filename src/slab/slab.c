#include "slab/slab.h"

#include <string.h>

#include "base/bits.h"
#include "base/fatal.h"
#include "base/lock.h"
#include "count/reuse.h"
#include "count/stats.h"
#include "policy/options.h"
#include "slab/lodge.h"
#include "span/footprint.h"
#include "span/meta.h"

/* Of metadata that is never given back: a stale pointer leads to a descriptor, whatever it says by then. */
struct slab_group {
    _Atomic(struct slab_group *) xnext;
    _Atomic uint32_t xmade;
    struct hk_slab slabs[];
};
#define CHUNK_BYTES (16 * HK_KIB)
enum { SLABS_IN_GROUP = (CHUNK_BYTES - sizeof(struct slab_group)) / sizeof(struct hk_slab) };

static struct {
    struct hk_lock lock;
    struct slab_group *first, *last;
    struct hk_list unused;
    _Atomic int64_t xclean; /* bytes */
} slabs = {.lock = HK_LOCK_INIT(HK_RANK_SLABS)};

void hk_slabs_init(void)
{
    hk_lock_register(HK_RANK_SLABS, &slabs.lock);
    hk_list_init(&slabs.unused);
}

static bool add_group(void)
{
    struct slab_group *chunk = hk_meta_alloc(CHUNK_BYTES);
    if (chunk == NULL)
        return false;
    if (slabs.last != NULL)
        hk_store_release(slabs.last->xnext, chunk);
    else
        __atomic_store_n(&slabs.first, chunk, __ATOMIC_RELEASE);
    slabs.last = chunk;
    return true;
}

static struct hk_slab *new_descriptor(void)
{
    bool full = slabs.last == NULL || hk_load(slabs.last->xmade) == SLABS_IN_GROUP;
    if (full && !add_group())
        return NULL;
    uint32_t made = hk_load(slabs.last->xmade);
    hk_store_release(slabs.last->xmade, made + 1);
    return &slabs.last->slabs[made];
}

void hk_slabs_visit(hk_slab_visit *visit, void *context)
{
    for (struct slab_group *chunk = __atomic_load_n(&slabs.first, __ATOMIC_ACQUIRE); chunk != NULL; chunk = hk_load_acquire(chunk->xnext))
        for (uint32_t i = 0, made = hk_load_acquire(chunk->xmade); i < made; i++)
            visit(&chunk->slabs[i], context);
}

struct hk_slab *hk_slab_descriptor(void)
{
    hk_lock(&slabs.lock);
    struct hk_link *unused = hk_list_first(&slabs.unused);
    if (unused != NULL)
        hk_link_remove(unused);
    struct hk_slab *slab = unused != NULL ? hk_container_of(unused, struct hk_slab, link) : new_descriptor();
    hk_unlock(&slabs.lock);
    if (HK_UNLIKELY(slab == NULL))
        hk_footprint_refused(false);
    return slab;
}

void hk_slab_descriptor_drop(struct hk_slab *slab)
{
    slab->start = 0;
    hk_lock(&slabs.lock);
    hk_list_push_front(&slabs.unused, &slab->link);
    hk_unlock(&slabs.lock);
}

/* Of both bitmaps, the holder's and the strangers', on cache lines of their own. */
static size_t bits_bytes(const struct hk_slab *slab)
{
    return 2 * hk_align_up(slab->words * sizeof(uint64_t), HK_CACHE_LINE);
}

static bool make_bits(struct hk_slab *slab)
{
    slab->words = (uint16_t)((slab->blocks + 63u) / 64u);
    slab->freebits = slab->own_bits;
    slab->xremote = slab->xown_remote;
    if (slab->words > sizeof slab->own_bits / sizeof slab->own_bits[0])
        slab->freebits = hk_meta_alloc(bits_bytes(slab));
    if (slab->freebits == NULL) {
        hk_footprint_refused(false);
        return false;
    }
    if (slab->freebits != slab->own_bits)
        slab->xremote = (void *)((char *)slab->freebits + bits_bytes(slab) / 2);
    memset(slab->freebits, 0xff, slab->words * sizeof(uint64_t));
    if (slab->blocks % 64 != 0)
        slab->freebits[slab->words - 1] = ((uint64_t)1 << (slab->blocks % 64)) - 1;
    return true;
}

static void drop_bits(struct hk_slab *slab)
{
    if (slab->freebits != slab->own_bits)
        hk_meta_free(slab->freebits, bits_bytes(slab));
}

struct hk_slab *hk_slab_make(unsigned class, uint32_t owner, enum hk_use use)
{
    const struct hk_class *row = &hk_classes[class];
    struct hk_slab *slab = hk_slab_descriptor();
    if (slab == NULL)
        return NULL;
    slab->class = (uint8_t)class;
    slab->bytes = row->slab_bytes;
    slab->block_size = row->size;
    slab->reciprocal = hk_reciprocal(row->size);
    slab->blocks = slab->free = (uint16_t)hk_min(row->slab_bytes / row->size, hk_options.slab_blocks);
    slab->extent = slab->plain_extent = (size_t)slab->blocks * row->size;
    slab->first_word = 0;
    slab->pages = HK_PAGES_TAKEN;
    slab->clean = 0;
    slab->trimmed = 0;
    hk_store(slab->xjoined, NULL);
    hk_store(slab->xcommon, false);
    if (make_bits(slab)) {
        uintptr_t start = hk_span_alloc(slab->bytes / HK_SLICE, use);
        if (start != 0) {
            slab->start = start;
            hk_store(slab->xowner, owner);
            hk_page_map_assign(start, slab->bytes / HK_SLICE, hk_entry(owner, class), slab);
            HK_COUNT(slabs_made, 1);
            return slab;
        }
        drop_bits(slab);
    }
    hk_slab_descriptor_drop(slab);
    return NULL;
}

void hk_slab_hand_to(struct hk_slab *slab, uint32_t owner)
{
    hk_store_release(slab->xowner, owner); /* who reads it asks the owner's inbox */
    hk_page_map_set(slab->start, slab->bytes / HK_SLICE, hk_entry(owner, slab->class) | (slab->mixed ? HK_ENTRY_MIXED : 0));
}

HK_COLD void hk_slab_note_clean(struct hk_slab *slab, uint16_t sixteenths)
{
    int64_t before = hk_popcount64(slab->clean), now = hk_popcount64(sixteenths);
    hk_add(slabs.xclean, (now - before) * (int64_t)(slab->bytes / HK_SLAB_SIXTEENTHS));
    slab->clean = sixteenths;
}

/* In a fork child it may be wrong by a slab that another thread was just at. */
size_t hk_slabs_clean(void)
{
    int64_t bytes = hk_load(slabs.xclean);
    return bytes > 0 ? (size_t)bytes : 0;
}

static HK_COLD void note_refaults(struct hk_slab *slab)
{
    uint64_t idle_ms = (uint64_t)hk_age_since(slab->idle_from, hk_reuse_now()) << HK_AGE_SHIFT;
    hk_reuse_back(idle_ms, hk_popcount64(slab->clean) * (slab->bytes / HK_SLAB_SIXTEENTHS));
    hk_slab_note_clean(slab, 0);
}

void hk_slab_note_taken(struct hk_slab *slab)
{
    slab->pages = HK_PAGES_TAKEN;
    if (HK_UNLIKELY(slab->clean != 0))
        note_refaults(slab);
}

void hk_slab_release(struct hk_slab *slab)
{
    hk_assert(slab->free == slab->blocks && hk_load(slab->xstate) == 0);
    size_t hollow = hk_popcount64(slab->clean) * (slab->bytes / HK_SLAB_SIXTEENTHS);
    if (slab->clean != 0)
        hk_slab_note_clean(slab, 0);
    uintptr_t start = slab->start;
    size_t slices = slab->bytes / HK_SLICE;
    hk_page_map_set(start, slices, 0);
    drop_bits(slab);
    if (hk_load(slab->xjoined) != NULL)
        hk_lodge_end(slab);
    hk_slab_descriptor_drop(slab);
    hk_span_free_hollow(start, slices, hollow);
    HK_COUNT(slabs_released, 1);
}

/* A word's blocks lie side by side, as they do in a new slab, and where all were freed. */
HK_INLINE void **take_row(uint64_t *word, char *base, size_t size, void **at, void *const *stop)
{
    uint64_t bits = *word, lowest = bits & -bits, beyond = bits + lowest;
    unsigned first = hk_ctz64(bits), have = (beyond != 0 ? hk_ctz64(beyond) : 64) - first;
    size_t n = hk_min(have, (size_t)(at - stop));
    *word = n < have ? bits & -(lowest << n) : 0;
    char *block = base + first * size;
    for (void *const *last = at - n; at != last; block += size)
        *--at = block;
    return at;
}

HK_INLINE void **take_bits(uint64_t *word, char *base, size_t size, void **at, void *const *stop)
{
    uint64_t bits = *word;
    do {
        *--at = base + hk_lowest_bit(bits) * size;
        bits &= bits - 1;
    } while (bits != 0 && at != stop);
    *word = bits;
    return at;
}

void hk_slab_alloc(struct hk_slab *slab, void **end, unsigned n)
{
    hk_assert(n <= slab->free);
    size_t word = slab->first_word, size = slab->block_size;
    uint64_t *freebits = slab->freebits;
    void *const *stop = end - n;
    slab->free = (uint16_t)(slab->free - n);
    hk_slab_note_taken(slab);
    for (void **at = end; at != stop; word += freebits[word] == 0) {
        uint64_t bits = freebits[word];
        char *base = (char *)slab->start + word * 64 * size;
        if (bits == 0)
            continue;
        bool row = ((bits + (bits & -bits)) & bits) == 0;
        at = row ? take_row(&freebits[word], base, size, at, stop) : take_bits(&freebits[word], base, size, at, stop);
    }
    slab->first_word = (uint16_t)word;
}

HK_COLD void hk_slab_refuse(const struct hk_slab *slab, const void *block)
{
    size_t index = hk_slab_index(slab, (uintptr_t)block);
    bool lodges = slab->class < HK_CLASSES && hk_lodge_joins(slab, index);
    bool start_of_block = index < slab->blocks && slab->start + index * slab->block_size == (uintptr_t)block && !lodges;
    hk_slab_invalid(HK_CALL_FLUSH, start_of_block ? "block already free" : "pointer inside a block", block);
}

void hk_slab_recount(struct hk_slab *slab)
{
    unsigned free = 0;
    for (unsigned word = 0; word < slab->words; word++)
        free += hk_popcount64(slab->freebits[word]);
    slab->free = (uint16_t)free;
    slab->first_word = 0;
    if (hk_load(slab->xjoined) != NULL)
        hk_lodge_recount(slab);
}

static const char *number_or_dash(char *digits, size_t size, bool known, size_t value)
{
    if (!known)
        return "-";
    digits[--size] = 0;
    do {
        digits[--size] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    return digits + size;
}

HK_COLD void hk_slab_invalid(enum hk_call call, const char *what, const void *p)
{
    static const char *const calls[] = {
        [HK_CALL_FREE] = "free()",
        [HK_CALL_DELETE] = "operator delete()",
        [HK_CALL_REALLOC] = "realloc()",
        [HK_CALL_USABLE_SIZE] = "malloc_usable_size()",
        [HK_CALL_FLUSH] = "free(), found at a flush",
    };
    uint32_t entry = hk_page_map_lookup((uintptr_t)p);
    char class_digits[24], owner_digits[24];
    size_t size = entry != 0 ? hk_slab_at((uintptr_t)p)->block_size : 0;
    const char *class_text = number_or_dash(class_digits, sizeof class_digits, size != 0, size);
    const char *owner_text = number_or_dash(owner_digits, sizeof owner_digits, hk_entry_owner(entry) != HK_NOBODY,
                                            hk_entry_owner(entry));
    hk_fatal("%s: %s: address 0x%lx, class %s bytes, owner %s", calls[call], what, (uint64_t)(uintptr_t)p, class_text,
             owner_text);
}

