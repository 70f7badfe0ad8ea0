/* Tests which protections HAKMEM_SAFE_FREE and HAKMEM_HARDENED enable. If the system refuses memory for a protection at the start, HAKMEM works
 * without this protection. */
#include "unit/unit.h"

#include <string.h>

#include "guard/states.h"
#include "guard/guard.h"
#include "hakmem.h"
#include "policy/options.h"
#include "slab/slab_heap.h"
#include "span/chunks.h"
#include "span/meta_regions.h"
#include "tcache/layout.h"

#define BIT(word) ((uint32_t)1 << HK_PROTECTION_##word)
enum { ALL = (1 << HK_PROTECTIONS) - 1 };

/* Reads HAKMEM_HARDENED as the start of a process does. */
static void begin(const char *hardened)
{
    memset(&hk_guard, 0, sizeof hk_guard);
    hk_options.hardened = hardened;
    fake_os_capture();
    hk_guard_begin();
    fake_os.capturing = false;
}

static void assert_words(const char *hardened, uint32_t words, const char *said)
{
    begin(hardened);
    assert_int_equal(hk_guard.words, words);
    assert_int_equal(hk_guard.on, words != 0);
    assert_string_equal(fake_os.captured, said);
}

UNIT_TEST(each_word)
{
#define HK_PROTECTION(word, meaning) assert_words(#word, BIT(word) | BIT(check), "");
#include "guard/protections.def"
#undef HK_PROTECTION
}

UNIT_TEST(lists)
{
    assert_words(NULL, 0, "");
    assert_words("", 0, "");
    assert_words("0", 0, "");
    assert_words("1", ALL, "");
    assert_words("canary,zero", BIT(check) | BIT(canary) | BIT(zero), "");
    assert_words("zero,1", ALL, "");
    assert_words("check,0,kinds", BIT(check) | BIT(kinds), "");
}

#define NO_PROTECTION                                                                                                  \
    "is ignored because it is no protection; known are 1 for all, check, kinds, canary, zero, neighbors, quarantine, " \
    "random, pages, empty, types, metadata"

UNIT_TEST(no_protection)
{
    assert_words("bogus", 0, "hakmem: option hardened: \"bogus\" " NO_PROTECTION "\n");
    assert_words("canar", 0, "hakmem: option hardened: \"canar\" " NO_PROTECTION "\n");
    assert_words("zeros,2,zero", BIT(check) | BIT(zero),
                 "hakmem: option hardened: \"zeros\" " NO_PROTECTION "\n"
                 "hakmem: option hardened: \"2\" " NO_PROTECTION "\n");
    assert_words("canary;zero;neighbors;quarantine;pages", 0,
                 "hakmem: option hardened: \"canary;zero;neighbors;quarantine;pages\" " NO_PROTECTION "\n");
}

UNIT_TEST(safe_free)
{
    hk_options.safe_free = HK_SAFE_FREE_ON;
    assert_words(NULL, BIT(check) | BIT(kinds), "");
    assert_true(hk_guard.leaves);
    assert_words("0", BIT(check) | BIT(kinds), "");
    assert_true(hk_guard.leaves);
    assert_words("random", BIT(check) | BIT(kinds) | BIT(random), "");
    assert_false(hk_guard.leaves);
    hk_options.safe_free = HK_SAFE_FREE_STRICT;
    assert_words(NULL, BIT(check) | BIT(kinds), "");
    assert_false(hk_guard.leaves);
    assert_false(hk_guard.contents);
    assert_true(hk_guard.frees_plainly);
}

UNIT_TEST(what_others_do)
{
    assert_true(hk_slab_heap_joins);
    begin("random");
    assert_true(hk_bins_random != 0);
    assert_true(hk_bins_random == hk_guard.secret && hk_quarantine_seed == hk_guard.secret);
    assert_false(hk_slab_heap_joins);
    assert_false(hk_page_heap_guarded || hk_meta_guarded || hk_guard.contents);
    assert_int_equal(hk_guard.small, HK_FINE_MAX);
    begin("pages");
    assert_int_equal(hk_bins_random, 0);
    assert_true(hk_page_heap_guarded && hk_guard.contents && !hk_guard.frees_plainly);
    assert_int_equal(hk_guard.small, HK_FINE_MAX - sizeof(uint64_t));
    begin("metadata");
    assert_true(hk_meta_guarded && !hk_page_heap_guarded && !hk_guard.contents);
    assert_int_equal(hk_guard.least, 0);
    begin("empty");
    assert_int_equal(hk_guard.least, 1);
}

static bool no_random(void *bytes, size_t size)
{
    (void)bytes, (void)size;
    return false;
}

/* If the system has no random numbers, the secret is computed from the time and from addresses. */
UNIT_TEST(secret)
{
    uint64_t secrets[4];
    for (int i = 0; i < 4; i++) {
        begin("canary");
        secrets[i] = hk_guard.secret;
        for (int before = 0; before < i; before++)
            assert_true(secrets[before] != secrets[i]);
        if (i == 1)
            hk_os.random = no_random;
    }
}

UNIT_TEST(no_memory_for_empty_blocks)
{
    hk_options.hardened = "empty";
    fake_os_refuse(fake_refuse_bar);
    fake_os_capture();
    unit_start();
    assert_string_equal(fake_os.captured, "hakmem: no memory for empty blocks: malloc(0) returns ordinary blocks\n");
    fake_os.capturing = false;
    fake_os_refuse(NULL);
    char *block = hak_malloc(0);
    assert_true(block != NULL && !hk_is_empty(block));
    assert_true(hak_malloc_usable_size(block) > 0);
    hak_free(block);
    unit_heap_holds(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_word),
        cmocka_unit_test(lists),
        cmocka_unit_test(no_protection),
        cmocka_unit_test(safe_free),
        cmocka_unit_test(what_others_do),
        cmocka_unit_test(secret),
        cmocka_unit_test(no_memory_for_empty_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
