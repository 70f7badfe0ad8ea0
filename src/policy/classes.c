/* Defines the tables that map sizes to classes. The compiler computes them from classes.def. The option `classes` may change them at the start. */
#include "policy/classes.h"
#include "base/bits.h"
#include "os/os.h"
#include "policy/options.h"

const struct hk_class hk_classes[HK_CLASSES] = {
#define HK_CLASS(idx, bytes, slab_kib, most, kind)                                                                     \
    [idx] = {.size = (bytes), .slab_bytes = (slab_kib)*1024, .cap = (most), .tier = HK_TIER_##kind},
#include "policy/classes.def"
};

const uint32_t hk_usual_sizes[HK_CLASSES] = {
#define HK_CLASS(idx, bytes, slab_kib, cap, tier) [idx] = (bytes),
#include "policy/classes.def"
};

const char hk_tier_names[HK_TIERS][8] = {"tiny", "small", "medium", "large"};

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

enum { FITTED_FROM = 2048 };

/* change_classes() overwrites the tables with these copies. The tables are constants, so that processes without the option share their pages. */
static struct changed {
    struct hk_class classes[HK_CLASSES];
    uint16_t fine_offsets[sizeof hk_fine_offsets / sizeof hk_fine_offsets[0]];
} changed HK_COLD_DATA;

/* Makes `size` the block size of its class. Sizes between the new and the old block size then belong to the next class. Returns false if no
 * class can have the size, or if its class was changed before. */
static bool fit_class(uint64_t size, uint64_t not_used)
{
    (void)not_used;
    if (size == 0 || size % HK_FINE_STEP != 0 || size > HK_FINE_MAX)
        return false;
    unsigned class = changed.fine_offsets[size / HK_FINE_STEP] / HK_CLASS_BYTES;
    struct hk_class *row = &changed.classes[class];
    if (size == row->size)
        return true;
    if (class + 1 == HK_FINE_CLASSES || row->size != hk_usual_sizes[class])
        return false;
    for (size_t step = size / HK_FINE_STEP + 1; step <= row->size / HK_FINE_STEP; step++)
        changed.fine_offsets[step] = (uint16_t)((class + 1) * HK_CLASS_BYTES);
    row->size = (uint32_t)size;
    return true;
}

static bool set_first_cap(uint64_t size, uint64_t blocks)
{
    bool right = size - 1 < HK_MEDIUM_MAX && blocks - 1 < UINT8_MAX && (blocks & (blocks + 1)) == 0;
    if (right)
        hk_class_settings[hk_class_of(size)].first_cap = (uint8_t)blocks;
    return right;
}

/* Calls `take` for each item of a list such as "64x255,1024x63". The second number of an item without an x is 0. */
static void take_list(const char *option, const char *list, bool (*take)(uint64_t size, uint64_t blocks))
{
    for (const char *end; list != NULL; list = *end != 0 ? end + 1 : NULL) {
        uint64_t size, blocks = 0;
        end = strchrnul(list, ',');
        const char *cross = memchr(list, 'x', (size_t)(end - list)), *first_end = cross != NULL ? cross : end;
        bool numbers = hk_option_number(list, (size_t)(first_end - list), &size) &&
                       (cross == NULL || hk_option_number(cross + 1, (size_t)(end - cross - 1), &blocks));
        if (!numbers || !take(size, blocks))
            hk_message(HK_TEXT_option_item, option, (int)(end - list), list);
    }
}

/* Lets larger classes serve each class from `class` to `end` - 1, if the larger block size is at most `fit` percent of the smaller one. */
static void set_servers(unsigned class, unsigned end, uint64_t fit)
{
    for (; class < end; class ++)
        for (unsigned larger = class + 1; larger < end && hk_classes[larger].size * 100 <= hk_classes[class].size * fit;
             larger++)
            hk_class_settings[class].servers = (uint8_t)(larger - class);
}

/* Overwrites the two tables. If only the second write is refused, some sizes belong to the next larger class, whose blocks also hold these sizes. */
static void change_classes(const char *sizes)
{
    memcpy(changed.classes, hk_classes, sizeof hk_classes);
    memcpy(changed.fine_offsets, hk_fine_offsets, sizeof hk_fine_offsets);
    take_list("classes", sizes, fit_class);
    if (!hk_os_overwrite(hk_fine_offsets, changed.fine_offsets, sizeof hk_fine_offsets) ||
        !hk_os_overwrite(hk_classes, changed.classes, sizeof hk_classes))
        hk_message(HK_TEXT_classes_constant);
}

bool hk_classes_looks HK_EACH_PROCESS_DATA;
struct hk_class_setting hk_class_settings[HK_CLASSES] HK_EACH_PROCESS_DATA;

/* Applies `bins` first, because a size in `bins` stands for the class that it has before `classes` changes the block sizes. */
void hk_classes_begin(void)
{
    const struct hk_options *options = &hk_options;
    bool serves = options->small_fit + options->medium_fit > 200;
    hk_classes_looks = serves || options->profile_save != NULL;
    if (HK_LIKELY(options->classes == NULL && options->bins == NULL && !serves))
        return;
    take_list("bins", options->bins, set_first_cap);
    if (options->classes != NULL)
        change_classes(options->classes);
    set_servers(hk_class_of(FITTED_FROM), HK_FINE_CLASSES, options->small_fit);
    set_servers(HK_FINE_CLASSES, HK_CLASSES, options->medium_fit);
}

struct hk_learned hk_learned HK_COLD_DATA;
enum {
    LEAST_SAVING = 8, /* percent of the bytes of a class */
    LEAST_VOTES = 75, /* least count of votes, in percent of the new slabs of the class */
    LEAST_SLABS = 16,
};

#define VOTES(vote) ((vote)&UINT32_MAX)
#define VOTED_SIZE(vote) ((vote) >> 32)

void hk_learned_vote(unsigned class, size_t size)
{
    uint64_t block_size = hk_align_up(hk_max(size, 1), HK_FINE_STEP);
    if (class >= HK_FINE_CLASSES)
        return;
    uint64_t vote = hk_load(hk_learned.xvote[class]);
    if (VOTES(vote) == 0)
        vote = block_size << 32;
    hk_store(hk_learned.xvote[class], VOTED_SIZE(vote) == block_size ? vote + 1 : vote - 1);
}

/* Returns true if the dominant size would save enough as a block size. Returns false if many new slabs were made for other sizes, because larger
 * requests would then go to the next class, and waste more. */
static bool pays(unsigned class, uint64_t slabs_made)
{
    const struct hk_class *row = &hk_classes[class];
    uint64_t vote = hk_load(hk_learned.xvote[class]);
    if (slabs_made < LEAST_SLABS || VOTES(vote) < slabs_made * LEAST_VOTES / 100 || class + 1 == HK_FINE_CLASSES)
        return false;
    uint64_t now = row->slab_bytes / hk_usual_sizes[class], then = row->slab_bytes / VOTED_SIZE(vote);
    return (then - now) * 100 >= then * LEAST_SAVING;
}

/* Lists sizes in ascending order, because fit_class() depends on their order. */
void hk_learned_write(struct hk_text *text, const uint64_t slabs_made[HK_FINE_CLASSES])
{
    const char *before = "classes = ";
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        if (pays(class, slabs_made[class])) {
            hk_text_add(text, "%s%lu", before, VOTED_SIZE(hk_load(hk_learned.xvote[class])));
            before = ",";
        }
    hk_text_add(text, *before == ',' ? "\n" : "");
    before = "bins = ";
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        if (hk_load(hk_learned.xcapacity[class]) > 0) {
            hk_text_add(text, "%s%ux%u", before, hk_usual_sizes[class], hk_load(hk_learned.xcapacity[class]));
            before = ",";
        }
    hk_text_add(text, *before == ',' ? "\n" : "");
}
