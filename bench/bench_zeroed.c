/* Measures calloc with large blocks of which only a part is used. There is one block at a time, and all blocks have the same size, so that the
 * allocator can serve each call with used memory.
 *   start_S  writes the first 16 KiB of the block
 *   tenth_S  writes the first tenth
 *   full_S   writes the whole block
 *   turns_S  writes one whole block, then the first 16 KiB of the next seven
 *   pages_X  does the same as X with mmap and munmap, which shows the cost of new pages
 * The first and the last byte are read each time. One operation is a calloc and a free. */
#include "bench_patterns.h"

#define LINE 64u
#define START (16u << 10)
#define MIB (1u << 20)

typedef struct use {
    bool mapped;
    unsigned part;     /* the first 1/part of the block is written, or 16 KiB if `part` is 0 */
    unsigned again_in; /* if not 0, `part` holds for one block in so many; 16 KiB of the others are written */
} use;

static uint64_t run(const bench_pattern *p, uint64_t n, bench_calls *calls)
{
    const use *u = p->detail;
    for (uint64_t i = 0; i < n; i++) {
        bool start = u->part == 0 || (u->again_in != 0 && i % u->again_in != 0);
        size_t used = start ? START : p->size / u->part;
        char *block = bench_expect_zero(u->mapped ? bench_map(p->size) : calloc(1, p->size), p->size);
        for (size_t at = 0; at < used; at += LINE)
            ((volatile char *)block)[at] = 1;
        if (u->mapped)
            munmap(block, p->size);
        else
            free(block);
    }
    if (!u->mapped) {
        calls->mallocs += n;
        calls->frees += n;
    }
    return n;
}

static const use start = {false, 0, 0}, tenth = {false, 10, 0}, full = {false, 1, 0}, turns = {false, 1, 8};
static const use pages_start = {true, 0, 0}, pages_tenth = {true, 10, 0}, pages_full = {true, 1, 0},
                 pages_turns = {true, 1, 8};

#define OF_SIZE(name, size)                                                                                            \
    {"start_" name, run, 100, size, &start}, {"tenth_" name, run, 2000, size, &tenth},                                 \
        {"full_" name, run, 20000, size, &full}, {"turns_" name, run, 4000, size, &turns},                             \
        {"pages_start_" name, run, 100, size, &pages_start}, {"pages_tenth_" name, run, 2000, size, &pages_tenth},     \
        {"pages_full_" name, run, 20000, size, &pages_full}, {"pages_turns_" name, run, 4000, size, &pages_turns},

static const bench_pattern patterns[] = {OF_SIZE("2m", 2 * MIB) OF_SIZE("16m", 16 * MIB) OF_SIZE("80m", 80 * MIB)};

int main(int argc, char **argv)
{
    return bench_patterns_main(argc, argv, (bench_patterns){patterns, sizeof patterns / sizeof *patterns, 400000});
}
