/* Tests that a sampled block is accessible until it is freed, and that the memory beside it never is. Freed slots wait before they are reused. If
 * the system refuses memory, no block is lost. */
#include "unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "guard/sampled_slots.h"
#include "support/rng.h"

/* At most 384 KiB of slots can be live at a time. Each block has a slot of its own. */
#define PAGE hk_system_page()
#define SLOT hk_max(8192, PAGE)
#define LIVE (HK_SLOTS_LIVE * (size_t)8192 / SLOT)
#define OWN hk_min(MOST_OWN, LIVE / THREADS)
enum { THREADS = 4, STEPS = 3000, MOST_OWN = 10 };

static const struct hk_packed_stack by = {.thread = 42};

static char *block_of(const struct hk_slot *slot) { return (char *)hk_load(slot->xblock); }

static char *taken(size_t size, size_t align)
{
    const struct hk_slot *slot = hk_slot_take(size, align);
    assert_non_null(slot);
    return block_of(slot);
}

/* Returns true if the byte can be read. Uses a system call, which returns an error if the address would fault. */
static bool accessible(const char *at)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool read = write(ends[1], at, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return read;
}

static void assert_zero(const char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        assert_int_equal(block[i], 0);
}

/* Checks that the block lies directly beside a guard page. Sets a bit in *ends, which is 1 for the guard page at lower addresses and 2 for the
 * other. */
static void assert_placed(const char *block, size_t size, size_t align, unsigned *ends)
{
    const char *page = block - (uintptr_t)block % PAGE;
    bool left = block == page && !accessible(block - 1);
    size_t slack = (size_t)(-(uintptr_t)(block + size) % PAGE);
    bool right = slack < align + (size == 0) * align && !accessible(block + size + slack);
    assert_true(left || right);
    assert_int_equal((uintptr_t)block % align, 0);
    *ends |= (unsigned)left | (unsigned)right << 1;
}

UNIT_TEST(against_a_guard_page)
{
    hk_slots_init();
    unsigned ends = 0;
    for (size_t size = 0; size <= SLOT; size += 1 + size / 16)
        for (size_t align = 16; align <= PAGE; align *= 4) {
            char *block = taken(size, align);
            assert_true(hk_slots_hold(block));
            assert_placed(block, size, align, &ends);
            assert_zero(block, size);
            memset(block, 0xee, size);
            assert_int_equal(hk_slot_put(block, &by), HK_SLOT_BLOCK);
            assert_false(accessible(block));
        }
    assert_int_equal(ends, 3);
}

static size_t large_pages(void) { return 65536; }
static void *(*map_small_pages)(size_t size);

static void *map_large_pages(size_t size)
{
    char *p = map_small_pages(size + large_pages());
    return p != NULL ? (void *)hk_align_up((uintptr_t)p, large_pages()) : NULL;
}

/* On a system with 64 KiB pages, fewer blocks can be live. */
UNIT_TEST(large_pages_of_the_system)
{
    hk_os.page_size = large_pages;
    map_small_pages = hk_os.map;
    hk_os.map = map_large_pages;
    hk_slots_init();
    unsigned taken_blocks = 0;
    for (const struct hk_slot *slot; (slot = hk_slot_take(100, 16)) != NULL; taken_blocks++) {
        char *page = block_of(slot) - (uintptr_t)block_of(slot) % 65536;
        assert_true(accessible(page) && accessible(page + 65535));
        assert_false(accessible(page - 1) || accessible(page + 65536));
    }
    assert_int_equal(taken_blocks, 6);
}

UNIT_TEST(too_large)
{
    hk_slots_init();
    assert_null(hk_slot_take(SLOT + 1, 16));
    assert_null(hk_slot_take(100, 2 * PAGE));
    assert_non_null(hk_slot_take(SLOT, 16));
}

UNIT_TEST(rests_before_reuse)
{
    hk_slots_init();
    char *first = taken(PAGE, 16);
    hk_slot_put(first, &by);
    for (int i = 0; i < HK_SLOTS - 1; i++) {
        char *other = taken(PAGE, 16);
        assert_true(other + SLOT <= first || other >= first + SLOT);
        hk_slot_put(other, &by);
        assert_false(accessible(first));
    }
    char *again = taken(PAGE, 16);
    assert_true(again < first + SLOT && again + SLOT > first);
}

