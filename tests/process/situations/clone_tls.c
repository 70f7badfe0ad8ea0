/* Usage: test_clone_tls
 * Tests clone() without CLONE_SETTLS, as in old runtimes and sandboxes. The child has the parent's memory and thread pointer, so it uses the
 * parent's thread cache while the parent waits. The child allocates and frees blocks. Then the parent and the child use blocks of each other. */
#include "blocks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

enum { HELD = 300, ROUNDS = 12, STACK = 256 << 10 };

static void *of_parent[HELD], *of_child[HELD];

static int child(void *unused)
{
    (void)unused;
    blocks_check(of_parent, HELD);
    blocks_free(of_parent, HELD);
    blocks_allocate(of_child, HELD);
    return 7;
}

static void one_round(char *stack, int flags)
{
    blocks_allocate(of_parent, HELD);
    pid_t pid = clone(child, stack + STACK, flags, NULL);
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, __WALL) == pid, "errno %d", errno);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "wait status 0x%x", (unsigned)status);
    blocks_free(of_child, HELD);
}

int main(void)
{
    static const int flags[] = {
        CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD,
        CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND,
        CLONE_VM | CLONE_VFORK | SIGCHLD,
    };
    watchdog_start(60, "clone without TLS");
    char *stack = malloc(STACK);
    for (int round = 0; round < ROUNDS; round++) {
        one_round(stack, flags[round % 3]);
    }
    free(stack);
    return check_report("clone without TLS");
}
