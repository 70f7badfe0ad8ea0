/* Tests a heap on huge pages after most of its blocks were freed (S17). After malloc_trim, RSS must be at most 1.3 times the live bytes.
 * MADV_COLLAPSE does at once what the kernel does over time: it puts the heap on huge pages, before and after the free. After the trim it must
 * not make purged pages resident again. */
#include "support/check.h"
#include "support/procinfo.h"
#include "support/rng.h"
#include "support/watchdog.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { BLOCK = 512, COUNT = 393216, STRETCH = 32, FREED_PERCENT = 90, CANNOT_RUN = 77 };
#define HUGE ((uintptr_t)2 << 20)

static char **blocks;
static size_t base_kib, live;

/* Asks the kernel once for a huge page at each place that a block lies in. Returns the number of huge pages that the kernel made. */
static size_t collapse(void)
{
    static uintptr_t tried[1024];
    size_t count = 0, made = 0;
    for (size_t i = 0; i < COUNT; i++) {
        uintptr_t at = (uintptr_t)blocks[i] & ~(HUGE - 1);
        bool known = false;
        for (size_t t = count; t > 0 && !known; t--) {
            known = tried[t - 1] == at;
        }
        if (!known && count < 1024) {
            tried[count++] = at;
            made += madvise((void *)at, HUGE, MADV_COLLAPSE) == 0;
        }
    }
    return made;
}

static size_t heap_kib(void) { return procinfo_rss_kib() - base_kib; }

static void expect_lean(const char *when)
{
    printf("%s: %zu KiB resident, %zu live\n", when, heap_kib(), live / 1024);
    CHECK(heap_kib() * 1024 * 10 <= live * 13, "%s: %zu KiB resident for %zu KiB live", when, heap_kib(), live / 1024);
}

int main(void)
{
    struct rng rng = rng_seeded(5);
    bool dies = false;
    watchdog_start(120, "the huge heap");
    blocks =
        mmap(NULL, COUNT * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    base_kib = procinfo_rss_kib();
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = malloc(BLOCK);
        memset(blocks[i], 1, BLOCK);
    }
    if (collapse() < COUNT / 4096 / 2) {
        printf("no huge pages to be had here: errno %d\n", errno);
        return CANNOT_RUN;
    }
    for (size_t i = 0; i < COUNT; i++) {
        dies = i % STRETCH ? dies : rng_below(&rng, 100) < FREED_PERCENT;
        live += dies ? 0 : malloc_usable_size(blocks[i]);
        if (dies) {
            free(blocks[i]);
        }
    }
    collapse();
    size_t whole = heap_kib();
    CHECK(whole * 1024 > live * 5, "%zu KiB resident before the trim", whole);
    malloc_trim(0);
    expect_lean("after a trim");
    collapse();
    expect_lean("after huge pages were asked for again");
    return check_report("huge");
}
