/* Live: finds live blocks by their address, in the search tree of the C library. */
#ifndef REC_LIVE_H
#define REC_LIVE_H

#include <stdbool.h>
#include <stdint.h>

struct rec_live {
    uint64_t address;
    uint64_t size;
    uint64_t born; /* place in the order of the allocation or realloc that gave the block its size */
    uint32_t slot;
    uint8_t align_log; /* logarithm of the alignment */
    bool stamped;      /* the player has written its stamp to the block, which never had fewer than 8 bytes */
    bool weight_one;   /* see struct rec_event */
};

/* A map is the root of its tree, and NULL if it is empty. */
typedef void *rec_map;

void rec_map_close(rec_map *map);
/* Adds a block, whose address must not be in the map. Returns false if memory is refused. */
bool rec_map_put(rec_map *map, const struct rec_live *live);
/* Removes the block with this address, and copies it to *live. Returns false if the map does not have the block. */
bool rec_map_take(rec_map *map, uint64_t address, struct rec_live *live);

#endif
