/* Makes slabs with their descriptors, bitmaps and spans, and releases them. */
#include "slab/joined_blocks.h"
#include "count/stats.h"
#include "slab/remote_track.h"
#include "span/chunks.h"
#include "span/footprint.h"
#include "span/meta.h"
#include "span/page_heap.h"

enum { OWN_WORDS = sizeof((struct hk_slab *)0)->own_bits / sizeof(uint64_t) };

HK_INLINE bool make_bits(struct hk_slab *slab, bool remote)
{
    slab->words = (uint16_t)((slab->d.blocks + 63u) / 64u);
    bool own = slab->words <= OWN_WORDS;
    slab->freebits = own ? slab->own_bits : hk_meta_alloc(hk_slab_bits_bytes(slab) * (remote ? 2 : 1));
    slab->xremote = slab->xown_remote;
    if (slab->freebits == NULL) {
        hk_footprint_refused(false);
        return false;
    }
    if (remote && !own)
        slab->xremote = (void *)((char *)slab->freebits + hk_slab_bits_bytes(slab));
    memset(slab->freebits, 0xff, slab->words * sizeof(uint64_t));
    if (slab->d.blocks % 64 != 0)
        slab->freebits[slab->words - 1] = ((uint64_t)1 << (slab->d.blocks % 64)) - 1;
    return true;
}

struct hk_slab *hk_slab_cut(unsigned class, size_t bytes, size_t tail, bool remote)
{
    struct hk_slab *slab = (struct hk_slab *)(void *)hk_descriptor_new();
    if (slab == NULL)
        return NULL;
    uint32_t size = hk_classes[class].size;
    slab->d.class = (uint8_t) class;
    slab->d.bytes = bytes;
    slab->d.block_size = size;
    slab->d.blocks = slab->free = (uint16_t)hk_min((uint32_t)(bytes - tail) / size, hk_options.slab_blocks);
    slab->reciprocal = hk_reciprocal(size);
    slab->plain_extent = (size_t)slab->d.blocks * size;
    if (make_bits(slab, remote))
        return slab;
    hk_descriptor_drop(&slab->d);
    return NULL;
}

void hk_slab_drop(struct hk_slab *slab)
{
    void *joined = hk_load(slab->xjoined);
    if (joined != NULL) {
        hk_store(slab->xjoined, NULL);
        hk_meta_free(joined, hk_slab_bits_bytes(slab));
    }
    if (slab->freebits != slab->own_bits)
        hk_meta_free(slab->freebits, hk_slab_bits_bytes(slab) * (slab->xremote != slab->xown_remote ? 2 : 1));
    hk_descriptor_drop(&slab->d);
}

struct hk_slab *hk_slab_make(unsigned class, uint32_t owner, enum hk_use use)
{
    const struct hk_class *row = &hk_classes[class];
    size_t page = hk_system_page();
    /* If guard pages are on, the last page holds no block, unless a single block fills the slab. In a guarded span, the page is made inaccessible. */
    size_t tail = hk_page_heap_guarded && row->slab_bytes >= row->size + page ? page : 0;
    struct hk_slab *slab = hk_slab_cut(class, row->slab_bytes, tail, true);
    bool blank;
    uintptr_t start = slab != NULL ? hk_span_alloc(slab->d.bytes / HK_SLICE, use, &blank) : 0;
    if (start == 0 && slab != NULL)
        hk_slab_drop(slab);
    if (start == 0)
        return NULL;
    slab->d.start = start;
    slab->blank = blank && class >= HK_FINE_CLASSES ? slab->d.blocks : 0;
    if (HK_UNLIKELY(tail != 0) && hk_span_is_guarded(start))
        hk_os.bar((void *)(start + slab->d.bytes - tail), tail);
    hk_track_slab(slab);
    hk_store(slab->xowner, owner);
    hk_page_map_assign(start, slab->d.bytes / HK_SLICE, hk_entry(owner, class), &slab->d);
    if (class >= HK_FINE_CLASSES)
        hk_page_map_cover_marks(start, slab->d.bytes);
    HK_COUNT(slabs_made, 1);
    return slab;
}

void hk_slab_release(struct hk_slab *slab)
{
    hk_assert(slab->free == slab->d.blocks && hk_load(slab->xstate) == 0);
    hk_track_slab_ends(slab);
    size_t hollow = hk_popcount64(slab->clean) * (slab->d.bytes / HK_SLAB_SIXTEENTHS);
    if (slab->clean != 0)
        hk_slab_note_clean(slab, 0);
    uintptr_t start = slab->d.start;
    size_t slices = slab->d.bytes / HK_SLICE;
    hk_page_map_set(start, slices, 0);
    hk_slab_drop(slab);
    hk_span_free_hollow(start, slices, hollow);
    HK_COUNT(slabs_released, 1);
}

void hk_slab_recount(struct hk_slab *slab)
{
    unsigned free = 0;
    for (unsigned word = 0; word < slab->words; word++)
        free += hk_popcount64(slab->freebits[word]);
    slab->free = (uint16_t)free;
    slab->first_word = 0;
    if (hk_load(slab->xjoined) != NULL)
        hk_joined_recount(slab);
}
