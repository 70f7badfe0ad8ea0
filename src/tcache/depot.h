/* Depot: batches of free blocks set aside whole, so that a burst's blocks go through the bitmaps neither when they are freed
 * nor when they are allocated again. What a bin sheds is copied here; what it lacks is copied back.
 * Owns       the magazines, and how many bytes of blocks they may hold.
 * Invariant  nothing is held that nobody drew on for a pass or two.
 * Threads    its own; totals may be read by any. */
#ifndef HK_DEPOT_H
#define HK_DEPOT_H

#include "policy/classes.h"

enum { HK_MAGAZINE_BLOCKS = 128 };

struct hk_magazine {
    struct hk_magazine *next;
    size_t count;
    void *blocks[HK_MAGAZINE_BLOCKS];
};

struct hk_depot {
    struct hk_depot_class {
        struct hk_magazine *newest;
        size_t blocks;
        bool drawn_on; /* since the last call of hk_depot_age */
    } classes[HK_CLASSES];
    size_t bytes;           /* of blocks, in all classes */
    struct hk_magazine *spare; /* empty ones: where bursts alternate, a magazine is needed a moment after one was */
    unsigned spares;
};

struct hk_tcache;

/* Copies n <= HK_MAGAZINE_BLOCKS blocks in; false if there is no room, or no memory for a magazine. */
bool hk_depot_put(struct hk_depot *depot, unsigned class, void *const *blocks, size_t n);
/* Copies the newest magazine out; the number of blocks, 0 if there is none. */
size_t hk_depot_take(struct hk_depot *depot, unsigned class, void **blocks, size_t room);

/* Once a pass: gives back some of what nobody drew on since the last, class by class, and a spare magazine. */
void hk_depot_age(struct hk_tcache *cache);
/* For the growth of a class: gives back so many bytes, if there are, of the other class that has most. */
void hk_depot_reclaim(struct hk_tcache *cache, unsigned class, size_t bytes);
/* Gives back all. */
void hk_depot_empty(struct hk_tcache *cache);
/* In a fork child, for a thread that it does not have: forgets all. The number of blocks. */
size_t hk_depot_forget(struct hk_depot *depot);

#endif
