/* Usage: test_break_moves
 * Tests a program that moves the program break up and down while it uses malloc. The data that the program keeps in the break heap must stay
 * intact. malloc must not need the break, and must not use memory that the program has released by moving the break down. */
#include "blocks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELD = 200, ROUNDS = 12, STEP = 300000 };

/* Frees the pointer in a child. Returns the child's wait status. */
static int freed_in_child(void *p)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        free(p);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child, "errno %d", errno);
    return status;
}

/* Checks HAKMEM's rule for foreign pointers (docs/FREE.md). A free of a pointer into the break heap must do nothing. */
static void foreign_rule(char *own)
{
    CHECK(freed_in_child(own) == 0, "a pointer below the break is left alone");
    CHECK(WIFSIGNALED(freed_in_child((char *)sbrk(0) + (1 << 20))), "what lies beyond the break is nobody's");
    pattern_fill(own, 2000, 1);
    free(own);
    CHECK(pattern_holds(own, 2000, 1), "free has not touched it");
    char *moved = realloc(own, 3000);
    CHECK(moved && moved != own && pattern_holds(moved, 2000, 1), "realloc copies it");
    CHECK(pattern_holds(own, 2000, 1), "and leaves it as it was");
    free(moved);
}

int main(void)
{
    static void *block[HELD];
    watchdog_start(60, "break moves");
    blocks_allocate(block, HELD);
    char *bottom = sbrk(STEP);
    CHECK(bottom != (void *)-1, "errno %d", errno);
    pattern_fill(bottom, STEP, 77);
    for (size_t round = 0; round < ROUNDS; round++) {
        char *own = sbrk(STEP);
        CHECK(own != (void *)-1, "errno %d", errno);
        pattern_fill(own, STEP, round);
        blocks_free(block, HELD);
        blocks_allocate(block, HELD);
        CHECK(pattern_holds(own, STEP, round), "round %zu: what the program keeps at the break", round);
        /* Moves the break down only if no other code has moved it since, because glibc's malloc moves it too. */
        if (sbrk(0) == own + STEP) {
            CHECK(sbrk(-STEP) != (void *)-1, "errno %d", errno);
        }
        CHECK(!check_on_hakmem() || sbrk(0) == own, "round %zu: the break was moved by malloc", round);
    }
    CHECK(pattern_holds(bottom, STEP, 77), "what the program keeps below");
    if (check_on_hakmem()) {
        foreign_rule(bottom + 4096);
    }
    blocks_free(block, HELD);
    return check_report("break moves");
}
