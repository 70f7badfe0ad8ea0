#include "unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/message.h"
#include "decay/decay.h"
#include "policy/options.h"
#include "runtime/lifecycle.h"

enum { SECONDS_A_TEST = 300 };

/* Prepares the child. A failed assertion prints its message and ends the child at once, because the child must not return to cmocka. */
static void become_child(void)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    alarm(SECONDS_A_TEST);
    fake_os_reset();
    hk_options.trace_remote = HK_TRACE_REMOTE_OFF; /* Only tests of the remote track turn this option on. */
}

/* Returns true if the variable TEST_MUST_FAIL lists the test. The lists are in tests/platform/everywhere. They name tests that depend on pages of
 * 4 KiB or on features that an emulator lacks. A listed test must fail, so that a name that is no longer needed in the list is reported. */
static bool must_fail(const char *name)
{
    const char *cases = getenv("TEST_MUST_FAIL");
    size_t length = strlen(name);
    for (const char *at = cases; at != NULL && (at = strstr(at, name)) != NULL; at += length)
        if ((at == cases || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return true;
    return false;
}

void unit_in_child(const char *name, void (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        become_child();
        body();
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (must_fail(name) && status == 0)
        fail_msg("%s: the lists in tests/platform/everywhere say that it fails here, and it does not", name);
    if (!must_fail(name) && status != 0)
        fail_msg("%s: the test's process ended with wait status 0x%x", name, (unsigned)status);
}

static size_t read_all(int fd, char *text, size_t room)
{
    size_t used = 0;
    for (ssize_t n; used < room - 1 && (n = read(fd, text + used, room - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = 0;
    return used;
}

void unit_dies(void (*action)(void *argument), void *argument, const char *expected)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        hk_stderr_begin(); /* HAKMEM treats the pipe as the process's first stderr */
        action(argument);
        _exit(0);
    }
    char text[4096];
    close(ends[1]);
    size_t used = read_all(ends[0], text, sizeof text);
    close(ends[0]);
    /* The emulator adds its own message about the abort. */
    char *emulator = strstr(text, "qemu: uncaught target signal");
    if (emulator != NULL)
        used = (size_t)(emulator - text), *emulator = 0;
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("no abort() but wait status 0x%x; stderr: %s", (unsigned)status, text);
    if (strstr(text, expected) == NULL || strncmp(text, "hakmem: ", 8) != 0)
        fail_msg("stderr says \"%s\", not \"%s\"", text, expected);
    if (used == 0 || strchr(text, '\n') != text + used - 1)
        fail_msg("not one line: %s", text);
}

void unit_start(void) { assert_non_null(hk_tcache_get()); }

void unit_keep_what_threads_leave(void) { hk_decay_left((size_t)1 << 40); }

struct hk_slab *unit_slab(unsigned class, uint32_t owner) { return hk_slab_make(class, owner, HK_USE_SPARSE); }

struct errand {
    void (*action)(void *argument);
    void *argument;
};

static void *run_errand(void *given)
{
    struct errand *errand = given;
    errand->action(errand->argument);
    return NULL;
}

void unit_in_thread(void (*action)(void *argument), void *argument)
{
    pthread_t thread;
    struct errand errand = {action, argument};
    assert_int_equal(pthread_create(&thread, NULL, run_errand, &errand), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    hk_tcaches_end_parked(true);
}

void unit_heap_holds(size_t live_blocks)
{
    static struct hk_heap_stats heap_stats;
    const char *wrong = heap_is_wrong(&heap_stats);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    assert_int_equal(heap_stats.sum.live_blocks, live_blocks);
}
