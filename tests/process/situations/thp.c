/* Usage: test_thp never|always
 * Tests the heap with transparent huge pages.
 *   never   with PR_SET_THP_DISABLE the process must get no huge page, even if code advises them
 *   always  the program advises huge pages for all mappings of the heap at each step, which has the effect of the system's setting "always";
 *           HAKMEM must still purge freed memory */
#include "areas.h"
#include "blocks.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { SKIPPED = 77, MIXED = 500, SMALL = 40000, SMALL_SIZE = 2000, ROUNDS = 3, SPARE_KIB = 24 << 10, HUGE = 2 << 20 };

/* Advises huge pages for every mapping that may belong to the heap. Some of these mappings may belong to others, but the advice does no harm to
 * them. */
static void advise_all(void)
{
    static struct area area[AREAS_MOST];
    size_t count = areas_read(area);
    for (size_t i = 0; i < count; i++) {
        if (area[i].writable && area[i].private_to_us && area[i].anonymous) {
            madvise((void *)area[i].start, area[i].end - area[i].start, MADV_HUGEPAGE);
        }
    }
}

static void *mixed[MIXED], *small[SMALL];

/* Allocates and frees all blocks. Returns how many KiB were on huge pages while all blocks were in use. */
static size_t one_round(bool advised)
{
    blocks_allocate(mixed, MIXED);
    for (size_t i = 0; i < SMALL; i++) {
        if (advised && i % 2000 == 0) {
            advise_all();
        }
        small[i] = malloc(SMALL_SIZE);
        CHECK(small[i] != NULL, "block %zu", i);
        memset(small[i], 1, SMALL_SIZE);
    }
    size_t huge = areas_rollup_kib("AnonHugePages:");
    blocks_free(mixed, MIXED);
    for (size_t i = 0; i < SMALL; i++) {
        free(small[i]);
    }
    malloc_trim(0);
    return huge;
}

/* Returns whether this machine can give a huge page now. */
static bool has_huge_pages(void)
{
    char *two = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (two == MAP_FAILED || madvise(two, 2 * HUGE, MADV_HUGEPAGE) != 0) {
        return false;
    }
    memset(two, 1, 2 * HUGE);
    size_t seen = areas_rollup_kib("AnonHugePages:");
    munmap(two, 2 * HUGE);
    return seen != SIZE_MAX && seen > 0;
}

static void work(bool advised)
{
    size_t before = procinfo_rss_kib(), most = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t huge = one_round(advised);
        most = huge > most ? huge : most;
    }
    size_t after = procinfo_rss_kib();
    CHECK(after <= before + SPARE_KIB, "%zu KiB when all is freed, %zu before", after, before);
    if (advised && most == 0 && !has_huge_pages()) {
        printf("thp: no huge page is free any more: skipped\n");
        exit(SKIPPED);
    }
    if (advised) {
        CHECK(most > 0, "nothing ever was on huge pages: the test has seen nothing");
    } else {
        CHECK(most == 0, "%zu KiB on huge pages", most);
    }
}

int main(int argc, char **argv)
{
    watchdog_start(60, "thp");
    bool advised = argc == 2 && strcmp(argv[1], "always") == 0;
    if (!has_huge_pages()) {
        printf("thp: this machine gives no huge pages: skipped\n");
        return SKIPPED;
    }
    if (!advised && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) {
        printf("thp: no PR_SET_THP_DISABLE here: skipped\n");
        return SKIPPED;
    }
    work(advised);
    return check_report(advised ? "thp always" : "thp never");
}
