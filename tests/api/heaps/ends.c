/* Usage: test_heap_ends [MiB]
 * Tests the destruction and the reset of a heap that has 1 GiB of small blocks. Stub functions count the system calls that map, unmap or advise.
 * There must be few of these calls, and all memory must return to the system. */
#include <stdio.h>
#include <stdlib.h>

#include "hakmem.h"
#include "support/check.h"
#include "unit/fake_os.h"

enum { KIB = 1024, BLOCK = 1000 };

static void fill(hak_heap_t *heap, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 1024) {
        CHECK(hak_heap_malloc(heap, BLOCK) != NULL, "at %zu", at);
    }
}

int main(int argc, char **argv)
{
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1024) * KIB * KIB;
    fake_os_reset();
    hak_heap_t *heap = hak_heap_create("large", 0);
    for (int round = 0; round < 3; round++) {
        struct hak_heap_stats stats;
        fill(heap, bytes);
        CHECK(hak_heap_get_stats(heap, &stats, sizeof stats) == 0 && stats.physical >= bytes * 97 / 100, "%zu bytes",
              (size_t)stats.physical);
        uint64_t before = hk_load(fake_os.xtotal);
        CHECK((round < 2 ? hak_heap_reset(heap) : hak_heap_destroy(heap)) == 0, "end");
        uint64_t made = hk_load(fake_os.xtotal) - before;
        CHECK(made <= 4, "%zu system calls for %zu MiB", (size_t)made, bytes >> 20);
    }
    return check_report("ends");
}
