/* Tests the block checks in every mode of the guard. Correct calls work. A mistake of the program is reported by the wrong call, or by the next
 * call for the block. */
#include "unit/unit.h"

#include <errno.h>
#include <string.h>

#include "guard/block_checks.h"
#include "hakmem.h"
#include "policy/options.h"
#include "support/rng.h"
#include "tcache/tcache.h"

/* The operators are called by their internal names because the build of the unit tests does not export them. */
void *hk_operator_new(size_t size);
void *hk_operator_new_array(size_t size);
void hk_operator_delete(void *block);
void hk_operator_delete_sized(void *block, size_t size);
void hk_operator_delete_array(void *block);
void hk_operator_delete_array_sized(void *block, size_t size);
void *hk_operator_new_aligned(size_t size, size_t align);
void hk_operator_delete_aligned_sized(void *block, size_t size, size_t align);

enum { SLOTS = 400, STEPS = 60000, MOST = 3 << 20 };

enum mode { REPORTS, STRICT, HARDENED };

static void start_safe(enum mode how)
{
    if (how == HARDENED)
        hk_options.hardened = "1";
    else
        hk_options.safe_free = how == STRICT ? HK_SAFE_FREE_STRICT : HK_SAFE_FREE_ON;
    unit_start();
    assert_true(hk_guard.on);
}

struct slot {
    unsigned char *block;
    size_t size;
    unsigned char fill;
};

static void check(const struct slot *slot, size_t size)
{
    for (size_t i = 0; i < size; i += 1 + i / 64)
        assert_int_equal(slot->block[i], slot->fill);
    if (size > 0)
        assert_int_equal(slot->block[size - 1], slot->fill);
}

static size_t some_size(struct rng *rng)
{
    uint64_t one_of = rng_below(rng, 200);
    return 1 + rng_below(rng, one_of == 0 ? MOST : one_of < 10 ? 300000 : one_of < 60 ? 6000 : 300);
}

static void allocate(struct slot *slot, struct rng *rng)
{
    slot->size = some_size(rng);
    switch (rng_below(rng, 4)) {
    case 0: slot->block = hak_calloc(1, slot->size); break;
    case 1: slot->block = hak_memalign((size_t)16 << rng_below(rng, 14), slot->size); break;
    default: slot->block = hak_malloc(slot->size); break;
    }
    assert_true(slot->block != NULL || hk_load(fake_os.xrefused) > 0);
    assert_true(slot->block == NULL || hak_malloc_usable_size(slot->block) >= slot->size);
}

static void step(struct slot *slot, struct rng *rng)
{
    if (slot->block == NULL)
        allocate(slot, rng);
    else if (rng_below(rng, 3) != 0) {
        check(slot, slot->size);
        hak_free(slot->block);
        slot->block = NULL;
        return;
    } else {
        size_t size = some_size(rng);
        unsigned char *resized = hak_realloc(slot->block, size);
        if (resized == NULL)
            return;
        slot->block = resized;
        check(slot, size < slot->size ? size : slot->size);
        slot->size = size;
    }
    if (slot->block == NULL)
        return;
    slot->fill = (unsigned char)rng_next(rng);
    memset(slot->block, slot->fill, slot->size);
}

static void use_heap(void *argument)
{
    struct slot *slots = argument;
    struct rng rng = rng_seeded(7);
    for (unsigned i = 0; i < STEPS; i++)
        step(&slots[rng_below(&rng, SLOTS)], &rng);
}

static void drop_all(struct slot *slots)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i].block != NULL)
            check(&slots[i], slots[i].size);
        hak_free(slots[i].block);
    }
}

/* A second thread fills the slots of `others` and ends. The first thread then frees its own blocks, and the blocks of `others`, which lie in
 * abandoned slabs. */
static void correct_use(enum mode how)
{
    static struct slot slots[SLOTS], others[SLOTS];
    start_safe(how);
    use_heap(slots);
    unit_in_thread(use_heap, others);
    drop_all(slots);
    drop_all(others);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_guard_faults]), 0);
    hak_malloc_trim(0);
    unit_heap_holds(0);
}

