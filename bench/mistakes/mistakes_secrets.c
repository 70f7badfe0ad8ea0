/* Tests what an attacker can learn from the allocator or predict about it. These programs make no mistake. */
#include "mistake.h"

#include <spawn.h>
#include <sys/wait.h>

enum { BLOCKS = 16 };

extern char **environ;

/* Frees a block correctly. The effect is that the next allocation returns the same block. */
static void reused_by(size_t size, size_t next)
{
    deed d = {.p = take(size), .size = size};
    make_or(free_it, free_it, &d);
    void *p = take(next);
    effect(p == d.p && !sound());
    free(p);
}

void mistake_reuse_at_once(size_t size) { reused_by(size, size); }
void mistake_reuse_by_half(size_t size) { reused_by(size, size / 2); }
static void look_for_pointers(deed *d) { d->seen = held_pointers(); }

void mistake_heap_pointers(size_t size)
{
    deed d = {.size = size};
    hold_many(size);
    fill_held(0);
    release_every_other();
    other_calls(size, OTHER_CALLS);
    hold_many(size);
    make(look_for_pointers, &d);
    effect(d.seen != 0);
    release();
}

/* Runs in the child. Writes the addresses of some blocks to the pipe of the parent. */
static void tell_addresses(size_t size)
{
    uintptr_t where[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        where[i] = (uintptr_t)take(size);
    if (write(STDOUT_FILENO, where, sizeof where) != (ssize_t)sizeof where)
        _exit(1);
    _exit(0);
}

/* Runs this program again, because the addresses must come from a process whose allocator has served no other call. */
static bool addresses_of_a_run(const char *kind, size_t size, uintptr_t *where)
{
    int ends[2];
    char text[32], *words[] = {"mistake", (char *)(uintptr_t)kind, text, "once", NULL};
    snprintf(text, sizeof text, "%zu", size);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    pid_t child;
    int failed = posix_spawn(&child, "/proc/self/exe", &actions, NULL, words, environ);
    close(ends[1]);
    ssize_t got = failed ? 0 : read(ends[0], where, BLOCKS * sizeof *where);
    close(ends[0]);
    return !failed && waitpid(child, &failed, 0) == child && got == (ssize_t)(BLOCKS * sizeof *where);
}

/* Compares the addresses of the blocks in two runs. If `distances` is true, compares only their distances to the first block. */
static void compare_runs(const char *kind, size_t size, bool distances)
{
    if (getenv("MISTAKE_CHILD") != NULL)
        tell_addresses(size);
    uintptr_t first[BLOCKS], second[BLOCKS];
    setenv("MISTAKE_CHILD", "1", 1);
    if (!addresses_of_a_run(kind, size, first) || !addresses_of_a_run(kind, size, second))
        abort();
    deed d = {.size = size};
    make(NULL, &d);
    uintptr_t shift = distances ? second[0] - first[0] : 0;
    bool same = true;
    for (int i = 0; i < BLOCKS; i++)
        same &= second[i] - first[i] == shift;
    effect(same && !sound());
}

void mistake_same_addresses(size_t size) { compare_runs("same_addresses", size, false); }
void mistake_same_order(size_t size) { compare_runs("same_order", size, true); }

static bool is_executable(uintptr_t address)
{
    char line[512], right;
    uintptr_t low, high;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx %*c%*c%c", &low, &high, &right) == 3 && address >= low && address < high)
            found = right == 'x';
    }
    if (maps != NULL)
        fclose(maps);
    return found;
}

void mistake_executable_heap(size_t size)
{
    deed d = {.p = take(size), .size = size};
    make(NULL, &d);
    effect(is_executable((uintptr_t)d.p));
    free(d.p);
}
