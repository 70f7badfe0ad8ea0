/* Usage: test_beside one|small|beside|idle|forks|limit|users|exec
 * Tests HAKMEM's background thread with default options, in programs that have threads of their own.
 *   one     a program of one thread gets no background thread, however large its heap is
 *   small   a program with threads and a small heap gets no background thread either
 *   beside  a program with threads and a large heap gets a background thread, which ends when the program's last other thread has been joined
 *   idle    the background thread purges freed memory while all other threads sleep; then it sleeps too, without a timeout
 *   forks   a fork child has no background thread until the child creates threads itself
 *   limit   the background thread ends if the system would otherwise refuse the program a thread; if it is itself refused, no message appears
 *   users   the background thread changes its user together with all other threads
 *   exec    after exec the process runs another program, and has one thread */
#include "support/again.h"
#include "support/chain.h"
#include "support/check.h"
#include "support/procinfo.h"
#include "support/tasks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BLOCK = 1000,
    SMALL = 4 << 20,
    WORTH = 96 << 20,
    THREADS = 3,
    ROUNDS = 20,
    NOBODY = 65534,
    OWN_USERS = 1000000,
    FEW = 40,
    PATIENCE_MS = 30000
};

static pthread_barrier_t begun, over;

static void *wait_for_end(void *unused)
{
    free(malloc(BLOCK));
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&over);
    return unused;
}

static pthread_t thread[THREADS];

static void begin_threads(void)
{
    pthread_barrier_init(&begun, NULL, THREADS + 1);
    pthread_barrier_init(&over, NULL, THREADS + 1);
    for (int t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&thread[t], NULL, wait_for_end, NULL) == 0, "thread %d", t);
    }
    pthread_barrier_wait(&begun);
}

static void end_threads(void)
{
    pthread_barrier_wait(&over);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
}

static void test_one(void)
{
    void *list = chain_grow(WORTH, BLOCK);
    CHECK(tasks_count() == 1, "%u threads", tasks_count());
    chain_drop(list);
    sleep(1);
    CHECK(tasks_count() == 1, "%u threads", tasks_count());
}

static void test_small(void)
{
    begin_threads();
    chain_drop(chain_grow(SMALL, BLOCK));
    CHECK(tasks_count() == THREADS + 1, "%u threads", tasks_count());
    end_threads();
    CHECK(tasks_alone(), "%u threads", tasks_count());
}

static void check_deaf(unsigned long blocked)
{
    for (int number = 1; number <= 64; number++) {
        bool never = number == SIGKILL || number == SIGSTOP || (number >= 32 && number < SIGRTMIN);
        CHECK(blocked >> (number - 1) & 1 || never, "signal %d is not blocked in it", number);
    }
}

static void test_beside(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        void *early = round % 2 ? chain_grow(WORTH, BLOCK) : NULL;
        begin_threads();
        void *late = early ? NULL : chain_grow(WORTH, BLOCK);
        CHECK(tasks_has_ours(THREADS + 1), "round %d: %u threads", round, tasks_count());
        check_deaf(tasks_of(0).blocked);
        end_threads();
        CHECK(tasks_alone(), "round %d: %u threads at the end", round, tasks_count());
        chain_drop(early);
        chain_drop(late);
        usleep(100000); /* HAKMEM waits as long before it creates a thread again. */
    }
}

static bool can_tell_who_sleeps(void) { return access("/proc/self/syscall", R_OK) == 0; }

static bool fell_asleep(void)
{
    for (int i = 0; i < PATIENCE_MS && !tasks_of(0).asleep; i++) {
        usleep(1000);
    }
    return tasks_of(0).asleep;
}

static bool ran_again(unsigned long switches)
{
    for (int i = 0; i < PATIENCE_MS && tasks_of(0).switches == switches; i++) {
        usleep(1000);
    }
    return tasks_of(0).switches != switches;
}