UNIT_TEST(not_too_many)
{
    hk_slots_init();
    char *blocks[HK_SLOTS_LIVE];
    for (int i = 0; i < (int)LIVE; i++)
        blocks[i] = taken(1, 16);
    assert_null(hk_slot_take(1, 16));
    assert_int_equal(hk_slots_live(), LIVE);
    assert_int_equal(hk_slot_put(blocks[3], &by), HK_SLOT_BLOCK);
    for (int i = 0; i < (int)(HK_SLOTS - LIVE); i++)
        hk_slot_put(taken(1, 16), &by);
    assert_int_equal(hk_slots_live(), LIVE - 1);
}

UNIT_TEST(pointers)
{
    hk_slots_init();
    char *block = taken(100, 16), outside;
    assert_false(hk_slots_hold(&outside));
    assert_false(hk_slots_hold(NULL));
    assert_int_equal(hk_slot_find(block), HK_SLOT_BLOCK);
    assert_int_equal(hk_slot_find(block + 1), HK_SLOT_INSIDE);
    assert_int_equal(hk_slot_put(block + 16, &by), HK_SLOT_INSIDE);
    assert_int_equal(hk_slot_put(block, &by), HK_SLOT_BLOCK);
    assert_int_equal(hk_slot_find(block), HK_SLOT_FREE_ALREADY);
    assert_int_equal(hk_slot_put(block, &by), HK_SLOT_FREE_ALREADY);
    assert_int_equal(hk_slots_live(), 0);
}

/* An access to a guard page is attributed to the block on its nearer side. */
UNIT_TEST(nearest)
{
    hk_slots_init();
    struct hk_slot *a = hk_slot_take(SLOT, 16), *b = hk_slot_take(SLOT, 16);
    char *end = block_of(a) + SLOT, *start = block_of(b);
    assert_ptr_equal(start, end + PAGE);
    assert_ptr_equal(hk_slot_near((uintptr_t)end), a);
    assert_ptr_equal(hk_slot_near((uintptr_t)start - 1), b);
    assert_ptr_equal(hk_slot_near((uintptr_t)end + 8), a);
    assert_ptr_equal(hk_slot_near((uintptr_t)start - 8), b);
    assert_ptr_equal(hk_slot_near((uintptr_t)start + SLOT + 5), b);
    assert_true(hk_slot_opens(a, (uintptr_t)end - 1));
    assert_false(hk_slot_opens(a, (uintptr_t)end));
}

/* A guard page may be nearer to the block of the next slot. A slot that was never used has no block. */
UNIT_TEST(nearest_of_small_blocks)
{
    hk_slots_init();
    struct hk_slot *left = hk_slot_take(16, 16), *next = hk_slot_take(16, 16);
    /* The loop ends when both blocks begin at a page. */
    while ((uintptr_t)block_of(left) % PAGE + (uintptr_t)block_of(next) % PAGE != 0) {
        hk_slot_put(block_of(left), &by);
        left = next;
        assert_non_null(next = hk_slot_take(16, 16));
    }
    char *middle = block_of(left) + (block_of(next) - block_of(left)) / 2;
    assert_ptr_equal(hk_slot_near((uintptr_t)middle - 100), left);
    assert_ptr_equal(hk_slot_near((uintptr_t)middle + 100), next);
    assert_ptr_equal(hk_slot_near((uintptr_t)block_of(next) + SLOT + PAGE), next);
}

/* The check detects a change of any byte of the pattern beside the block. It ignores the block's own bytes. */
UNIT_TEST(damage)
{
    hk_slots_init();
    for (int i = 0; i < 40; i++) {
        struct hk_slot *slot = hk_slot_take(100, 16);
        char *block = block_of(slot);
        memset(block, 0x11, 100);
        assert_int_equal(hk_slot_damage(slot), 0);
        bool right = (uintptr_t)block % PAGE != 0;
        for (int at = right ? -64 : 100; at < (right ? 0 : 164); at++) {
            block[at] ^= 0x40;
            assert_int_equal(hk_slot_damage(slot), (uintptr_t)block + (uintptr_t)(intptr_t)at);
            block[at] ^= 0x40;
        }
        hk_slot_put(block, &by);
    }
}

