/* Tests the less frequent calls while the guard is on: NULL, blocks of another allocator, all forms of new and delete, medium blocks, and the
 * state after a refusal. */
#include "unit/unit.h"

#include <errno.h>
#include <string.h>

#include "api/instrumented.h"
#include "guard/block_checks.h"
#include "guard/sampled.h"
#include "hakmem.h"
#include "policy/options.h"

void *hk_operator_new(size_t size);
void *hk_operator_new_aligned(size_t size, size_t align);
void *hk_operator_new_array_aligned(size_t size, size_t align);
void hk_operator_delete_sized(void *block, size_t size);
void hk_operator_delete_array(void *block);
void hk_operator_delete_array_sized(void *block, size_t size);
void hk_operator_delete_aligned(void *block, size_t align);
void hk_operator_delete_aligned_sized(void *block, size_t size, size_t align);
void hk_operator_delete_array_aligned(void *block, size_t align);
void hk_operator_delete_array_aligned_sized(void *block, size_t size, size_t align);

enum { TRIES = 1000000, SIZE = 100, ALIGN = 256 };

static void harden(const char *words)
{
    hk_options.hardened = words;
    unit_start();
}
static void check_frees(unsigned how)
{
    hk_options.safe_free = how;
    unit_start();
}
static uint64_t faults(void) { return hk_load(hk_global_counts[HK_GLOBAL_guard_faults]); }

UNIT_TEST(no_block)
{
    harden("1");
    hak_free(NULL);
    hak_free_sized(NULL, 8);
    hak_free_aligned_sized(NULL, 16, 8);
    hk_operator_delete_sized(NULL, 8);
    hk_operator_delete_array(NULL);
    hk_operator_delete_array_sized(NULL, 8);
    hk_operator_delete_aligned_sized(NULL, 8, ALIGN);
    hk_operator_delete_array_aligned_sized(NULL, 8, ALIGN);
    assert_int_equal(hak_malloc_usable_size(NULL), 0);
    assert_int_equal(faults(), 0);
}

/* The block lies in the break heap, where the C library's malloc has its blocks. */
static void of_another_allocator(void)
{
    static char heap[8 * SIZE] __attribute__((aligned(16)));
    char *block = heap + 16, *other = heap + 4 * SIZE;
    fake_os.break_start = (uintptr_t)heap, fake_os.break_end = (uintptr_t)heap + sizeof heap;
    strcpy(block, "elsewhere");
    errno = 0;
    char *moved = hak_realloc(block, 5 * SIZE);
    assert_int_equal(errno, 0);
    assert_string_equal(moved, "elsewhere");
    assert_true(hk_page_map_lookup((uintptr_t)moved) != 0);
    hak_free(moved);
    uint64_t before = hk_load(hk_global_counts[HK_GLOBAL_foreign_frees]);
    hak_free(other);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_foreign_frees]), before + 1);
    assert_int_equal(hak_malloc_usable_size(other), 0);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_foreign_frees]), before + 1);
    assert_int_equal(faults(), 0);
}

UNIT_TEST(of_another_allocator_reports)
{
    check_frees(HK_SAFE_FREE_ON);
    of_another_allocator();
}
UNIT_TEST(of_another_allocator_hardened)
{
    harden("1");
    of_another_allocator();
}

static void aligned_forms(void)
{
    for (size_t align = 1; align <= 8192; align *= 8) {
        hk_operator_delete_aligned(hk_operator_new_aligned(SIZE, align), align);
        hk_operator_delete_aligned_sized(hk_operator_new_aligned(SIZE, align), SIZE, align);
        hk_operator_delete_array_aligned(hk_operator_new_array_aligned(SIZE, align), align);
        hk_operator_delete_array_aligned_sized(hk_operator_new_array_aligned(SIZE, align), SIZE, align);
        char *block = hk_operator_new_array_aligned(SIZE, align);
        assert_int_equal((uintptr_t)block % align, 0);
        assert_true(hak_malloc_usable_size(block) >= SIZE);
        memset(block, 0x77, SIZE);
        hk_operator_delete_array_aligned(block, align);
    }
}

