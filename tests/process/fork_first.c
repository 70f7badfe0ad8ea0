/* Usage: test_fork_first [rounds]
 * Tests fork during the first malloc of a thread, and of a process. Neither the parent nor the child may hang or lose its heap.
 * Each round is a new process. One of its threads makes the first malloc at a moment that the main thread cannot know. */
#include "support/again.h"
#include "support/check.h"
#include "support/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 8, SECONDS = 30, THREADS = 3 };

static atomic_uint x_started;

static bool allocate_some(void)
{
    static const size_t size[] = {8, 100, 1000, 10000, 100000, 2000000};
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        char *p = malloc(size[i]);
        if (!p) {
            return false;
        }
        memset(p, 1, size[i]);
        free(p);
    }
    return true;
}

static void *first_malloc(void *argument)
{
    atomic_fetch_add(&x_started, 1);
    return allocate_some() ? argument : NULL;
}

/* Runs in the new process, and forks while threads allocate. Before the first fork it waits for a time that differs in each round. */
static int one_round(unsigned round)
{
    pthread_t thread[THREADS];
    bool good = true;
    watchdog_start(SECONDS, "fork against the first malloc: parent");
    for (unsigned t = 0; t < THREADS; t++) {
        good = good && pthread_create(&thread[t], NULL, first_malloc, &x_started) == 0;
    }
    while (atomic_load(&x_started) < round % (THREADS + 1)) {
        /* The loop does not sleep, so that it ends when a thread is about to allocate. */
    }
    for (volatile unsigned turn = 0; turn < round * 37 % 5000; turn++) {}
    for (unsigned n = 0; n < FORKS; n++) {
        pid_t pid = fork();
        if (pid == 0) {
            watchdog_start(SECONDS, "fork against the first malloc: child");
            _exit(allocate_some() ? 0 : 1);
        }
        int status = -1;
        good = good && pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    }
    for (unsigned t = 0; t < THREADS; t++) {
        void *result = NULL;
        good = good && pthread_join(thread[t], &result) == 0 && result;
    }
    return good && allocate_some() ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "round") == 0) {
        return one_round((unsigned)atoi(argv[2]));
    }
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1000;
    char number[] = "0000000000";
    for (unsigned round = 0; round < rounds; round++) {
        watchdog_start(2 * SECONDS, "fork against the first malloc");
        for (unsigned digit = 10, rest = round; digit-- > 0; rest /= 10) {
            number[digit] = (char)('0' + rest % 10);
        }
        struct again self;
        char **words = again(&self, "round", number, NULL);
        pid_t pid = fork();
        if (pid == 0) {
            execv(words[0], words);
            _exit(126);
        }
        int status = -1;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "fork: errno %d", errno);
        CHECK(status == 0, "round %u: wait status 0x%x", round, (unsigned)status);
    }
    return check_report("fork first");
}
