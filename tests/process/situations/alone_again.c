/* Usage: test_alone_again unshare|setns|fork|daemon
 * Tests programs that have one thread again, because their other threads have ended and were joined. The system allows some calls only to a
 * process of one thread. No thread of HAKMEM may therefore remain, however much memory the threads freed.
 *   unshare  creates a user namespace of its own
 *   setns    enters the process's own mount namespace again
 *   fork     creates a user namespace in a child
 *   daemon   creates a user namespace after daemon() */
#include "support/check.h"
#include "support/tasks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, ROUNDS = 20, THREADS = 3, BLOCK = 4000, HEAP = 64 << 20, BLOCKS = HEAP / BLOCK };

static pthread_barrier_t begun;

static void *work(void *argument)
{
    static void *blocks[THREADS][BLOCKS / THREADS];
    void **mine = blocks[(size_t)argument];
    pthread_barrier_wait(&begun);
    for (size_t i = 0; i < BLOCKS / THREADS; i++) {
        mine[i] = malloc(BLOCK);
        memset(mine[i], 1, BLOCK);
    }
    pthread_barrier_wait(&begun);
    for (size_t i = 0; i < BLOCKS / THREADS; i++) {
        free(mine[i]);
    }
    pthread_barrier_wait(&begun);
    return NULL;
}

/* Returns whether HAKMEM had a thread while the program's threads ran. */
static bool run_threads(void)
{
    pthread_t thread[THREADS];
    pthread_barrier_init(&begun, NULL, THREADS + 1);
    for (size_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&thread[t], NULL, work, (void *)t) == 0, "thread");
    }
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&begun);
    bool seen = tasks_of(0).threads > THREADS + 1;
    pthread_barrier_wait(&begun);
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    return seen;
}

static int new_user(void) { return unshare(CLONE_NEWUSER) == 0 ? 0 : errno; }

static int same_mounts(void)
{
    int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    int error = fd < 0 ? errno : setns(fd, CLONE_NEWNS) == 0 ? 0 : errno;
    close(fd);
    return error;
}

static int of_child(int (*act)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        watchdog_start(60, "a child");
        _exit(act());
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "wait status 0x%x", (unsigned)status);
    return WEXITSTATUS(status);
}

static int answer[2];

static int become_daemon(void)
{
    int result = daemon(1, 1) == 0 ? new_user() : errno;
    return write(answer[1], &result, sizeof result) == sizeof result ? 0 : errno;
}

static int by_daemon(void)
{
    int error = -1;
    CHECK(pipe(answer) == 0, "errno %d", errno);
    of_child(become_daemon);
    CHECK(read(answer[0], &error, sizeof error) == sizeof error, "no answer");
    close(answer[0]);
    close(answer[1]);
    return error;
}

static int by_fork(void) { return of_child(new_user); }

/* Runs one round in a child, because a process that has changed its namespaces cannot be tested again. */
static int in_child(int (*act)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        watchdog_start(60, "a round");
        bool seen = run_threads();
        CHECK(seen || !check_on_hakmem(), "no thread of HAKMEM's to begin with");
        (void)tasks_alone();
        int error = act();
        CHECK(error == 0, "errno %d, %u threads", error, tasks_count());
        _exit(check_failures() != 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "wait status 0x%x", (unsigned)status);
    return status;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*act)(void);
    } acts[] = {{"unshare", new_user}, {"setns", same_mounts}, {"fork", by_fork}, {"daemon", by_daemon}};
    watchdog_start(100, "alone_again");
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (argc < 2 || strcmp(argv[1], acts[i].name) != 0) {
            continue;
        }
        int error = of_child(i == 1 ? same_mounts : new_user);
        if (error != 0) {
            printf("%s: the system does not let this process (errno %d): skipped\n", argv[1], error);
            return SKIPPED;
        }
        for (int round = 0; round < ROUNDS; round++) {
            in_child(acts[i].act);
        }
    }
    return check_report("alone_again");
}