static void array_by_delete(void *argument)
{
    (void)argument;
    hk_operator_delete_aligned(hk_operator_new_array_aligned(SIZE, ALIGN), ALIGN);
}
static void object_by_delete_array(void *argument)
{
    (void)argument;
    hk_operator_delete_array_aligned(hk_operator_new_aligned(SIZE, ALIGN), ALIGN);
}
static void object_by_sized_delete_array(void *argument)
{
    (void)argument;
    hk_operator_delete_array_aligned_sized(hk_operator_new_aligned(SIZE, ALIGN), SIZE, ALIGN);
}
static void array_by_sized_delete(void *argument)
{
    (void)argument;
    hk_operator_delete_aligned_sized(hk_operator_new_array_aligned(SIZE, ALIGN), SIZE, ALIGN);
}
static void aligned_of_other_size(void *argument)
{
    (void)argument;
    hk_operator_delete_aligned_sized(hk_operator_new_aligned(SIZE, ALIGN), SIZE - 1, ALIGN);
}

static void wrong_aligned_forms(void)
{
    unit_dies(array_by_delete, NULL, "hakmem: operator delete(): block of operator new[]");
    unit_dies(array_by_sized_delete, NULL, "hakmem: sized operator delete(): block of operator new[]");
    unit_dies(object_by_delete_array, NULL, "hakmem: operator delete[](): block of operator new:");
    unit_dies(object_by_sized_delete_array, NULL, "hakmem: operator delete[](): block of operator new:");
}

UNIT_TEST(aligned_forms_strict)
{
    check_frees(HK_SAFE_FREE_STRICT);
    aligned_forms();
    wrong_aligned_forms();
    unit_heap_holds(0);
}

UNIT_TEST(aligned_forms_hardened)
{
    harden("1");
    aligned_forms();
    wrong_aligned_forms();
    unit_dies(aligned_of_other_size, NULL, "hakmem: sized operator delete(): size of another class");
}

/* These sizes are larger and smaller than the request, but they belong to the same class. */
static void size_too_large(void *block) { hk_operator_delete_sized(block, SIZE + 1); }
static void size_too_small(void *block) { hk_operator_delete_sized(block, SIZE - 1); }
UNIT_TEST(exact_sizes)
{
    harden("canary,kinds");
    void *block = hk_operator_new(SIZE);
    unit_dies(size_too_large, block, "hakmem: sized operator delete(): size of another class");
    unit_dies(size_too_small, block, "hakmem: sized operator delete(): size of another class");
    hk_operator_delete_sized(block, SIZE);
}

#define OVERWRITTEN "bytes behind the block were overwritten"
static void resize_damaged(void *block)
{
    ((volatile char *)block)[hak_malloc_usable_size(block)] ^= 1;
    assert_null(hak_realloc(block, 3 * SIZE));
}
static void measure_damaged(void *block)
{
    ((volatile char *)block)[hak_malloc_usable_size(block)] ^= 1;
    (void)hak_malloc_usable_size(block);
}
static void free_damaged(void *block)
{
    ((volatile char *)block)[hak_malloc_usable_size(block)] ^= 1;
    hak_free(block);
}

/* Tests a canary that was copied from another block of equal requested size, and a canary of zeros. */
static char *swapped[2];
static void swap_canaries(void *argument)
{
    (void)argument;
    char *end = swapped[0] + hak_malloc_usable_size(swapped[0]);
    memcpy(end, swapped[1] + hak_malloc_usable_size(swapped[1]), 8);
    hak_free(swapped[0]);
}

static void zero_canary(void *block)
{
    memset((char *)block + hak_malloc_usable_size(block), 0, 8);
    hak_free(block);
}

