/* Usage: test_vma_exhaust [left]
 * Tests malloc in a process that has used up all but a few of the mappings that the kernel allows. malloc must still serve small and large blocks. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/procinfo.h"
#include "support/rng.h"
#include "support/watchdog.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, SKIPPED = 77, BLOCKS = 20000, STEPS = 400000 };

/* Splits one range into `wanted` mappings, and returns how many it made. Every second page gets other rights, so that no mappings merge. */
static size_t take_mappings(size_t wanted)
{
    size_t bytes = wanted * PAGE;
    unsigned char *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return 0;
    }
    size_t taken = 1;
    for (size_t page = 1; page < wanted && taken + 2 <= wanted; page += 2) {
        if (mprotect(base + page * PAGE, PAGE, PROT_READ) != 0) {
            break;
        }
        taken += 2;
    }
    return taken;
}

static size_t draw_size(struct rng *rng)
{
    uint32_t draw = rng_below(rng, 1000);
    return draw < 2 ? 1 + rng_below(rng, 3u << 20) : draw < 30 ? 1 + rng_below(rng, 200000) : 1 + rng_below(rng, 2000);
}

int main(int argc, char **argv)
{
    static void *block[BLOCKS];
    static size_t size[BLOCKS];
    struct rng rng = rng_seeded(65400);
    size_t left = argc > 1 ? strtoul(argv[1], NULL, 10) : 130;
    size_t allowed = procinfo_max_map_count();
    if (allowed > 1000000) {
        printf("vma exhaust: max_map_count is %zu: too many to take\n", allowed);
        return SKIPPED;
    }
    watchdog_start(120, "vma exhaust");
    size_t taken = take_mappings(allowed - procinfo_mappings() - left);
    size_t before = procinfo_mappings();
    CHECK(taken > 0 && before + left + 16 >= allowed, "%zu mappings of %zu taken", before, allowed);
    size_t refused = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t slot = rng_below(&rng, BLOCKS);
        if (block[slot]) {
            CHECK(pattern_holds(block[slot], size[slot], slot), "slot %u was changed", slot);
            free(block[slot]);
            block[slot] = NULL;
        } else {
            size[slot] = draw_size(&rng);
            block[slot] = malloc(size[slot]);
            refused += !block[slot];
            if (block[slot]) {
                pattern_fill(block[slot], size[slot], slot);
            }
        }
    }
    printf("vma exhaust: %zu mappings before, %zu after, of %zu; %zu requests refused\n", before, procinfo_mappings(),
           allowed, refused);
    fflush(stdout);
    CHECK(refused == 0, "%zu requests refused", refused);
    for (size_t i = 0; i < BLOCKS; i++) {
        free(block[i]);
    }
    return check_report("vma exhaust");
}