UNIT_TEST(refusals)
{
    hk_slots_init();
    fake_os_refuse(fake_refuse_map);
    assert_null(hk_slot_take(100, 16));
    fake_os_refuse(fake_refuse_bar);
    assert_null(hk_slot_take(100, 16));
    assert_false(hk_slots_hold(&by));
    assert_int_equal(fake_os_calls(FAKE_UNMAP), 1);
    fake_os_refuse(fake_refuse_unbar);
    assert_null(hk_slot_take(100, 16));
    assert_true(hk_load(hk_slot_range.xbytes) > 0);
    fake_os_refuse(NULL);
    assert_int_equal(hk_slots_live(), 0);
    assert_zero(taken(100, 16), 100);
}

/* If the system refuses to bar the pages of a freed block, the pages must be zero when the next block uses them. */
UNIT_TEST(refused_at_the_free)
{
    hk_slots_init();
    char *block = taken(SLOT, 16);
    memset(block, 0x77, SLOT);
    fake_os_refuse(fake_refuse_bar);
    assert_int_equal(hk_slot_put(block, &by), HK_SLOT_BLOCK);
    assert_true(accessible(block));
    fake_os_refuse(NULL);
    for (int i = 0; i < HK_SLOTS - 1; i++)
        hk_slot_put(taken(1, 16), &by);
    fake_os_refuse(fake_refuse_bar);
    assert_null(hk_slot_take(SLOT, 16));
    fake_os_refuse(NULL);
    assert_ptr_equal(taken(SLOT, 16), block);
    assert_zero(block, SLOT);
}

static void *come_and_go(void *seed)
{
    struct rng rng = rng_seeded((uint64_t)(uintptr_t)seed);
    char *own[MOST_OWN] = {NULL};
    for (int i = 0; i < STEPS; i++) {
        char **at = &own[rng_below(&rng, (uint32_t)OWN)];
        if (*at == NULL) {
            *at = taken(64, 16);
            memset(*at, (int)(uintptr_t)seed, 64);
        } else {
            for (int b = 0; b < 64; b++)
                assert_int_equal((*at)[b], (int)(uintptr_t)seed);
            assert_int_equal(hk_slot_put(*at, &by), HK_SLOT_BLOCK);
            *at = NULL;
        }
    }
    for (int i = 0; i < MOST_OWN; i++)
        if (own[i] != NULL)
            hk_slot_put(own[i], &by);
    return NULL;
}

UNIT_TEST(threads)
{
    pthread_t thread[THREADS];
    hk_slots_init();
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(hk_slots_live(), 0);
}

/* A fork child has the parent's blocks with their guard pages. */
UNIT_TEST(fork_child)
{
    hk_slots_init();
    char *live = taken(PAGE, 16), *freed = taken(PAGE, 16);
    memset(live, 5, PAGE);
    hk_slot_put(freed, &by);
    pid_t child = fork();
    if (child == 0) {
        bool well = live[PAGE - 1] == 5 && !accessible(freed) && hk_slot_put(live, &by) == HK_SLOT_BLOCK &&
                    !accessible(live) && hk_slot_take(PAGE, 16) != NULL;
        _exit(well ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(accessible(live));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_a_guard_page),
                                       cmocka_unit_test(large_pages_of_the_system),
                                       cmocka_unit_test(too_large),
                                       cmocka_unit_test(rests_before_reuse),
                                       cmocka_unit_test(not_too_many),
                                       cmocka_unit_test(pointers),
                                       cmocka_unit_test(nearest),
                                       cmocka_unit_test(nearest_of_small_blocks),
                                       cmocka_unit_test(damage),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(refused_at_the_free),
                                       cmocka_unit_test(threads),
                                       cmocka_unit_test(fork_child)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
