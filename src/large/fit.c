/* Keeps cached large blocks in bins of sizes, and searches the bins for the block that fits a request best. */
#include "large/fit.h"

#include "base/bits.h"

enum { STEPS_SHIFT = 3, MOST_LOOKS = 64 };

static unsigned bin_of(size_t bytes)
{
    bytes = hk_max(hk_min(bytes, ((size_t)1 << HK_ADDRESS_BITS) - 1), HK_SLICE);
    unsigned octave = 63u - (unsigned)__builtin_clzll(bytes);
    return (octave - HK_SLICE_SHIFT) * HK_FIT_STEPS + (unsigned)(bytes >> (octave - STEPS_SHIFT)) % HK_FIT_STEPS;
}

static struct hk_large_block *of_size(struct hk_link *link)
{
    return hk_container_of(link, struct hk_large_block, by_size);
}

void hk_fit_add(struct hk_fit *fit, struct hk_large_block *large)
{
    unsigned bin = bin_of(large->d.bytes);
    if (fit->bins[bin].head.next == NULL)
        hk_list_init(&fit->bins[bin]);
    hk_list_push_front(&fit->bins[bin], &large->by_size);
    fit->filled[bin / 64] |= (uint64_t)1 << bin % 64;
    fit->count++;
}

void hk_fit_remove(struct hk_fit *fit, struct hk_large_block *large)
{
    unsigned bin = bin_of(large->d.bytes);
    hk_link_remove(&large->by_size);
    fit->count--;
    if (hk_list_empty(&fit->bins[bin]))
        fit->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
}

/* The first filled bin from `bin` up to `last`; HK_FIT_BINS if there is none. */
static unsigned filled_from(const struct hk_fit *fit, unsigned bin, unsigned last)
{
    for (; bin <= last; bin = (bin / 64 + 1) * 64) {
        uint64_t bits = fit->filled[bin / 64] >> bin % 64;
        if (bits != 0)
            return bin + hk_ctz64(bits) <= last ? bin + hk_ctz64(bits) : HK_FIT_BINS;
    }
    return HK_FIT_BINS;
}

struct search {
    struct hk_want want; /* nearer than the best */
    struct hk_large_block *best;
    unsigned looks; /* left */
};

static void look_into(const struct hk_list *bin, struct search *search)
{
    for (struct hk_link *link = bin->head.next; link != &bin->head && search->looks > 0; link = link->next) {
        struct hk_large_block *large = of_size(link);
        search->looks--;
        if (!hk_fit_serves(large, &search->want))
            continue;
        search->best = large;
        if (!hk_fit_narrow(&search->want, large))
            search->looks = 0;
    }
}

/* Searches the bin of this size, then those above, then those below, as long as a bin may hold a nearer block than the best. */
struct hk_large_block *hk_fit_nearest(const struct hk_fit *fit, const struct hk_want *want,
                                      struct hk_large_block *otherwise)
{
    struct search search = {*want, otherwise, MOST_LOOKS};
    unsigned own = bin_of(want->bytes);
    for (unsigned bin = own; (bin = filled_from(fit, bin, bin_of(search.want.least + search.want.range))) < HK_FIT_BINS;
         bin++)
        look_into(&fit->bins[bin], &search);
    for (unsigned bin = own; bin-- > bin_of(search.want.least);)
        if ((fit->filled[bin / 64] >> bin % 64 & 1) != 0)
            look_into(&fit->bins[bin], &search);
    return search.best;
}