UNIT_TEST(correct_use_reports) { correct_use(REPORTS); }
UNIT_TEST(correct_use_strict) { correct_use(STRICT); }
UNIT_TEST(correct_use_hardened) { correct_use(HARDENED); }

UNIT_TEST(correct_use_hardened_and_profiled)
{
    hk_options.heap_sample = 4096;
    correct_use(HARDENED);
}

UNIT_TEST(correct_use_hardened_with_site_rules)
{
    hk_options.site_rules = HK_SITE_RULES_ON;
    correct_use(HARDENED);
}

UNIT_TEST(correct_use_strict_and_traced)
{
    hk_options.trace_ring = 64;
    correct_use(STRICT);
}

UNIT_TEST(correct_use_with_sampled_guard_pages)
{
    hk_options.guard_sample = 16384;
    correct_use(HARDENED);
}

static bool every_third(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    return ordinal % 3 == 0;
}

/* No block may be lost or damaged if the system refuses memory, or refuses to change the protection of pages. */
static void refused_use(enum mode how)
{
    static struct slot slots[SLOTS];
    start_safe(how);
    fake_os_refuse(every_third);
    use_heap(slots);
    assert_true(hk_load(fake_os.xrefused) > 10);
    fake_os_refuse(NULL);
    drop_all(slots);
    hak_malloc_trim(0);
    unit_heap_holds(0);
}

UNIT_TEST(refused_use_strict) { refused_use(STRICT); }
UNIT_TEST(refused_use_hardened) { refused_use(HARDENED); }

UNIT_TEST(zeroed_as_asked)
{
    start_safe(HARDENED);
    for (size_t size = 1; size < 400000; size += 1 + size / 3) {
        unsigned char *dirty = hak_malloc(size);
        memset(dirty, 0xa5, size);
        hak_free(dirty);
        unsigned char *zeroed = hak_calloc(1, size);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(zeroed[i], 0);
        assert_int_equal(hak_malloc_usable_size(zeroed), size);
        hak_free(zeroed);
    }
}

UNIT_TEST(addresses_do_not_come_back_at_once)
{
    start_safe(HARDENED);
    for (size_t size = 16; size < 400000; size *= 3) {
        void *first = hak_malloc(size);
        hak_free(first);
        void *second = hak_malloc(size);
        assert_ptr_not_equal(first, second);
        hak_free(second);
    }
}

/* A mistake is reported but has no effect, so the one correct free of the block still works. */
UNIT_TEST(a_report_leaves_the_block)
{
    start_safe(REPORTS);
    char *block = hak_malloc(100), *other = hak_malloc(100);
    strcpy(block, "intact");
    hak_free(other);
    hak_free(other);
    hak_free(block + 16);
    hk_operator_delete(block);
    errno = 0;
    assert_null(hak_realloc(other, 50));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(hak_malloc_usable_size(other), 0);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_guard_faults]), 5);
    assert_string_equal(block, "intact");
    hak_free(block);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_guard_faults]), 5);
    unit_heap_holds(0);
}

struct mistake {
    void (*made)(void *block);
    size_t size;
};

static void make(void *argument)
{
    const struct mistake *mistake = argument;
    mistake->made(hak_malloc(mistake->size));
}

