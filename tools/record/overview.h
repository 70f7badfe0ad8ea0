/* Overview: reads the whole recording once before the plan is written, because the plan needs facts from later events: how much of each
 * large block the program touches, and when each thread ends. */
#ifndef REC_OVERVIEW_H
#define REC_OVERVIEW_H

#include "book.h"

struct overview;

/* Returns NULL on failure. reader->why has the reason, unless memory is out. */
struct overview *overview_open(struct rec_reader *reader);
void overview_close(struct overview *overview);

/* Gets the touched pages of the block that was allocated or resized at this place of the order. Returns false if the number is unknown. The
 * caller must ask for the places in ascending order. */
bool overview_touched(struct overview *overview, uint64_t order, uint32_t *pages);
/* Returns a place in the table of progress for a thread that begins at this place of the order. It reuses the place of a thread that has
 * ended, or adds a new one. */
uint32_t overview_lane(struct overview *overview, uint32_t thread, uint64_t order);
uint32_t overview_lanes(const struct overview *overview);

/* Computes only the sums of the recording. Returns false on failure, and reader->why has the reason. */
bool rec_sum_up(struct rec_reader *reader, struct rec_totals *totals);

#endif
