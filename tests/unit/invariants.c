#include "unit/invariants.h"

#include "base/bits.h"
#include "slab/slab.h"
#include "span/page_heap.h"

struct walk {
    size_t bytes[HK_CLASSES];
    bool joined_blocks; /* A joined block's class differs from its slab's class. */
    const char *wrong;
};

static const char *wrong_with_joined_blocks(const struct hk_slab *slab)
{
    unsigned set = 0;
    for (unsigned word = 0; word < slab->words; word++) {
        uint64_t joined = hk_load(hk_load(slab->xjoined)[word]);
        set += hk_popcount64(joined);
        if ((joined & slab->freebits[word]) != 0)
            return "a part of a joined block is free";
    }
    if ((hk_load(hk_load(slab->xjoined)[0]) & 1) != 0)
        return "a slab begins with the end of a joined block";
    return set != slab->joined || (set > 0) != slab->mixed ? "a slab's count of joined blocks is not its bitmap's"
                                                           : NULL;
}

/* Checks that a slab's bitmap, its count of free blocks and its page map entries agree. Returns NULL, or a text that says what is wrong. */
static const char *wrong_with(const struct hk_slab *slab)
{
    unsigned set = 0;
    for (unsigned word = 0; word < slab->words; word++) {
        set += hk_popcount64(slab->freebits[word]);
        if ((slab->freebits[word] & hk_load(slab->xremote[word])) != 0)
            return "a block is free twice";
    }
    if (hk_slab_at(slab->d.start) != slab)
        return "a slab is not the one that the map names";
    if (set != slab->free || slab->free > slab->d.blocks)
        return "a slab's count of free blocks is not its bitmap's";
    uint32_t entry = hk_page_map_lookup(slab->d.start);
    for (size_t slice = 0; slice < slab->d.bytes; slice += HK_SLICE)
        if (hk_page_map_lookup(slab->d.start + slice) != entry || hk_entry_class(entry) != slab->d.class ||
            hk_entry_is_mixed(entry) != slab->mixed)
            return "the units of a slab have different routes";
    return hk_load(slab->xjoined) != NULL ? wrong_with_joined_blocks(slab)
           : slab->mixed                  ? "joined blocks, and no bits for them"
                                          : NULL;
}

static void look_at(struct hk_descriptor *descriptor, void *context)
{
    struct walk *walk = context;
    const struct hk_slab *slab = hk_slab_of(descriptor);
    if (walk->wrong != NULL || slab == NULL)
        return;
    walk->wrong = wrong_with(slab);
    walk->bytes[slab->d.class] += slab->d.bytes;
    walk->joined_blocks |= slab->mixed;
}

const char *heap_is_wrong(struct hk_heap_stats *heap_stats)
{
    size_t slabs = 0, parts_sum = 0, in_slabs = 0, live_blocks = 0;
    struct walk walk = {0};
    hk_descriptors_visit(look_at, &walk);
    if (walk.wrong != NULL)
        return walk.wrong;
    hk_heap_stats_take(heap_stats);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class_stats *row = &heap_stats->classes[class];
        size_t parts = row->live + row->rounding + row->in_bins + row->remote + row->free_in_slabs + row->tails;
        in_slabs += parts;
        if (!walk.joined_blocks && parts != walk.bytes[class])
            return "the parts of a class do not sum to its slabs' bytes";
        if (row->live_blocks * hk_classes[class].size != row->live + row->rounding)
            return "the live bytes of a class are not whole blocks";
        live_blocks += row->live_blocks;
        slabs += walk.bytes[class];
    }
    if (in_slabs != slabs)
        return "the parts of the classes do not sum to all slabs' bytes";
    if (live_blocks != heap_stats->sum.live_blocks)
        return "the live blocks of the classes do not sum to the total";
    struct hk_page_heap_totals runs = hk_page_heap_total();
    if (slabs + heap_stats->parts[HK_PART_heaps] + runs.free_dirty + runs.free_clean != runs.mapped)
        return "slabs and free units do not sum to what runs has mapped";
    for (int part = 0; part < HK_PARTS; part++)
        parts_sum += heap_stats->parts[part];
    return parts_sum != heap_stats->mapped ? "the parts do not sum to what is mapped" : NULL;
}
