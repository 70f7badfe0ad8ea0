/* This program reads names at its start into an index that doubles until it holds all names. Each sort leaks the head of its list. */
#include "run.h"

enum { NAMES = 20000, HEAD = 240, TAIL = 120 };

static char **names;
static void *last;

static __attribute__((noinline)) char *read_name(void) { return memset(malloc(60), 'n', 60); }

static void read_names(void)
{
    for (size_t count = 0, room = 0; count < NAMES; count++) {
        if (count == room)
            names = realloc(names, (room = room ? 2 * room : 16) * sizeof *names);
        names[count] = read_name();
    }
}

static __attribute__((noinline)) void *new_head(void) { return memset(malloc(HEAD), 'h', HEAD); /* LEAK */ }

static void sort(void)
{
    void *tails[16];
    last = new_head();
    for (unsigned i = 0; i < 16; i++)
        tails[i] = malloc(TAIL);
    for (unsigned i = 0; i < 16; i++)
        free(tails[i]);
}

int main(void)
{
    read_names();
    for (unsigned round = 0; round < ROUNDS; round++) {
        sort();
        work(30, 900);
        end_round();
    }
}
