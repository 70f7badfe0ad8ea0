/* Tests a system that returns addresses beyond those of the page map, as kernels with 52 or 57 address bits do on request, and pointers of the
 * program to memory at these addresses. No memory lies at the addresses that this fake system returns, so an access ends the test. */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hakmem.h"
#include "span/page_map.h"

#define TOP ((uintptr_t)1 << HK_ADDRESS_BITS)
enum { MOST_GIVEN = 64 };

static const uintptr_t beyond[] = {
    TOP, TOP + HK_CHUNK, (uintptr_t)1 << 49, (uintptr_t)1 << 51, ((uintptr_t)1 << 52) - HK_GIB, (uintptr_t)1 << 55};
static struct hk_os low;
static uintptr_t next_high;
static struct given {
    uintptr_t start, end;
} given[MOST_GIVEN + 1];
static unsigned times_given;

static bool is_high(uintptr_t start, size_t size) { return start + size > TOP; }

/* Maps tables in real memory. Only mappings of 1 MiB and more get high addresses. */
static void *high_map(size_t size)
{
    if (next_high == 0 || size < HK_MIB)
        return low.map(size);
    struct given *one = given;
    while (one->start != one->end)
        one++;
    assert_true(one < given + MOST_GIVEN);
    *one = (struct given){next_high, next_high + size};
    next_high += size + HK_PAGE;
    times_given++;
    return (void *)one->start;
}

/* Simulates that a whole high mapping, its beginning, or its end is unmapped. */
static bool high_unmap(void *p, size_t size)
{
    uintptr_t start = (uintptr_t)p, end = start + size;
    if (!is_high(start, size))
        return low.unmap(p, size);
    for (struct given *one = given; one < given + MOST_GIVEN; one++) {
        if (one->start == start && end <= one->end)
            one->start = end;
        else if (one->end == end && start > one->start)
            one->end = start;
        else
            continue;
        return true;
    }
    (void)fprintf(stderr, "high_addresses: %p, %#zx was not given\n", p, size);
    abort();
}

static struct hk_heap_stats heap_stats;

static size_t still_given(void)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < MOST_GIVEN; i++)
        bytes += given[i].end - given[i].start;
    return bytes;
}

static enum hk_placed taken(void *p, size_t size)
{
    (void)p, (void)size;
    return HK_PLACE_TAKEN;
}

static void start_low(void)
{
    unit_start();
    low = hk_os;
    hk_os.map = high_map;
    hk_os.unmap = high_unmap;
    hk_os.map_at = taken; /* The system also refuses every address that HAKMEM chooses. */
}

/* Allocates small blocks until one is refused. Each must lie in low memory. */
static void small_blocks(void)
{
    for (unsigned i = 0; i < 3000; i++) {
        char *block = hak_malloc(30000);
        if (block == NULL)
            return;
        assert_true((uintptr_t)block < TOP);
        memset(block, 1, 30000);
    }
}

/* Allocates large blocks. Each must be refused or lie in low memory. Returns the number of refusals. */
static unsigned large_blocks(void)
{
    unsigned refusals = 0;
    for (size_t size = 2 * HK_MIB; size < 64 * HK_MIB; size += size / 3) {
        errno = 0;
        void *block = size % 2 == 0 ? hak_malloc(size) : hak_aligned_alloc(HK_CHUNK, size);
        refusals += block == NULL;
        assert_true(block != NULL ? (uintptr_t)block + size <= TOP : errno == ENOMEM);
        hak_free(block);
    }
    return refusals;
}

UNIT_TEST(refused_and_given_back)
{
    start_low();
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        next_high = beyond[i];
        times_given = 0;
        assert_true(large_blocks() > 0);
        small_blocks();
        assert_true(times_given > 0);
        assert_int_equal(still_given(), 0);
        next_high = 0;
        char *block = hak_malloc(8 * HK_MIB); /* From this call on, the system returns low addresses again. */
        assert_non_null(block);
        memset(block, 1, 8 * HK_MIB);
        hak_free(block);
    }
    assert_null(heap_is_wrong(&heap_stats));
}

/* A block that cannot grow because only high addresses are free keeps its contents. */
UNIT_TEST(realloc_keeps_the_block)
{
    start_low();
    char *block = hak_malloc(2 * HK_MIB);
    memset(block, 0x5a, 2 * HK_MIB);
    next_high = beyond[2];
    char *grown = hak_realloc(block, 40 * HK_MIB);
    block = grown != NULL ? grown : block;
    assert_true((uintptr_t)block < TOP);
    assert_int_equal(block[0], 0x5a);
    assert_int_equal(block[2 * HK_MIB - 1], 0x5a);
    assert_int_equal(still_given(), 0);
    hak_free(block);
}

static void free_it(void *p) { hak_free(p); }
static void resize_it(void *p) { (void)!hak_realloc(p, 100); }
static void measure_it(void *p) { (void)hak_malloc_usable_size(p); }

static void refused_as_foreign(void *p)
{
    unit_dies(free_it, p, "free(): pointer not from this allocator");
    unit_dies(resize_it, p, "realloc(): pointer not from this allocator");
    unit_dies(measure_it, p, "malloc_usable_size(): pointer not from this allocator");
    assert_int_equal(hk_page_map_lookup((uintptr_t)p), 0);
}

UNIT_TEST(pointers_of_the_program)
{
    unit_start();
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++)
        refused_as_foreign((void *)(beyond[i] + 64));
}

/* Programs ask for high memory by an address hint. A kernel with more than 47 address bits then returns memory above TOP. Other kernels return
 * lower memory. */
UNIT_TEST(memory_by_a_hint)
{
    enum { SIZE = 1 << 20 };
    unit_start();
    char *p = mmap((void *)((uintptr_t)1 << 50), SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    memset(p, 1, SIZE);
    refused_as_foreign(p + 4096);
    char *block = hak_malloc(SIZE);
    memcpy(block, p, SIZE);
    assert_int_equal(block[SIZE - 1], 1);
    hak_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_and_given_back),
        cmocka_unit_test(realloc_keeps_the_block),
        cmocka_unit_test(pointers_of_the_program),
        cmocka_unit_test(memory_by_a_hint),
    };
    return cmocka_run_group_tests_name("high_addresses", tests, NULL, NULL);
}
