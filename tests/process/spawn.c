/* Usage: test_spawn [rounds]
 * Tests vfork with exec, posix_spawn, system and popen while other threads allocate. */
#include "support/again.h"
#include "support/check.h"
#include "support/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 2, CHILD_STATUS = 7 };

static atomic_bool x_stop;

static void *never_stop(void *argument)
{
    for (size_t i = 0; !atomic_load(&x_stop); i++) {
        char *p = malloc(i % 5000 + 1);
        CHECK(p != NULL, "malloc");
        p[0] = 1;
        p = realloc(p, i % 70000 + 1);
        CHECK(p != NULL, "realloc");
        free(p);
    }
    check_thread_done();
    return argument;
}

static void expect(pid_t pid, const char *how)
{
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "%s: errno %d", how, errno);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_STATUS, "%s: wait status 0x%x", how, (unsigned)status);
}

static void one_round(unsigned round)
{
    char number[16];
    struct again self;
    char **words = again(&self, "child", number, NULL);
    snprintf(number, sizeof number, "%u", round);

    pid_t pid = vfork();
    if (pid == 0) {
        execve(words[0], words, environ);
        _exit(126);
    }
    expect(pid, "vfork");

    pid = vfork();
    if (pid == 0) {
        _exit(CHILD_STATUS); /* The child ends without exec. */
    }
    expect(pid, "vfork without exec");

    int error = posix_spawn(&pid, words[0], NULL, NULL, words, environ);
    CHECK(error == 0, "posix_spawn: %d", error);
    expect(pid, "posix_spawn");

    /* Under an emulator the shell is still a native program. Its loader cannot preload the library, and would write a message about this to
     * stderr. */
    fcntl(STDERR_FILENO, F_SETFD, FD_CLOEXEC);
    int status = system("exit 7");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_STATUS, "system: 0x%x", (unsigned)status);

    FILE *stream = popen("echo through a pipe", "r");
    char line[64] = "";
    CHECK(stream && fgets(line, sizeof line, stream) && strcmp(line, "through a pipe\n") == 0, "popen: '%s'", line);
    if (stream) {
        CHECK(pclose(stream) == 0, "pclose");
    }
    fcntl(STDERR_FILENO, F_SETFD, 0);
}

static int child(void)
{
    void *block[100];
    for (size_t i = 0; i < 100; i++) {
        block[i] = malloc(i * 1000);
        if (!block[i]) {
            return 1;
        }
    }
    for (size_t i = 0; i < 100; i++) {
        free(block[i]);
    }
    return CHILD_STATUS;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        return child();
    }
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 50;
    pthread_t thread[THREADS];
    watchdog_start(120, "spawn");
    for (size_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&thread[t], NULL, never_stop, NULL) == 0, "thread");
    }
    for (unsigned round = 0; round < rounds; round++) {
        one_round(round);
    }
    atomic_store(&x_stop, true);
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    return check_report("spawn");
}