static void twice(void *block) { hak_free(block), hak_free(block); }
static void inside(void *block) { hak_free((char *)block + 1); }
static void by_delete(void *block) { hk_operator_delete(block); }
static void by_delete_array(void *block) { hk_operator_delete_array(block); }
static void behind(void *block)
{
    ((volatile char *)block)[hak_malloc_usable_size(block)] ^= 1;
    hak_free(block);
}
static void before(void *block)
{
    void *neighbors[20];
    for (unsigned i = 0; i < 20; i++)
        neighbors[i] = hak_malloc(hak_malloc_usable_size(block));
    for (unsigned i = 0; i < 20; i++) {
        if ((uintptr_t)neighbors[i] % HK_SLICE != 0) /* A byte before a slice may fault. */
            ((volatile char *)neighbors[i])[-1] ^= 1;
        hak_free(neighbors[i]);
    }
}
static void after_free(void *block)
{
    size_t size = hak_malloc_usable_size(block);
    hak_free(block);
    ((volatile char *)block)[0] = 'x';
    for (unsigned i = 0; i < 10000; i++)
        hak_free(hak_malloc(size));
}
static void resized_after_free(void *block)
{
    hak_free(block);
    assert_null(hak_realloc(block, 10));
}

static void dies(void (*made)(void *block), size_t size, const char *line)
{
    unit_dies(make, &(struct mistake){made, size}, line);
}

UNIT_TEST(strict_stops_at_the_call)
{
    start_safe(STRICT);
    dies(twice, 40, "hakmem: free(): block already free");
    dies(twice, 200000, "hakmem: free(): block already free");
    dies(inside, 40, "hakmem: free(): pointer inside a block");
    dies(by_delete, 40, "hakmem: operator delete(): block of malloc()");
    dies(by_delete_array, 40, "hakmem: operator delete[](): block of malloc()");
    dies(resized_after_free, 40, "hakmem: realloc(): block already free");
}

UNIT_TEST(hardened_detects_writes_beyond)
{
    static const size_t sizes[] = {1, 8, 24, 100, 1000, 4096, 30000, 100000};
    start_safe(HARDENED);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        dies(behind, sizes[i], "hakmem: free(): bytes behind the block were overwritten");
        dies(twice, sizes[i], "hakmem: free(): block already free");
    }
    dies(before, 24, "were overwritten");
    dies(after_free, 24, "hakmem: ");
    dies(after_free, 5000, "hakmem: ");
}

UNIT_TEST(a_string_without_end_ends_behind_its_block)
{
    start_safe(HARDENED);
    for (size_t size = 1; size < 3000; size++) {
        char *text = hak_malloc(size);
        memset(text, 'x', size);
        HK_FORGET(text);
        assert_int_equal(strlen(text), size);
        text[size] = 0; /* The guard keeps a 0 in the byte after the block's end, so strlen() stops. */
        hak_free(text);
    }
}

static void other_size(void *argument)
{
    (void)argument;
    hk_operator_delete_sized(hk_operator_new(100), 400);
}
static void other_size_large(void *argument)
{
    (void)argument;
    hk_operator_delete_sized(hk_operator_new(100000), 200000);
}
static void more_than_the_block(void *argument)
{
    (void)argument;
    hak_free_sized(hak_malloc(100000), 200000);
}
static void new_by_delete_array(void *argument)
{
    (void)argument;
    hk_operator_delete_array(hk_operator_new(100));
}
static void new_array_by_delete(void *argument)
{
    (void)argument;
    hk_operator_delete(hk_operator_new_array(100));
}
static void new_by_free(void *argument)
{
    (void)argument;
    hak_free(hk_operator_new(100));
}

UNIT_TEST(kinds_and_sizes_are_compared)
{
    start_safe(STRICT);
    hk_operator_delete_sized(hk_operator_new(100), 100);
    hk_operator_delete_array_sized(hk_operator_new_array(100), 100);
    hk_operator_delete_array(hk_operator_new_array(0));
    hak_free_sized(hak_malloc(33), 33);
    unit_dies(other_size, NULL, "hakmem: sized operator delete(): size of another class");
    unit_dies(other_size_large, NULL, "hakmem: sized operator delete(): size of another class");
    unit_dies(more_than_the_block, NULL, "hakmem: free_sized(): size of another class");
    unit_dies(new_by_delete_array, NULL, "hakmem: operator delete[](): block of operator new:");
    unit_dies(new_array_by_delete, NULL, "hakmem: operator delete(): block of operator new[]");
    unit_dies(new_by_free, NULL, "hakmem: free(): block of operator new:");
}

