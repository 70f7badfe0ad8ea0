/* Tests a background thread that cannot be created. The failure is reported once, the creation is not retried at once, and the caller's block is
 * still allocated or freed. tests/process/background.c tests what the thread does. */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "large/large.h"
#include "decay/background_state.h"
#include "hakmem.h"
#include "policy/options.h"
#include "runtime/background.h"

enum { MINUTE = 60000 };

static unsigned asked;

static int refuses(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    (void)thread, (void)attributes, (void)start, (void)argument;
    asked++;
    return EAGAIN;
}

static void *start(uint64_t background)
{
    bool zeroed;
    hk_options.background = background;
    unit_start();
    void *block = hk_large_alloc(40 * HK_MIB, HK_PAGE, &zeroed); /* not malloc, which would create the thread */
    assert_non_null(block);
    fake_os_capture();
    return block;
}

static unsigned times_said(void)
{
    unsigned times = 0;
    for (const char *at = fake_os.captured; (at = strstr(at, "cannot be created")) != NULL; at++)
        times++;
    return times;
}

UNIT_TEST(refused)
{
    void *block = start(HK_BACKGROUND_ON);
    hk_background_begin_with_thread(refuses);
    assert_int_equal(asked, 1);
    assert_int_equal(times_said(), 1);
    hk_background_begin_with_thread(refuses);
    assert_int_equal(asked, 1); /* The second call comes too soon to try again. */
    fake_os_pass_ms(MINUTE + 1);
    hk_background_begin_with_thread(refuses);
    assert_int_equal(asked, 2);
    assert_int_equal(times_said(), 1);
    assert_false(hk_background_end());
    hak_free(block);
    unit_heap_holds(0);
}

/* With the default options, the user has not asked for a background thread, so a failure to create it is not reported. It is not created while
 * the process has only one thread. */
UNIT_TEST(refused_unasked)
{
    void *block = start(HK_BACKGROUND_AUTO);
    hk_background_begin_in_malloc((const void *)(uintptr_t)start, refuses);
    assert_int_equal(asked, 0);
    hk_background_begin_with_thread(refuses);
    assert_int_equal(asked, 1);
    assert_int_equal(times_said(), 0);
    assert_true(hk_background_thread_ended());
    assert_false(hk_background_end());
    hak_free(block);
}

/* A malloc that fails to create the background thread keeps errno. While the heap is small, malloc does not try to create the thread. */
UNIT_TEST(in_malloc)
{
    void *block = start(HK_BACKGROUND_ON);
    errno = 77;
    hk_background_begin_in_malloc((const void *)(uintptr_t)start, refuses);
    assert_int_equal(errno, 77);
    assert_int_equal(asked, 1);
    assert_false(hk_mode_has(HK_MODE_WAKE));
    hak_free(block);
    hak_malloc_trim(0);
    hk_mode_set(HK_MODE_WAKE);
    fake_os_pass_ms(MINUTE + 1);
    hk_background_begin_in_malloc((const void *)(uintptr_t)start, refuses);
    assert_int_equal(asked, 1);
}

/* Returns another process id than the parent's, as in a vfork child, which shares its parent's memory. */
static int child_id(void) { return 1; }

UNIT_TEST(in_a_vfork_child)
{
    void *block = start(HK_BACKGROUND_ON);
    int (*real)(void) = hk_os.process_id;
    hk_os.process_id = child_id;
    hk_background_begin_in_malloc((const void *)(uintptr_t)start, refuses);
    assert_int_equal(asked, 0);
    hk_os.process_id = real;
    hk_background_begin_in_malloc((const void *)(uintptr_t)start, refuses);
    assert_int_equal(asked, 1);
    hak_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(refused_unasked),
        cmocka_unit_test(in_malloc),
        cmocka_unit_test(in_a_vfork_child),
    };
    return cmocka_run_group_tests_name("background", tests, NULL, NULL);
}