UNIT_TEST(damaged)
{
    static const size_t sizes[] = {1, 24, 100, 5000, 30000, 50000, 120000, 200000, 900000, 3000000};
    harden("canary,zero");
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = hak_malloc(sizes[i]);
        unit_dies(free_damaged, block, "hakmem: free(): " OVERWRITTEN);
        unit_dies(resize_damaged, block, "hakmem: realloc(): " OVERWRITTEN);
        unit_dies(measure_damaged, block, "hakmem: malloc_usable_size(): " OVERWRITTEN);
        unit_dies(zero_canary, block, "hakmem: free(): " OVERWRITTEN);
        hak_free(block);
    }
    swapped[0] = hak_malloc(24), swapped[1] = hak_malloc(24);
    unit_dies(swap_canaries, NULL, "hakmem: free(): " OVERWRITTEN);
}

struct far {
    char *block;
    size_t at;
};
static void write_far(void *argument)
{
    const struct far *far = argument;
    ((volatile char *)far->block)[far->at] ^= 1;
    hak_free(far->block);
}

/* The canary consists of a mark, zeros up to the 64th byte, and a word at the end of the block. */
UNIT_TEST(every_byte_of_the_canary)
{
    harden("canary,zero");
    char *block = hak_malloc(900); /* The block has 1024 bytes. */
    size_t bytes = hk_guard_bytes(block);
    for (size_t at = 900; at < 900 + 64; at += at < 900 + 16 ? 1 : 7)
        unit_dies(write_far, &(struct far){block, at}, OVERWRITTEN);
    for (size_t at = bytes - 8; at < bytes; at++)
        unit_dies(write_far, &(struct far){block, at}, OVERWRITTEN);
    hak_free(block);
}

struct stale {
    size_t size, at;
};

/* Writes to a freed block, and then allocates until malloc returns this block again. */
static void write_freed(void *argument)
{
    const struct stale *stale = argument;
    char *block = hak_malloc(stale->size);
    hak_free(block);
    ((volatile char *)block)[stale->at] = 1;
    for (int i = 0; i < 1000; i++)
        assert_non_null(hak_malloc(stale->size));
}

UNIT_TEST(free_blocks_written_to)
{
    harden("zero");
    for (size_t size = 100; size < 128000; size *= 8)
        for (size_t at = 0; at < size; at = at * 3 + 7)
            unit_dies(write_freed, &(struct stale){size, at}, "hakmem: malloc(): free block was written to");
}

UNIT_TEST(free_blocks_written_to_beside_hooks)
{
    hk_options.heap_sample = 1 << 20;
    harden("zero");
    unit_dies(write_freed, &(struct stale){100, 50}, "hakmem: malloc(): free block was written to");
}

static char *sampled(void)
{
    for (int i = 0; i < TRIES; i++) {
        char *block = hak_malloc(SIZE);
        if (hk_slots_hold(block))
            return block;
    }
    fail_msg("none of %d allocations was sampled", TRIES);
    return NULL;
}

/* Tests groups of blocks together with hooks. A group whose memory was refused gets blocks as soon as there is memory again. */
UNIT_TEST(groups_of_blocks)
{
    struct hk_request small = {.size = SIZE, .align = 16}, large = {.size = 200 << 10, .align = 16};
    hk_options.heap_sample = 1 << 20;
    harden("1");
    char *block = hk_guarded_alloc_in(2, &small);
    assert_int_equal(hk_guarded_group(block), 2);
    assert_int_equal(hak_malloc_usable_size(block), SIZE);
    hak_free(block);
    fake_os_refuse(fake_refuse_all);
    for (block = NULL; (block = hk_guarded_alloc_in(3, &large)) != NULL;)
        memset(block, 1, 200 << 10);
    fake_os_refuse(NULL);
    block = hk_guarded_alloc_in(3, &large);
    assert_int_equal(hk_guarded_group(block), 3);
    hak_free(block);
    assert_int_equal(faults(), 0);
}

