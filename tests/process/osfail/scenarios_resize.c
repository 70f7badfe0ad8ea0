/* These scenarios call realloc to grow and shrink blocks, in place, between small, medium and large sizes, and side by side. */
#include "process/osfail/scenarios.h"

#include <errno.h>
#include <stdint.h>

#include "hakmem.h"
#include "process/osfail/held.h"
#include "support/check.h"

static void up(size_t from, size_t to)
{
    struct held held;
    if (!held_get(&held, HELD_MALLOC, 16, from))
        return;
    for (size_t size = from; size < to; size += size / 2)
        held_resize(&held, size);
    held_put(&held);
}

static void down(size_t from, size_t to)
{
    struct held held;
    if (!held_get(&held, HELD_MALLOC, 16, from))
        return;
    for (size_t size = from; size > to; size -= size / 3)
        held_resize(&held, size);
    held_put(&held);
}

/* Each block stands in the way of its neighbor's growth. */
static void side_by_side(size_t from, size_t to)
{
    struct held held[3];
    for (int i = 0; i < 3; i++)
        held_get(&held[i], HELD_MALLOC, 16, from);
    for (size_t size = from; size < to; size += size / 2)
        for (int i = 0; i < 3; i++)
            if (held[i].block != NULL)
                held_resize(&held[i], size + (size_t)i * 4096);
    for (int i = 0; i < 3; i++)
        held_put(&held[i]);
}

static void to_and_fro(size_t low, size_t high)
{
    struct held held;
    if (!held_get(&held, HELD_CALLOC, 16, low))
        return;
    for (int i = 0; i < 6; i++)
        held_resize(&held, i % 2 == 0 ? high : low);
    held_put(&held);
}

static void impossible(size_t size, size_t count)
{
    volatile size_t half = SIZE_MAX / 2; /* not a constant, because the compiler rejects a size that large */
    struct held held;
    if (!held_get(&held, HELD_MALLOC, 16, size))
        return;
    for (size_t i = 0; i < count; i++) {
        errno = 0;
        CHECK(hak_reallocarray(held.block, half, 3) == NULL && errno == ENOMEM, "errno %d", errno);
        errno = 0;
        CHECK(hak_realloc(held.block, (size_t)1 << 46) == NULL && errno == ENOMEM, "errno %d", errno);
        held_check(&held);
    }
    held_put(&held);
}

const struct scenario scenarios_resize[] = {
    {"realloc up, small", up, 16, 65536, 0, 0},
    {"realloc up, medium", up, 65536, 1048576, 0, 0},
    {"realloc up, large", up, 1048577, 20971520, 0, 0},
    {"realloc up, through all tiers", up, 100, 8388608, 0, 0},
    {"realloc down", down, 12582912, 64, 0, 0},
    {"realloc down, medium", down, 1048576, 1024, 0, 0},
    {"realloc side by side, medium", side_by_side, 65536, 1048576, 0, 0},
    {"realloc side by side, large", side_by_side, 1100000, 9000000, 0, 0},
    {"realloc to and fro", to_and_fro, 1000000, 5000000, 0, 0},
    {"realloc to what nobody has", impossible, 3000000, 2, 0, 0},
    {NULL, NULL, 0, 0, 0, 0},
};
