/* These scenarios allocate small, medium and large blocks with each function that allocates. */
#include "process/osfail/scenarios.h"

#include "hakmem.h"
#include "process/osfail/held.h"

enum { MOST = 4096 };
static struct held held[MOST];

static void get_all(enum held_call call, size_t align, size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++)
        held_get(&held[i], call, align, size);
    for (size_t i = 0; i < count; i++)
        held_put(&held[i]);
}

static void mallocs(size_t size, size_t count) { get_all(HELD_MALLOC, 16, size, count); }

/* In the second call, calloc reuses blocks that were written to. */
static void callocs(size_t size, size_t count)
{
    get_all(HELD_CALLOC, 16, size, count);
    get_all(HELD_CALLOC, 16, size, count);
}

static void memalign_64(size_t size, size_t count) { get_all(HELD_MEMALIGN, 64, size, count); }
static void memalign_4k(size_t size, size_t count) { get_all(HELD_MEMALIGN, 4096, size, count); }
static void memalign_64k(size_t size, size_t count) { get_all(HELD_MEMALIGN, 65536, size, count); }
static void memalign_128k(size_t size, size_t count) { get_all(HELD_MEMALIGN, 131072, size, count); }
static void memalign_2m(size_t size, size_t count) { get_all(HELD_MEMALIGN, 2097152, size, count); }
static void posix_memaligns(size_t size, size_t count) { get_all(HELD_POSIX_MEMALIGN, 256, size, count); }

static void vallocs(size_t size, size_t count)
{
    get_all(HELD_VALLOC, 4096, size, count);
    get_all(HELD_PVALLOC, 4096, size, count);
}

static void every_tier(size_t step, size_t count)
{
    size_t size = step;
    for (size_t i = 0; i < count; i++, size += size / 4 + 16)
        held_get(&held[i], HELD_MALLOC, 16, size);
    for (size_t i = count; i-- > 0;)
        held_put(&held[i]);
}

/* Frees every second block, so that holes remain, and allocates blocks in the holes. */
static void holes(size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++)
        held_get(&held[i], HELD_MALLOC, 16, size);
    for (size_t i = 0; i < count; i += 2)
        held_put(&held[i]);
    hak_malloc_trim(0);
    for (size_t i = 0; i < count; i += 2)
        held_get(&held[i], HELD_MALLOC, 16, size);
    for (size_t i = 0; i < count; i++)
        held_put(&held[i]);
}

const struct scenario scenarios_blocks[] = {
    {"malloc of 16", mallocs, 16, 3000, 0, 0},
    {"malloc of 48", mallocs, 48, 1500, 0, 0},
    {"malloc of 256", mallocs, 256, 600, 0, 0},
    {"malloc of 1024", mallocs, 1024, 300, 0, 0},
    {"malloc of 1280", mallocs, 1280, 200, 0, 0},
    {"malloc of 4096", mallocs, 4096, 100, 0, 0},
    {"malloc of 10240", mallocs, 10240, 60, 0, 0},
    {"malloc of 32768", mallocs, 32768, 40, 0, 0},
    {"malloc of 40960", mallocs, 40960, 20, 0, 0},
    {"malloc of 57344", mallocs, 57344, 20, 0, 0},
    {"malloc of 65536", mallocs, 65536, 20, 0, 0},
    {"malloc of 196608", mallocs, 196608, 24, 0, 0},
    {"malloc of 512 KiB", mallocs, 524288, 12, 0, 0},
    {"malloc of 1 MiB", mallocs, 1048576, 10, 0, 0},
    {"malloc of 1 MiB and a byte", mallocs, 1048577, 6, 0, 0},
    {"malloc of 2 MiB", mallocs, 2097152, 6, 0, 0},
    {"malloc of 9 MiB", mallocs, 9437184, 4, 0, 0},
    {"malloc of 33 MiB", mallocs, 34603008, 2, 0, 0},
    {"calloc of 16", callocs, 16, 1000, 0, 0},
    {"calloc of 4096", callocs, 4096, 40, 0, 0},
    {"calloc of 100000", callocs, 100000, 6, 0, 0},
    {"calloc of 1 MiB", callocs, 1048576, 3, 0, 0},
    {"calloc of 3 MiB", callocs, 3145728, 1, 0, 0},
    {"memalign to 64", memalign_64, 100, 300, 0, 0},
    {"memalign to 4 KiB", memalign_4k, 10, 60, 0, 0},
    {"memalign to 64 KiB", memalign_64k, 70000, 10, 0, 0},
    {"memalign to 128 KiB", memalign_128k, 1000, 6, 0, 0},
    {"memalign to 2 MiB", memalign_2m, 5242880, 3, 0, 0},
    {"posix_memalign", posix_memaligns, 3000, 50, 0, 0},
    {"valloc and pvalloc", vallocs, 5000, 30, 0, 0},
    {"every tier", every_tier, 1, 44, 0, 0},
    {"holes of 80", holes, 80, 2000, 0, 0},
    {"holes of 8 KiB", holes, 8192, 100, 0, 0},
    {"holes of 128 KiB", holes, 131072, 20, 0, 0},
    {NULL, NULL, 0, 0, 0, 0},
};