/* Without canaries, a free with the requested size must be accepted, for blocks of all tiers. */
UNIT_TEST(sizes_fit_without_canaries)
{
    hk_options.hardened = "kinds,zero,pages";
    unit_start();
    for (size_t size = 1; size < 3 << 20; size += 1 + size / 16) {
        hk_operator_delete_sized(hk_operator_new(size), size);
        hk_operator_delete_aligned_sized(hk_operator_new_aligned(size, 256), size, 256);
        hk_operator_delete_array_sized(hk_operator_new_array(size), size);
        hak_free_sized(hak_malloc(size), size);
    }
    unit_dies(other_size, NULL, "hakmem: sized operator delete(): size of another class");
}

UNIT_TEST(the_exact_size_is_known_where_canaries_are)
{
    start_safe(HARDENED);
    hk_operator_delete_sized(hk_operator_new(100), 100);
    char *grown = hak_realloc(hak_malloc(10), 20);
    assert_int_equal(hak_malloc_usable_size(grown), 20);
    hak_free_sized(grown, 20);
}

UNIT_TEST(empty_blocks_have_addresses_of_their_own)
{
    start_safe(HARDENED);
    void *one = hak_malloc(0), *other = hak_calloc(0, 8);
    assert_true(hk_is_empty(one) && hk_is_empty(other));
    assert_ptr_not_equal(one, other);
    assert_int_equal(hak_malloc_usable_size(one), 0);
    char *grown = hak_realloc(one, 10);
    assert_false(hk_is_empty(grown));
    hak_free(grown);
    hak_free(other);
    hak_malloc_trim(0); /* The trim also empties the quarantine. */
    unit_heap_holds(0);
}

/* When all addresses for empty blocks are in use, a request of 0 bytes gets an ordinary block. */
UNIT_TEST(more_empty_blocks_than_addresses)
{
    enum { MANY = 70000 };
    static void *blocks[MANY];
    start_safe(HARDENED);
    for (unsigned i = 0; i < MANY; i++)
        assert_non_null(blocks[i] = hak_malloc(0));
    assert_false(hk_is_empty(blocks[MANY - 1]));
    for (unsigned i = 0; i < MANY; i++)
        hak_free(blocks[i]);
    hak_malloc_trim(0);
    unit_heap_holds(0);
}

static void empty_twice(void *argument)
{
    (void)argument;
    void *empty = hak_malloc(0);
    hak_free(empty);
    hak_free(empty);
}
UNIT_TEST(an_empty_block_is_freed_once)
{
    start_safe(HARDENED);
    unit_dies(empty_twice, NULL, "hakmem: free(): block already free");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_use_reports),
        cmocka_unit_test(correct_use_strict),
        cmocka_unit_test(correct_use_hardened),
        cmocka_unit_test(correct_use_hardened_and_profiled),
        cmocka_unit_test(correct_use_hardened_with_site_rules),
        cmocka_unit_test(correct_use_strict_and_traced),
        cmocka_unit_test(correct_use_with_sampled_guard_pages),
        cmocka_unit_test(refused_use_strict),
        cmocka_unit_test(refused_use_hardened),
        cmocka_unit_test(zeroed_as_asked),
        cmocka_unit_test(addresses_do_not_come_back_at_once),
        cmocka_unit_test(a_report_leaves_the_block),
        cmocka_unit_test(strict_stops_at_the_call),
        cmocka_unit_test(hardened_detects_writes_beyond),
        cmocka_unit_test(a_string_without_end_ends_behind_its_block),
        cmocka_unit_test(kinds_and_sizes_are_compared),
        cmocka_unit_test(sizes_fit_without_canaries),
        cmocka_unit_test(the_exact_size_is_known_where_canaries_are),
        cmocka_unit_test(empty_blocks_have_addresses_of_their_own),
        cmocka_unit_test(more_empty_blocks_than_addresses),
        cmocka_unit_test(an_empty_block_is_freed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
