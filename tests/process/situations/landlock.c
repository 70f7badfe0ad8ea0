/* Usage: test_landlock
 * Tests a process that landlock has cut off from the file system. The process must allocate, free, trim and start threads as before, open no file,
 * and end normally, even if all reports are requested. */
#include "blocks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, HELD = 300, THREADS = 8 };

/* Forbids every access that the first version of landlock can forbid. Returns false if the kernel has no landlock. */
static bool shut_in(void)
{
    struct landlock_ruleset_attr all = {.handled_access_fs = (1 << 13) - 1};
    long rules = syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    if (rules < 0) {
        return false;
    }
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "errno %d", errno);
    CHECK(syscall(SYS_landlock_restrict_self, rules, 0) == 0, "errno %d", errno);
    close((int)rules);
    return true;
}

static void *work(void *argument)
{
    static _Thread_local void *block[HELD];
    for (int round = 0; round < 3; round++) {
        blocks_allocate(block, HELD);
        blocks_free(block, HELD);
        malloc_trim(0);
    }
    check_thread_done();
    return argument;
}

int main(void)
{
    static void *block[HELD];
    pthread_t thread[THREADS];
    watchdog_start(60, "landlock");
    blocks_allocate(block, HELD);
    if (!shut_in()) {
        printf("landlock: the kernel has none (errno %d): skipped\n", errno);
        return SKIPPED;
    }
    CHECK(open("/proc/self/stat", O_RDONLY) < 0 && errno == EACCES, "files are shut off: errno %d", errno);
    blocks_free(block, HELD);
    for (size_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&thread[t], NULL, work, NULL) == 0, "thread");
    }
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    pid_t child = fork();
    if (child == 0) {
        work(NULL);
        exit(check_failures() != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "a child: 0x%x", (unsigned)status);
    return check_report("landlock");
}
