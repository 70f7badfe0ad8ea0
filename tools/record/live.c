/* Defines the hash table of live blocks. */
#include "live.h"
#include <stdlib.h>

enum { FIRST_PLACES = 4096 };

bool rec_map_open(struct rec_map *map)
{
    *map = (struct rec_map){.places = calloc(FIRST_PLACES, sizeof *map->places), .mask = FIRST_PLACES - 1};
    return map->places != NULL;
}

void rec_map_close(struct rec_map *map)
{
    free(map->places);
    map->places = NULL;
}

static size_t home_of(const struct rec_map *map, uint64_t address)
{
    return (size_t)((address >> 3) * 0x9e3779b97f4a7c15ull >> 20) & map->mask;
}

static void place(struct rec_map *map, const struct rec_live *live)
{
    size_t i = home_of(map, live->address);
    while (map->places[i].address != 0)
        i = (i + 1) & map->mask;
    map->places[i] = *live;
}

static bool grow(struct rec_map *map)
{
    struct rec_map larger = {.mask = map->mask * 2 + 1, .count = map->count};
    larger.places = calloc(larger.mask + 1, sizeof *larger.places);
    if (larger.places == NULL)
        return false;
    for (size_t i = 0; i <= map->mask; i++)
        if (map->places[i].address != 0)
            place(&larger, &map->places[i]);
    free(map->places);
    *map = larger;
    return true;
}

bool rec_map_put(struct rec_map *map, const struct rec_live *live)
{
    if (map->count * 2 > map->mask && !grow(map))
        return false;
    place(map, live);
    map->count++;
    return true;
}

/* Closes the gap that a removed block leaves. A search ends at an empty place, so a later block that a search reaches only across the gap moves into
 * the gap. Its old place is the next gap. */
static void close_gap(struct rec_map *map, size_t gap)
{
    for (size_t i = (gap + 1) & map->mask; map->places[i].address != 0; i = (i + 1) & map->mask) {
        size_t from_home = (i - home_of(map, map->places[i].address)) & map->mask;
        if (from_home >= ((i - gap) & map->mask)) {
            map->places[gap] = map->places[i];
            gap = i;
        }
    }
    map->places[gap].address = 0;
}

bool rec_map_take(struct rec_map *map, uint64_t address, struct rec_live *live)
{
    for (size_t i = home_of(map, address); map->places[i].address != 0; i = (i + 1) & map->mask) {
        if (map->places[i].address != address)
            continue;
        *live = map->places[i];
        close_gap(map, i);
        map->count--;
        return true;
    }
    return false;
}