static void test_idle(void)
{
    if (!can_tell_who_sleeps()) {
        exit(77);
    }
    begin_threads();
    size_t base = procinfo_rss_kib();
    void *list = chain_grow(WORTH, BLOCK);
    CHECK(tasks_has_ours(THREADS + 1), "%u threads", tasks_count());
    chain_drop(list);
    CHECK(fell_asleep(), "it does not sleep");
    CHECK(procinfo_rss_kib() < base + (WORTH >> 10) / 4, "%zu KiB, %zu at the beginning", procinfo_rss_kib(), base);
    unsigned long switches = tasks_of(0).switches;
    chain_drop(chain_grow(WORTH, BLOCK));
    CHECK(ran_again(switches), "it does not wake");
    end_threads();
}

_Noreturn static void child(void)
{
    watchdog_start(30, "a child");
    CHECK(tasks_count() == 1, "a child begins with %u threads", tasks_count());
    void *list = chain_grow(WORTH, BLOCK);
    CHECK(tasks_count() == 1, "a child of one thread has %u", tasks_count());
    begin_threads();
    chain_drop(chain_grow(WORTH, BLOCK));
    CHECK(tasks_has_ours(THREADS + 1), "a child with threads has %u", tasks_count());
    end_threads();
    CHECK(tasks_alone(), "%u threads at a child's end", tasks_count());
    chain_drop(list);
    _exit(check_failures() != 0);
}

static void test_forks(void)
{
    void *list = chain_grow(WORTH, BLOCK);
    begin_threads();
    CHECK(tasks_has_ours(THREADS + 1), "%u threads", tasks_count());
    for (int round = 0; round < ROUNDS; round++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0) {
            child();
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child %d: 0x%x", round, (unsigned)status);
    }
    end_threads();
    chain_drop(list);
}

static void *sleep_on(void *unused)
{
    pause();
    return unused;
}

/* Becomes a user that may have at most `most` threads. This user has no other process, so other tests that run at the same time do not count
 * against the limit. */
static void be_limited(unsigned most)
{
    struct rlimit few = {most, most};
    bool another =
        setrlimit(RLIMIT_NPROC, &few) == 0 && (setuid(OWN_USERS + (unsigned)getpid()) == 0 || setuid(NOBODY) == 0);
    CHECK(another, "errno %d", errno);
}

static unsigned threads_to_be_had(void)
{
    pthread_t last;
    unsigned made = 0;
    while (made < FEW && pthread_create(&last, NULL, sleep_on, NULL) == 0) {
        made++;
    }
    return made;
}

static void test_limit(void)
{
    if (getuid() != 0) {
        exit(77);
    }
    static void *volatile list;
    list = chain_grow(WORTH, BLOCK);
    be_limited(FEW / 2);
    unsigned made = threads_to_be_had();
    CHECK(made == FEW / 2 - 1, "%u threads of %d", made, FEW / 2);
    CHECK(tasks_of(0).ours == 0, "it has not given way");
    chain_drop(list);
    list = chain_grow(WORTH, BLOCK);
    CHECK(tasks_count() == FEW / 2, "%u threads", tasks_count());
}

static void test_users(void)
{
    if (getuid() != 0) {
        exit(77);
    }
    void *list = chain_grow(WORTH, BLOCK);
    begin_threads();
    CHECK(tasks_has_ours(THREADS + 1), "%u threads", tasks_count());
    CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0, "errno %d", errno);
    CHECK(geteuid() == NOBODY, "user %u", geteuid());
    chain_drop(list);
    chain_drop(chain_grow(WORTH, BLOCK));
    end_threads();
}

static void test_exec(void)
{
    void *list = chain_grow(WORTH, BLOCK);
    begin_threads();
    CHECK(tasks_has_ours(THREADS + 1), "%u threads", tasks_count());
    chain_drop(list);
    if (check_failures() == 0) {
        struct again self;
        char **words = again(&self, "one", NULL);
        execv(words[0], words);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(void);
    } tests[] = {{"one", test_one},     {"small", test_small}, {"beside", test_beside}, {"idle", test_idle},
                 {"forks", test_forks}, {"limit", test_limit}, {"users", test_users}};
    const char *part = argc > 1 ? argv[1] : "beside";
    watchdog_start(100, part);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (strcmp(part, tests[i].name) == 0) {
            tests[i].test();
        }
    }
    if (strcmp(part, "exec") == 0) {
        test_exec();
    }
    return check_report(part);
}
