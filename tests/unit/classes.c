/* Tests both look-up tables of the size classes against the rows of classes.def, for all sizes. Tests the options that change the rows, and what is
 * learned for a saved profile. */
#include "unit/unit.h"

#include <string.h>
#include <sys/resource.h>

#include "base/bits.h"
#include "policy/classes.h"
#include "policy/options.h"

static unsigned smallest_that_holds(size_t size, size_t align)
{
    unsigned class = 0;
    while (class < HK_CLASSES && (hk_classes[class].size < size || hk_classes[class].size % align != 0))
        class ++;
    return class;
}

UNIT_TEST(every_size)
{
    unsigned expected = 0;
    for (size_t size = 0; size <= HK_MEDIUM_MAX; size++) {
        if (size > hk_classes[expected].size)
            expected++;
        if (hk_class_of(size) != expected)
            fail_msg("size %zu: class %u, not %u", size, hk_class_of(size), expected);
    }
    assert_int_equal(expected, HK_CLASSES - 1);
}

UNIT_TEST(every_alignment)
{
    for (size_t align = 1; align <= 64 * HK_KIB; align *= 2)
        for (size_t size = 1; size <= HK_MEDIUM_MAX; size += size < 5000 ? 1 : 509)
            assert_int_equal(hk_class_of_aligned(size, align), smallest_that_holds(size, align));
    assert_int_equal(hk_class_of_aligned(HK_MEDIUM_MAX + 1, 16), HK_CLASSES);
    assert_int_equal(hk_class_of_aligned(HK_MEDIUM_MAX, 65536), HK_CLASSES - 1);
}

/* Tests the promises of the comment in classes.def about the rows. */
UNIT_TEST(rows)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class *row = &hk_classes[class];
        assert_true(row->size <= row->slab_bytes);
        assert_int_equal(row->slab_bytes % (64 * HK_KIB), 0);
        assert_true(hk_is_pow2((size_t)row->cap + 1));
        assert_true(class == 0 || row->size > hk_classes[class - 1].size);
        assert_true(class == 0 || row->tier >= hk_classes[class - 1].tier);
        /* In a class above 64 bytes, the smallest size wastes less than a fifth of the block. */
        if (row->size > 64)
            assert_true((row->size - hk_classes[class - 1].size - 1) * 5 < row->size);
        assert_int_equal(row->tier == HK_TIER_MEDIUM, row->size > HK_FINE_MAX);
    }
    assert_string_equal(hk_tier_names[HK_TIER_TINY], "tiny");
    assert_string_equal(hk_tier_names[HK_TIER_SMALL], "small");
    assert_string_equal(hk_tier_names[HK_TIER_MEDIUM], "medium");
}

/* The options are applied as at the start. The system refuses all calls before this. */
static void begin(void)
{
    fake_os_refuse(NULL);
    hk_classes_begin();
}

static const char *learned(unsigned class, uint64_t slabs_made)
{
    static struct hk_text text;
    uint64_t made[HK_FINE_CLASSES] = {0};
    made[class] = slabs_made;
    hk_text_init(&text, HK_NOWHERE);
    hk_learned_write(&text, made);
    text.bytes[text.used] = 0;
    return text.bytes;
}

/* Each size still has exactly one class, which is the smallest one that holds it. */
UNIT_TEST(fitted_classes)
{
    hk_options.classes = "1040,6160,16,28672,20000";
    begin();
    assert_int_equal(hk_classes[CLASS_OF_1152].size, 1040);
    assert_int_equal(hk_usual_sizes[CLASS_OF_1152] - hk_classes[CLASS_OF_1152].size, 112);
    assert_int_equal(hk_classes[CLASS_OF_7168].size, 6160);
    assert_int_equal(hk_classes[CLASS_OF_20480].size, 20000);
    assert_int_equal(hk_class_of(1040), CLASS_OF_1152);
    assert_int_equal(hk_class_of(1041), CLASS_OF_1280);
    assert_int_equal(hk_class_that_fits(1152), CLASS_OF_1152);
    every_size_body();
    every_alignment_body();
}

UNIT_TEST(classes_that_cannot_be)
{
    static const char *const wrong[] = {"",     "1",     "0", "1041",  "32768", "28688", "1040",
                                        "1040", "1040x", "x", "1040,", "-16",   "40000"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        hk_options.classes = wrong[i];
        begin();
    }
    assert_int_equal(hk_classes[CLASS_OF_1152].size, 1040);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        assert_int_equal(hk_usual_sizes[class] - hk_classes[class].size, class == CLASS_OF_1152 ? 112 : 0);
}

