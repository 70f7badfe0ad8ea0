/* Tests how long a block waits in the quarantine, and in which order blocks leave it. No block may be lost when the quarantine is emptied, in a
 * fork child, or if memory is refused. */
#include "unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "policy/options.h"
#include "span/meta.h"
#include "tcache/tcache.h"

enum {
    HELD = HK_QUARANTINE_MIXED + HK_QUARANTINE_WAITING,
    BLOCKS = 4000,
    LEAST = HK_QUARANTINE_WAITING + 1,
    SOON = 40
};

static void start(void)
{
    hk_options.hardened = "quarantine";
    unit_start();
}

/* Puts the numbers 1, 2, ... into the quarantine in turn. left[n] gets the number whose entry made n leave, or 0 if n has not left. */
static void pass(struct hk_tcache *cache, unsigned *left)
{
    memset(left, 0, BLOCKS * sizeof *left);
    for (uintptr_t now = 1; now < BLOCKS; now++) {
        uintptr_t gone = (uintptr_t)hk_quarantine_swap(cache, (void *)now);
        if (gone == 0)
            continue;
        assert_true(gone < now && left[gone] == 0);
        left[gone] = (unsigned)now;
    }
}

/* Empties the quarantine without freeing its contents, because the numbers are not blocks. */
static void forget_numbers(struct hk_tcache *cache)
{
    assert_int_equal(hk_quarantine_forget(cache), HELD);
    assert_null(cache->quarantine);
}

UNIT_TEST(waits)
{
    static unsigned left[BLOCKS];
    start();
    struct hk_tcache *cache = hk_tcache_self();
    pass(cache, left);
    unsigned held = 0, soon = 0, waits[BLOCKS] = {0};
    for (unsigned i = 1; i < BLOCKS; i++) {
        if (left[i] == 0) {
            held++;
            continue;
        }
        assert_true(left[i] - i >= LEAST);
        soon += left[i] - i < SOON;
        waits[left[i] - i]++;
    }
    assert_int_equal(held, HELD);
    assert_true(soon > BLOCKS / 2); /* On average, a slot is chosen again after 16 other blocks. */
    for (unsigned wait = 0; wait < BLOCKS; wait++)
        assert_true(waits[wait] < BLOCKS / 8); /* No wait is so frequent that an attacker could rely on it. */
    forget_numbers(cache);
}

UNIT_TEST(never_twice_the_same)
{
    static unsigned first[BLOCKS], second[BLOCKS];
    start();
    struct hk_tcache *cache = hk_tcache_self();
    pass(cache, first);
    forget_numbers(cache);
    hk_quarantine_seed++;
    pass(cache, second);
    forget_numbers(cache);
    assert_true(memcmp(first, second, sizeof first) != 0);
}

UNIT_TEST(emptied)
{
    start();
    for (unsigned i = 0; i < 3 * HELD; i++)
        hak_free(hak_malloc(100));
    struct hk_tcache *cache = hk_tcache_self();
    assert_non_null(cache->quarantine);
    hk_quarantine_empty(cache);
    assert_null(cache->quarantine);
    hk_quarantine_empty(cache);
    unit_heap_holds(0);
}

UNIT_TEST(refused)
{
    start();
    void *block = hak_malloc(100);
    fake_os_refuse(fake_refuse_all);
    while (hk_meta_alloc(sizeof(struct hk_quarantine)) != NULL)
        ;
    assert_ptr_equal(hk_quarantine_swap(hk_tcache_self(), block), block);
    hak_free(block);
    assert_null(hk_tcache_self()->quarantine);
    assert_ptr_equal(hak_malloc(100), block);
}

static pthread_barrier_t both;

static void *free_and_wait(void *unused)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(hak_malloc(100));
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return unused;
}

/* In a fork child, blocks in the quarantine of another thread are counted as lost. */
UNIT_TEST(fork_child)
{
    pthread_t thread;
    hk_options.bin_cap = 1;
    start();
    pthread_barrier_init(&both, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, free_and_wait, NULL), 0);
    pthread_barrier_wait(&both);
    pid_t child = fork();
    if (child == 0) {
        uint64_t lost = hk_load(hk_global_counts[HK_GLOBAL_fork_stranded]);
        for (unsigned i = 0; i < 3 * HELD; i++)
            hak_free(hak_malloc(100));
        _exit(lost >= HELD && lost < 2 * HELD ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    hak_malloc_trim(0);
    unit_heap_holds(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits),   cmocka_unit_test(never_twice_the_same), cmocka_unit_test(emptied),
        cmocka_unit_test(refused), cmocka_unit_test(fork_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
