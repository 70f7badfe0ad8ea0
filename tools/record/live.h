/* Live: finds live blocks by their address, in a hash table with linear probing that is at most half full. */
#ifndef REC_LIVE_H
#define REC_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rec_live {
    uint64_t address; /* 0 in an empty place of the table */
    uint64_t size;
    uint64_t born; /* place in the order of the allocation or realloc that gave the block its size */
    uint32_t slot;
    uint8_t align_log; /* logarithm of the alignment */
    bool stamped;      /* the player has written its stamp to the block, which never had fewer than 8 bytes */
    bool weight_one;   /* see struct rec_event */
};

struct rec_map {
    struct rec_live *places;
    size_t mask, count;
};

bool rec_map_open(struct rec_map *map);
void rec_map_close(struct rec_map *map);
/* Adds a block, whose address must not be in the table. Returns false if memory is refused. */
bool rec_map_put(struct rec_map *map, const struct rec_live *live);
/* Removes the block with this address, and copies it to *live. Returns false if the table does not have the block. */
bool rec_map_take(struct rec_map *map, uint64_t address, struct rec_live *live);

#endif
