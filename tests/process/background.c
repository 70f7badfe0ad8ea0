/* Usage: test_background thread|forks|vfork|last
 * Tests the background thread, which purges memory while the program is idle (HAKMEM_BACKGROUND=1).
 *   thread  the background thread exists once the heap is large enough, has a name, and blocks all signals
 *   forks   a fork child has no background thread until the child allocates; 1,000 forks from a busy process must not hang
 *   vfork   a vfork child does not create a background thread
 *   last    the background thread does not keep the process alive after all other threads have ended */
#include "support/chain.h"
#include "support/check.h"
#include "support/tasks.h"
#include "support/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 1000, BLOCK = 100, WORTH = 16 << 20, BAD_CHILD = 3 };

static void test_thread(void)
{
    chain_drop(chain_grow(1 << 20, BLOCK));
    CHECK(tasks_count() == 1, "%u threads for a small heap", tasks_count());
    void *list = chain_grow(WORTH, BLOCK);
    CHECK(tasks_has_ours(1), "%u threads", tasks_of(0).threads);
    struct tasks found = tasks_of(0);
    CHECK(found.threads == 2 && found.ours == 1, "%u threads, %u ours", found.threads, found.ours);
    for (int number = 1; number <= 64; number++) {
        bool blocked = found.blocked >> (number - 1) & 1;
        bool never = number == SIGKILL || number == SIGSTOP || (number >= 32 && number < SIGRTMIN);
        CHECK(blocked || never, "signal %d is not blocked in it", number);
    }
    sigset_t mine;
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    CHECK(!sigismember(&mine, SIGTERM), "the program's own mask has changed");
    chain_drop(list);
}

_Noreturn static void child(unsigned number)
{
    watchdog_start(30, "a child");
    bool good = tasks_count() == 1;
    if (number % 50 == 0) {
        void *list = chain_grow(4 * BLOCK * 64, BLOCK);
        good = good && tasks_has_ours(1);
        chain_drop(list);
    }
    _exit(good ? 0 : BAD_CHILD);
}

static atomic_bool x_stop;

static void *churn(void *unused)
{
    while (!atomic_load(&x_stop)) {
        chain_drop(chain_grow(1 << 20, BLOCK));
    }
    return unused;
}

static void test_forks(void)
{
    pthread_t thread;
    chain_drop(chain_grow(WORTH, BLOCK));
    CHECK(tasks_has_ours(1) || tasks_of(0).ours == 1, "no thread to begin with");
    CHECK(pthread_create(&thread, NULL, churn, NULL) == 0, "thread");
    for (unsigned n = 0; n < FORKS; n++) {
        watchdog_start(60, "a fork");
        pid_t pid = fork();
        if (pid == 0) {
            child(n);
        }
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child %u: wait status 0x%x", n, (unsigned)status);
    }
    atomic_store(&x_stop, true);
    pthread_join(thread, NULL);
    CHECK(tasks_of(0).ours == 1, "%u threads are ours at the end", tasks_of(0).ours);
}

static void test_vfork(void)
{
    static volatile unsigned threads;
    static void *volatile list;
    pid_t pid = vfork();
    if (pid == 0) {
        list = chain_grow(WORTH, BLOCK);
        threads = tasks_count();
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "wait status 0x%x", (unsigned)status);
    CHECK(threads == 1, "%u threads in the vfork child", threads);
    list = (chain_drop(list), chain_grow(WORTH, BLOCK));
    CHECK(tasks_has_ours(1), "none in the parent");
    chain_drop(list);
}

/* Ends the main thread, which is the program's last. The process must then end with status 0. If it does not, the watchdog ends it. */
static void test_last(void)
{
    chain_drop(chain_grow(WORTH, BLOCK));
    CHECK(tasks_has_ours(1), "no thread");
    if (check_report("background") == 0) {
        pthread_exit(NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(void);
    } tests[] = {{"thread", test_thread}, {"forks", test_forks}, {"vfork", test_vfork}, {"last", test_last}};
    watchdog_start(60, argc > 1 ? argv[1] : "background");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) == 0) {
            tests[i].test();
        }
    }
    return check_report("background");
}
