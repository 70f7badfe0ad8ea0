/* Usage: test_abort_handler
 * Tests that a handler of SIGABRT can allocate, as crash reporters do. The handler must get memory although HAKMEM holds some of its own locks
 * when it aborts the program. */
#include "support/check.h"
#include "support/watchdog.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAID = 42 };

static void *volatile again;

static void on_abort(int number)
{
    static const size_t sizes[] = {24, 1000, 40000, 500000, 3 << 20, 5 << 20};
    (void)number;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *p = malloc(sizes[i]);
        if (p == NULL) {
            _exit(1);
        }
        memset(p, 1, sizes[i]);
        free(p);
    }
    _exit(SAID);
}

/* Frees a large block twice. HAKMEM finds this mistake while it holds the lock of large blocks. */
static void free_large_twice(void)
{
    again = malloc(3 << 20);
    free(again);
    free(again);
}

/* Frees a small block twice. HAKMEM finds this mistake at a flush, while it holds a lock of slabs. */
static void free_small_twice(void)
{
    void *block[3000];
    for (int i = 0; i < 3000; i++) {
        block[i] = malloc(24);
    }
    again = block[0];
    for (int i = 0; i < 3000; i++) {
        free(block[i]);
    }
    free(again);
    exit(malloc_trim(0) < 0);
}

static void aborts(const char *what, void (*mistake)(void))
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, on_abort);
        alarm(30);
        mistake();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == SAID, "%s: wait status 0x%x", what, (unsigned)status);
}

int main(void)
{
    watchdog_start(100, "handlers of SIGABRT");
    aborts("a large block twice", free_large_twice);
    aborts("a small block twice", free_small_twice);
    watchdog_stop();
    return check_report("abort_handler");
}
