/* Classes: makes constants and tables from the rows of classes.def.
 * Invariant  Every size in 1 .. HK_MEDIUM_MAX has exactly one class, which is the smallest class that holds it.
 * Owns       HAKMEM's start writes hk_class_settings, and may overwrite block sizes (option `classes`).
 * Threads    Any thread may read the tables, because they are constant after the start. */
#pragma once

#include "base/message.h"

/* HK_TIER_LARGE is the tier of large blocks, which have no size class. */
enum hk_tier { HK_TIER_TINY, HK_TIER_SMALL, HK_TIER_MEDIUM, HK_TIER_LARGE, HK_TIERS };
extern const char hk_tier_names[HK_TIERS][8];

enum {
#define HK_CLASS(idx, size, slab_kib, cap, tier) HK_CLASS_##idx,
#include "policy/classes.def"
    HK_CLASSES
};

/* The fine table holds the tiers with sizes up to HK_FINE_MAX, and the coarse table holds the other tiers. HK_IN_FINE_<tier>(text) expands to the
 * text if the fine table holds the tier, and HK_IN_COARSE_<tier>(text) if the coarse table holds it. Otherwise they expand to nothing. */
#define HK_IN_FINE_TINY(...) __VA_ARGS__
#define HK_IN_FINE_SMALL(...) __VA_ARGS__
#define HK_IN_FINE_MEDIUM(...)
#define HK_IN_COARSE_TINY(...)
#define HK_IN_COARSE_SMALL(...)
#define HK_IN_COARSE_MEDIUM(...) __VA_ARGS__
enum {
#define HK_CLASS(idx, size, slab_kib, cap, tier) HK_IN_FINE_##tier(+1)
    HK_FINE_CLASSES = 0
#include "policy/classes.def"
};

#define HK_CLASS_BYTES 32 /* bytes of a struct hk_bin; page map entries hold class * 32, which is the bin's offset */
#define HK_FINE_STEP 16
#define HK_FINE_MAX (32 * HK_KIB)
#define HK_COARSE_STEP 4096
#define HK_MEDIUM_MAX (1 * HK_MIB)

extern const struct hk_class {
    uint32_t size, slab_bytes;
    uint8_t cap, tier;
} hk_classes[HK_CLASSES];
/* Holds what the options bins, small_fit and medium_fit say of each class. HAKMEM's start writes these settings. */
extern struct hk_class_setting {
    uint8_t first_cap; /* capacity in blocks of a new bin; if it is 0, next_capacity() chooses */
    uint8_t servers;   /* number of larger classes whose free blocks may serve this one */
} hk_class_settings[HK_CLASSES];
/* The block sizes of classes.def, which the option `classes` does not change. */
extern const uint32_t hk_usual_sizes[HK_CLASSES];

/* Holds class * HK_CLASS_BYTES for sizes up to HK_FINE_MAX, in steps of 16 bytes. The index of a size is (size + 15) / 16. */
extern const uint16_t hk_fine_offsets[HK_FINE_MAX / HK_FINE_STEP + 1];
/* Holds class * HK_CLASS_BYTES for sizes above HK_FINE_MAX and up to HK_MEDIUM_MAX. The index counts steps of 4 KiB above HK_FINE_MAX. */
#define HK_COARSE_STEPS ((HK_MEDIUM_MAX - HK_FINE_MAX) / HK_COARSE_STEP)
extern const uint16_t hk_coarse_offsets[HK_COARSE_STEPS];

/* Returns the class of a size from 0 to HK_MEDIUM_MAX. */
HK_INLINE unsigned hk_class_of(size_t size)
{
    if (HK_LIKELY(size <= HK_FINE_MAX))
        return hk_fine_offsets[(size + HK_FINE_STEP - 1) / HK_FINE_STEP] / HK_CLASS_BYTES;
    return hk_coarse_offsets[(size - HK_FINE_MAX - 1) / HK_COARSE_STEP] / HK_CLASS_BYTES;
}
/* Returns the largest class whose blocks fit into `bytes`. Precondition: `bytes` is from 16 to HK_MEDIUM_MAX. */
HK_INLINE unsigned hk_class_that_fits(size_t bytes)
{
    unsigned class = hk_class_of(bytes);
    return hk_classes[class].size == bytes ? class : class - 1;
}

/* Returns the smallest class that holds `size` and whose block size is a multiple of `align`, or HK_CLASSES. `align` is a power of 2 up to 64 KiB. */
unsigned hk_class_of_aligned(size_t size, size_t align);

/* Holds what this run has learned about its classes, for the saved profile. Written only if the option profile_save is set. */
extern struct hk_learned {
    _Atomic uint64_t xvote[HK_FINE_CLASSES]; /* the upper half is a block size, the lower half its votes */
    _Atomic uint8_t xcapacity[HK_CLASSES];   /* largest capacity that a bin of the class has had */
} hk_learned;
/* Is true if a miss calls instead_of_slab() before it makes a slab. Set at the start if small_fit, medium_fit or profile_save is set. */
extern bool hk_classes_looks;
/* Votes for `size`, because a slab of the class is made for a request of this size. A size with more than half of the votes wins (Boyer and Moore).
 * Its count is at most the number of its votes, and at least its lead over all other sizes together. Two votes at once may count as one. */
void hk_learned_vote(unsigned class, size_t size);
/* Adds the lines `classes` and `bins` of a profile. */
void hk_learned_write(struct hk_text *text, const uint64_t slabs_made[HK_FINE_CLASSES]);

/* Applies the options classes, bins, small_fit and medium_fit. Called at the start, before the first slab exists. */
void hk_classes_begin(void);
