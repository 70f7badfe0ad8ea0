/* Tests that each block of 0 bytes has an address of its own. An access to this address faults, and the block can be freed once. */
#include "unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/states.h"
#include "hakmem.h"
#include "policy/options.h"

enum { EMPTIES = 1 << 16, STEP = 16, THREADS = 4, EACH = 2000 };

static void start(void)
{
    hk_options.hardened = "empty";
    unit_start();
}

UNIT_TEST(as_many_as_there_are)
{
    static char *blocks[EMPTIES];
    start();
    for (unsigned i = 0; i < EMPTIES; i++)
        assert_non_null(blocks[i] = hk_empty_alloc());
    assert_null(hk_empty_alloc());
    for (unsigned i = 1; i < EMPTIES; i++)
        assert_ptr_equal(blocks[i], blocks[0] + (size_t)i * STEP);
    assert_false(hk_is_empty(blocks[0] - 1) || hk_is_empty(blocks[EMPTIES - 1] + STEP));
    hk_empty_free(HK_CALL_FREE, blocks[777]);
    assert_ptr_equal(hk_empty_alloc(), blocks[777]);
    assert_null(hk_empty_alloc());
}

UNIT_TEST(off)
{
    unit_start();
    assert_null(hk_empty_alloc());
    assert_false(hk_is_empty(NULL));
    assert_false(hk_is_empty((void *)STEP));
}

/* hk_realloc() frees the address of an empty block. */
UNIT_TEST(resized)
{
    start();
    for (unsigned i = 0; i < EMPTIES + EMPTIES / 2; i++) {
        char *empty = hak_malloc(0);
        assert_true(hk_is_empty(empty));
        hak_free(hak_realloc(empty, 1 + i % 100));
    }
    unit_heap_holds(0);
}

static void touch(void *block) { *(volatile char *)block = 1; }

static void assert_faults(void (*action)(void *block), void *block)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        action(block);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

UNIT_TEST(touched)
{
    start();
    char *block = hak_malloc(0);
    assert_faults(touch, block);
    hak_free(block);
    assert_faults(touch, block);
}

static void free_it(void *block) { hak_free(block); }
static void free_twice(void *block) { hak_free(block), hak_free(block); }
static void resize_freed(void *block)
{
    hak_free(block);
    assert_null(hak_realloc(block, 10));
}

UNIT_TEST(faults)
{
    start();
    char *block = hak_malloc(0);
    unit_dies(free_it, block + 1, "hakmem: free(): pointer inside a block");
    unit_dies(free_it, block + STEP, "hakmem: free(): block already free");
    unit_dies(free_twice, block, "hakmem: free(): block already free");
    unit_dies(resize_freed, block, "hakmem: realloc(): block already free");
    hak_free(block);
}

static void *take(void *into)
{
    for (unsigned i = 0; i < EACH; i++)
        ((void **)into)[i] = hak_malloc(0);
    return NULL;
}

UNIT_TEST(threads)
{
    static void *taken[THREADS][EACH];
    static bool seen[EMPTIES];
    pthread_t thread[THREADS];
    start();
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take, taken[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    char *first = taken[0][0];
    for (unsigned i = 0; i < THREADS * EACH; i++)
        first = (char *)taken[i / EACH][i % EACH] < first ? taken[i / EACH][i % EACH] : first;
    for (unsigned i = 0; i < THREADS * EACH; i++) {
        size_t number = (size_t)((char *)taken[i / EACH][i % EACH] - first) / STEP;
        assert_false(seen[number]);
        seen[number] = true;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_there_are),
        cmocka_unit_test(off),
        cmocka_unit_test(resized),
        cmocka_unit_test(touched),
        cmocka_unit_test(faults),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