/* Blocks of the program's own heaps have no guard states. A guard does not change what calls do with these blocks. */
UNIT_TEST(blocks_of_own_heaps)
{
    harden("1");
    hak_heap_t *heap = hak_heap_create("guarded", 0);
    char *block = hak_heap_malloc(heap, SIZE);
    strcpy(block, "of a heap");
    assert_true(hak_malloc_usable_size(block) >= SIZE);
    block = hak_realloc(block, 50 * SIZE);
    assert_ptr_equal(hak_heap_of(block), heap);
    assert_string_equal(block, "of a heap");
    hak_free(block);
    assert_int_equal(hak_heap_destroy(heap), 0);
    assert_int_equal(faults(), 0);
}

/* If no memory is left to move a sampled block, realloc leaves the block unchanged. */
UNIT_TEST(sampled_block_that_stays)
{
    hk_options.guard_sample = 1;
    hk_options.oom_report = 0;
    harden("1");
    char *block = sampled();
    strcpy(block, "stays");
    errno = 0;
    assert_null(hak_realloc(block, PTRDIFF_MAX / 2));
    assert_int_equal(errno, ENOMEM);
    assert_string_equal(block, "stays");
    char *moved = hak_realloc(block, 2 * SIZE);
    assert_string_equal(moved, "stays");
    assert_int_equal(hk_slot_find(block), HK_SLOT_FREE_ALREADY);
    hak_free(moved);
}

static bool refuse_bars_at_times(enum fake_call call, uint64_t ordinal) { return call == FAKE_BAR && ordinal % 3 != 0; }

/* If the system refuses to bar the pages of a freed block, the pages must still be zero when the next block uses them. */
UNIT_TEST(zeros_where_pages_stay)
{
    harden("1");
    fake_os_refuse(refuse_bars_at_times);
    for (int round = 0; round < 60; round++) {
        size_t size = 130000 + (size_t)round * 4000;
        char *block = hak_malloc(size);
        memset(block, 0x5a, size);
        hak_free(block);
        char *zeroed = hak_calloc(1, size);
        for (size_t i = 0; i < size; i += 64)
            assert_int_equal(zeroed[i], 0);
        memset(zeroed, 0xa5, size);
        hak_free(zeroed);
    }
    assert_true(hk_load(fake_os.xrefused) > 10);
}

/* Fills blocks of the heap, or of the process if `heap` is NULL, and frees them. Memory of the process may serve a heap later, and then the
 * process again. */
static void write_blocks(struct hak_heap *heap, size_t size)
{
    enum { BLOCKS = 24 };
    char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = heap != NULL ? hak_heap_malloc(heap, size) : hak_malloc(size);
        memset(blocks[i], 0x5a, size);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

UNIT_TEST(memory_that_a_heap_has_used)
{
    harden("zero");
    for (int round = 0; round < 6; round++)
        for (size_t size = 1000; size <= 900000; size *= 9) {
            write_blocks(NULL, size);
            hak_malloc_trim(SIZE_MAX); /* With SIZE_MAX, a trim flushes the bins and purges nothing. */
            struct hak_heap *heap = hak_heap_create("between", 0);
            write_blocks(heap, size);
            write_blocks(heap, size / 9);
            assert_int_equal(hak_heap_destroy(heap), 0);
            write_blocks(NULL, 3 * size);
        }
    assert_int_equal(faults(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_block),
        cmocka_unit_test(of_another_allocator_reports),
        cmocka_unit_test(of_another_allocator_hardened),
        cmocka_unit_test(aligned_forms_strict),
        cmocka_unit_test(aligned_forms_hardened),
        cmocka_unit_test(exact_sizes),
        cmocka_unit_test(damaged),
        cmocka_unit_test(every_byte_of_the_canary),
        cmocka_unit_test(free_blocks_written_to),
        cmocka_unit_test(free_blocks_written_to_beside_hooks),
        cmocka_unit_test(groups_of_blocks),
        cmocka_unit_test(blocks_of_own_heaps),
        cmocka_unit_test(sampled_block_that_stays),
        cmocka_unit_test(zeros_where_pages_stay),
        cmocka_unit_test(memory_that_a_heap_has_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
