/* Defines the tables that map sizes to classes. The compiler computes them from classes.def. */
#include "policy/classes.h"

const struct hk_class hk_classes[HK_CLASSES] = {
#define HK_CLASS(idx, bytes, slab_kib, most, kind)                                                                     \
    [idx] = {.size = (bytes), .slab_bytes = (slab_kib)*1024, .cap = (most), .tier = HK_TIER_##kind},
#include "policy/classes.def"
};

const char *const hk_tier_names[HK_TIERS] = {"tiny", "small", "medium", "large"};

#define HK_CLASS(idx, size, slab_kib, cap, tier)                                                                       \
    _Static_assert((size) % 16 == 0 && (size) <= (slab_kib)*1024, "class " #idx ": size");                             \
    _Static_assert((slab_kib) % 64 == 0 && (slab_kib) <= 1024, "class " #idx ": slab_kib");                            \
    _Static_assert(((cap) & ((cap) + 1)) == 0 && (cap) >= 1 && (cap) <= 255, "class " #idx ": cap");
#include "policy/classes.def"

/* An enumerator without a value is one more than its predecessor. So FINE_LOW of a class is FINE_HIGH of the class before it, plus one. */
#define STEPS_UP_TO(size, step) (((size) + (step)-1) / (step))
enum {
#define HK_CLASS(idx, size, slab_kib, cap, tier) FINE_LOW_##idx, FINE_HIGH_##idx = STEPS_UP_TO(size, HK_FINE_STEP),
#include "policy/classes.def"
};
enum {
    COARSE_FROM = HK_FINE_MAX / HK_COARSE_STEP,
#define HK_CLASS(idx, size, slab_kib, cap, tier)                                                                       \
    HK_IN_COARSE_##tier(COARSE_LOW_##idx, COARSE_HIGH_##idx = STEPS_UP_TO(size, HK_COARSE_STEP), )
#include "policy/classes.def"
};

const uint16_t hk_fine_offsets[HK_FINE_MAX / HK_FINE_STEP + 1] = {
#define HK_CLASS(idx, size, slab_kib, cap, tier)                                                                       \
    HK_IN_FINE_##tier([FINE_LOW_##idx... FINE_HIGH_##idx] = (idx)*HK_CLASS_BYTES, )
#include "policy/classes.def"
};

#define COARSE_PLACE(step) ((step)-COARSE_FROM - 1)
const uint16_t hk_coarse_offsets[HK_COARSE_STEPS] = {
#define HK_CLASS(idx, size, slab_kib, cap, tier)                                                                       \
    HK_IN_COARSE_##tier([COARSE_PLACE(COARSE_LOW_##idx)... COARSE_PLACE(COARSE_HIGH_##idx)] = (idx)*HK_CLASS_BYTES, )
#include "policy/classes.def"
};

unsigned hk_class_of_aligned(size_t size, size_t align)
{
    if (size > HK_MEDIUM_MAX)
        return HK_CLASSES;
    unsigned class = hk_class_of(size);
    while (class < HK_CLASSES && (hk_classes[class].size & (align - 1)) != 0)
        class ++;
    return class;
}
