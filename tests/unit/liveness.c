/* Tests that a liveness mutex is lost when the thread that holds it ends, and at no other time. Exactly one thread sees the loss. */
#include "unit/unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/liveness.h"

static struct hk_liveness line;

static void take(void *unused)
{
    (void)unused;
    hk_liveness_take(&line);
}

static void take_and_drop(void *unused)
{
    take(unused);
    hk_liveness_drop(&line);
}

static void see_it_torn_once(void)
{
    assert_true(hk_liveness_lost(&line));
    hk_liveness_drop(&line);
    assert_false(hk_liveness_lost(&line));
}

UNIT_TEST(torn_by_the_end)
{
    assert_false(hk_liveness_lost(&line));
    for (int i = 0; i < 3; i++) {
        unit_in_thread(take, NULL);
        see_it_torn_once();
    }
}

UNIT_TEST(not_torn_when_dropped)
{
    for (int i = 0; i < 3; i++) {
        unit_in_thread(take_and_drop, NULL);
        assert_false(hk_liveness_lost(&line));
    }
}

static pthread_barrier_t barrier;

static void *lives(void *unused)
{
    hk_liveness_take(&line);
    assert_false(hk_liveness_lost(&line)); /* The holder itself does not see a loss. */
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void child_renews(void)
{
    hk_liveness_renew(&line);
    assert_false(hk_liveness_lost(&line));
    hk_liveness_drop(&line);
    assert_false(hk_liveness_lost(&line));
}

static void child_forgets(void)
{
    hk_liveness_forget(&line);
    assert_false(hk_liveness_lost(&line));
}

static void forked(void (*body)(void))
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void *lives_and_forks(void *unused)
{
    hk_liveness_take(&line);
    forked(child_renews);
    assert_false(hk_liveness_lost(&line));
    return unused;
}

UNIT_TEST(not_torn_while_it_lives)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, lives, NULL), 0);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 1000; i++)
        assert_false(hk_liveness_lost(&line));
    forked(child_forgets);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    see_it_torn_once();
}

UNIT_TEST(of_a_thread_that_forks)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, lives_and_forks, NULL), 0);
    pthread_join(thread, NULL);
    see_it_torn_once();
}

/* In a fork child, the mutex belongs to the thread that forked. When that thread ends in the child, another thread of the child sees the loss. */
static void *sees_the_forker_end(void *unused)
{
    for (int waits = 0; waits < 12000 && !hk_liveness_lost(&line); waits++)
        usleep(5000);
    hk_liveness_drop(&line); /* Seeing the loss has made this thread the holder. */
    _exit(hk_liveness_lost(&line) ? 2 : 0);
    return unused;
}

static void *forks_and_ends_in_the_child(void *unused)
{
    pthread_t other;
    int status = -1;
    hk_liveness_take(&line);
    pid_t child = fork();
    if (child == 0) {
        alarm(50); /* If no loss is seen, the alarm ends the child. */
        hk_liveness_renew(&line);
        pthread_create(&other, NULL, sees_the_forker_end, NULL);
        pthread_exit(NULL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return unused;
}

UNIT_TEST(torn_in_a_child)
{
    pthread_t thread;
    if (UNIT_UNDER_TSAN)
        return; /* The sanitizer allows no thread in a fork child of a process with threads. */
    assert_int_equal(pthread_create(&thread, NULL, forks_and_ends_in_the_child, NULL), 0);
    pthread_join(thread, NULL);
}

#ifndef __SANITIZE_THREAD__
static atomic_bool drops_now;

/* Stands before the C library's function. If drops_now is set, another thread drops the mutex just before this call. */
int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    int (*real)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    if (atomic_load(&drops_now)) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    return real(mutex);
}

static void *drops_when_asked(void *unused)
{
    hk_liveness_take(&line);
    atomic_store(&drops_now, true);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* The other thread has loaded xtaken, and is about to try the mutex. */
    atomic_store(&drops_now, false);
    hk_liveness_drop(&line);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void mutex_is_free(void *unused)
{
    (void)unused;
    assert_int_equal(pthread_mutex_trylock(&line.mutex), 0);
    assert_int_equal(pthread_mutex_unlock(&line.mutex), 0);
}

/* A thread that asks for a loss does not keep a mutex that was dropped meanwhile, because the next thread initializes the mutex. */
UNIT_TEST(dropped_while_another_asks)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, drops_when_asked, NULL), 0);
    pthread_barrier_wait(&barrier);
    assert_false(hk_liveness_lost(&line));
    pthread_join(thread, NULL);
    unit_in_thread(mutex_is_free, NULL);
    unit_in_thread(take, NULL);
    see_it_torn_once();
}
#else
UNIT_TEST(dropped_while_another_asks) {} /* The sanitizer stands before the function itself. */
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torn_by_the_end),         cmocka_unit_test(not_torn_when_dropped),
        cmocka_unit_test(not_torn_while_it_lives), cmocka_unit_test(of_a_thread_that_forks),
        cmocka_unit_test(torn_in_a_child),         cmocka_unit_test(dropped_while_another_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
