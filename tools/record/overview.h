/* Overview: reads the whole recording once before the plan is written. The plan needs facts from later events, because it says which pages of a large
 * block are touched, and which threads do not run at the same time. */
#ifndef REC_OVERVIEW_H
#define REC_OVERVIEW_H

#include "book.h"

struct overview;

/* Reads the recording and returns its overview. Returns NULL on failure, and reader->why then has the reason. */
struct overview *overview_open(struct rec_reader *reader);
void overview_close(struct overview *overview);

/* Gets the number of touched pages of the block that was allocated or resized at this place of the order. Returns false if the number is unknown. The
 * caller must ask for the places in ascending order. */
bool overview_touched(struct overview *overview, uint64_t order, uint32_t *pages);
/* Returns the number of a lane (progress.h) for a thread that begins at this place. It is the lane of a thread that has ended, or a new lane. */
uint32_t overview_lane(struct overview *overview, uint32_t thread, uint64_t order);
uint32_t overview_lanes(const struct overview *overview);
const struct rec_totals *overview_totals(const struct overview *overview);

#endif
