/* Stores the live blocks of a recording in a search tree by address. */
#include "book.h"
#include <search.h>
#include <stdlib.h>

static int by_address(const void *left, const void *right)
{
    const struct rec_live *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

void rec_map_close(rec_map *map) { tdestroy(*map, free); }

bool rec_map_put(rec_map *map, const struct rec_live *live)
{
    struct rec_live *kept = malloc(sizeof *kept);
    if (kept == NULL)
        return false;
    *kept = *live;
    bool added = tsearch(kept, map, by_address) != NULL;
    if (!added)
        free(kept);
    return added;
}

bool rec_map_take(rec_map *map, uint64_t address, struct rec_live *live)
{
    struct rec_live wanted = {.address = address};
    struct rec_live **found = tfind(&wanted, map, by_address), *kept = found != NULL ? *found : NULL;
    if (kept == NULL)
        return false;
    tdelete(&wanted, map, by_address);
    *live = *kept;
    free(kept);
    return true;
}