UNIT_TEST(many_classes)
{
    hk_options.classes = "144,176,208,240,272,528";
    begin();
    assert_int_equal(hk_classes[CLASS_OF_256].size, 240);
    assert_int_equal(hk_classes[CLASS_OF_320].size, 272);
    every_size_body();
    every_alignment_body();
}

UNIT_TEST(first_capacities)
{
    hk_options.bins = "64x255,1000x7,1048576x1,64,128x0,128x256,128x100,0x1,1048577x1,128x";
    begin();
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        assert_int_equal(hk_class_settings[class].first_cap, class == CLASS_OF_64     ? 255
                                                             : class == CLASS_OF_1024 ? 7
                                                                                      : class == HK_CLASSES - 1);
}

/* A class may be served by those of the same table that are at most so much larger, from 2 KiB on. */
UNIT_TEST(servers)
{
    hk_options.small_fit = 140;
    hk_options.medium_fit = 160;
    begin();
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        bool fine = class < HK_FINE_CLASSES;
        unsigned end = fine ? HK_FINE_CLASSES : HK_CLASSES, larger = class;
        size_t most = hk_classes[class].size < 2048 ? 0 : hk_classes[class].size * (fine ? 140 : 160) / 100;
        while (larger + 1 < end && hk_classes[larger + 1].size <= most)
            larger++;
        assert_int_equal(hk_class_settings[class].servers, larger - class);
    }
}

static void vote(unsigned calls, size_t size)
{
    while (calls-- > 0)
        hk_learned_vote(hk_class_of(size), size);
}

/* A profile contains a size that most calls of its class request, if slabs of this size hold at least 8 % more blocks. */
UNIT_TEST(learned_sizes)
{
    vote(30, 1100);
    vote(900, 1030);
    vote(30, 1152);
    assert_string_equal(learned(CLASS_OF_1152, 1000), "classes = 1040\n");
    assert_string_equal(learned(CLASS_OF_1152, 15), "");
    vote(1000, 64);
    assert_string_equal(learned(CLASS_OF_64, 1000), "");
    vote(1000, 30000);
    assert_string_equal(learned(CLASS_OF_32768, 1000), "");
    vote(1000, 33000); /* has no votes */
    vote(200, 1152);
    assert_string_equal(learned(CLASS_OF_1152, 1000), "");
}

UNIT_TEST(votes_for_nothing)
{
    vote(1000, 0);
    assert_string_equal(learned(CLASS_OF_16, 1000), "");
}

/* A run with the profile proposes the same sizes again. */
UNIT_TEST(learned_sizes_stay)
{
    hk_options.classes = "1040";
    hk_options.bins = "1152x7";
    begin();
    assert_int_equal(hk_class_settings[CLASS_OF_1152].first_cap, 7);
    vote(1000, 1030);
    hk_store(hk_learned.xcapacity[CLASS_OF_1152], 7);
    assert_string_equal(learned(CLASS_OF_1152, 1000), "classes = 1040\nbins = 1152x7\n");
}

UNIT_TEST(no_file_for_changed_classes)
{
    hk_options.classes = "1040";
    fake_os_capture();
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0}) != 0)
        return; /* valgrind refuses this limit. */
    begin();
    assert_non_null(strstr(fake_os.captured, "/proc/self/mem cannot be written: the option classes has no effect"));
    assert_int_equal(hk_classes[CLASS_OF_1152].size, 1152);
}

UNIT_TEST(learned_capacities)
{
    hk_store(hk_learned.xcapacity[CLASS_OF_64], 63);
    hk_store(hk_learned.xcapacity[HK_CLASSES - 1], 1);
    assert_string_equal(learned(CLASS_OF_1152, 1000), "bins = 64x63,1048576x1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),
        cmocka_unit_test(every_alignment),
        cmocka_unit_test(rows),
        cmocka_unit_test(fitted_classes),
        cmocka_unit_test(classes_that_cannot_be),
        cmocka_unit_test(many_classes),
        cmocka_unit_test(first_capacities),
        cmocka_unit_test(servers),
        cmocka_unit_test(learned_sizes),
        cmocka_unit_test(votes_for_nothing),
        cmocka_unit_test(learned_sizes_stay),
        cmocka_unit_test(no_file_for_changed_classes),
        cmocka_unit_test(learned_capacities),
    };
    return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
