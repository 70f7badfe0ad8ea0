/* Usage: test_excess large|medium|small|vectors
 * Tests that RSS falls at once after a program has freed most of its memory and makes no more calls. So no purge by age can help. */
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

enum { KIB = 1024, MIB = 1024 * KIB, TOTAL_MIB = 96, MOST_MIB = 32, MOST_BLOCKS = TOTAL_MIB * MIB / (4 * KIB) };

/* Allocates blocks of `least` to 4 * `least` bytes, TOTAL_MIB in total, and frees them. */
static void rise_and_fall(size_t least)
{
    static void *blocks[MOST_BLOCKS];
    size_t count = 0, bytes = 0;
    for (; bytes < (size_t)TOTAL_MIB * MIB; count++) {
        size_t size = least + count * 7919 % (least * 3);
        CHECK((blocks[count] = malloc(size)) != NULL, "%zu bytes", size);
        memset(blocks[count], 1, size);
        bytes += size;
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

static void grow_vectors(void)
{
    enum { VECTORS = 12 };
    char *vectors[VECTORS];
    for (unsigned i = 0; i < VECTORS; i++) {
        vectors[i] = NULL;
        for (size_t size = 64; size <= TOTAL_MIB / VECTORS * MIB; size *= 2) {
            vectors[i] = realloc(vectors[i], size);
            CHECK(vectors[i] != NULL, "%zu bytes", size);
            memset(vectors[i] + size / 2, 1, size / 2);
        }
    }
    for (unsigned i = 0; i < VECTORS; i++)
        free(vectors[i]);
}

int main(int argc, char **argv)
{
    watchdog_start(60, "excess");
    free(malloc(1));
    size_t base_kib = procinfo_rss_kib();
    const char *what = argc > 1 ? argv[1] : "large";
    if (strcmp(what, "large") == 0)
        rise_and_fall(2 * MIB);
    else if (strcmp(what, "medium") == 0)
        rise_and_fall(64 * KIB);
    else if (strcmp(what, "small") == 0)
        rise_and_fall(4 * KIB);
    else
        grow_vectors();
    size_t kib = procinfo_rss_kib() - base_kib;
    CHECK(kib <= MOST_MIB * KIB, "%s: %zu KiB of %d MiB are still resident", what, kib, TOTAL_MIB);
    return check_report("excess");
}
