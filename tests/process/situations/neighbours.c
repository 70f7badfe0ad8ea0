/* Usage: test_neighbours
 * Tests a program that maps its own regions directly beside the heap, at addresses of its choice. These regions lie below and above each mapping
 * of the heap, and at the address where the heap would grow next. The program and the heap must both keep their memory. */
#include "areas.h"
#include "blocks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { HELD = 600, GROWN = 1200, REGIONS = 600, PAGE = 4096, ROUNDS = 3, WIDEST = 64 << 20 };

static struct region {
    char *start;
    size_t size;
} region[REGIONS];
static size_t regions;

static void take(uintptr_t start, size_t size)
{
    if (regions == REGIONS || start < (1 << 20)) {
        return;
    }
    void *got = mmap((void *)start, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) {
        return; /* MAP_FIXED_NOREPLACE fails if the place is in use, which is no failure of the test. */
    }
    region[regions] = (struct region){got, size};
    pattern_fill(got, PAGE, regions);
    pattern_fill((char *)got + size - PAGE, PAGE, regions);
    regions++;
}

/* Fills the gaps above and below every private mapping. Maps a page at each edge of a gap or, if `wide` is true, the whole gap up to WIDEST. */
static void wall_in(bool wide)
{
    static struct area area[AREAS_MOST];
    size_t count = areas_read(area);
    for (size_t i = 0; i < count; i++) {
        uintptr_t below = i > 0 ? area[i - 1].end : 0, above = i + 1 < count ? area[i + 1].start : (uintptr_t)1 << 46;
        if (!area[i].private_to_us || !area[i].anonymous) {
            continue;
        }
        size_t gap_below = area[i].start - below, gap_above = above - area[i].end;
        size_t size_below = !wide ? PAGE : gap_below < WIDEST ? gap_below : WIDEST;
        size_t size_above = !wide ? PAGE : gap_above < WIDEST ? gap_above : WIDEST;
        if (gap_below >= PAGE) {
            take(area[i].start - size_below, size_below);
        }
        if (above > area[i].end && gap_above >= PAGE) {
            take(area[i].end, size_above);
        }
    }
}

static void regions_are_whole(void)
{
    for (size_t i = 0; i < regions; i++) {
        CHECK(pattern_holds(region[i].start, PAGE, i) &&
                  pattern_holds(region[i].start + region[i].size - PAGE, PAGE, i),
              "the program's region %zu at %p", i, (void *)region[i].start);
    }
}

/* Unmaps every second region, and maps it again at its old address. Maps the other regions again without an unmap. */
static void replace_some(void)
{
    for (size_t i = 0; i < regions; i++) {
        int more = i % 2 ? MAP_FIXED : MAP_FIXED_NOREPLACE;
        char *start = region[i].start;
        if (i % 2 == 0) {
            munmap(start, region[i].size);
        }
        void *got = mmap(start, region[i].size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | more, -1, 0);
        CHECK(got == start, "region %zu: errno %d", i, errno);
        pattern_fill(start, PAGE, i);
        pattern_fill(start + region[i].size - PAGE, PAGE, i);
    }
}

int main(void)
{
    static void *first[HELD], *later[GROWN];
    watchdog_start(60, "neighbours");
    blocks_allocate(first, HELD);
    for (int round = 0; round < ROUNDS; round++) {
        wall_in(round % 2 == 1);
        CHECK(regions > 0, "no region beside the heap could be had");
        regions_are_whole();
        blocks_allocate(later, GROWN);
        regions_are_whole();
        blocks_check(first, HELD);
        replace_some();
        blocks_check(later, GROWN);
        blocks_free(later, GROWN);
        malloc_trim(0);
        regions_are_whole();
    }
    blocks_free(first, HELD);
    for (size_t i = 0; i < regions; i++) {
        munmap(region[i].start, region[i].size);
    }
    return check_report("neighbours");
}
