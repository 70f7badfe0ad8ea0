/* Overview: reads the whole recording once before the plan is written. The plan says at an allocation how many pages of a large block will be
 * touched, and which threads do not run at the same time. These facts follow only from later events. */
#ifndef REC_OVERVIEW_H
#define REC_OVERVIEW_H

#include "book.h"

struct overview;

/* Reads the recording and returns its overview. On failure, returns NULL and stores the reason in reader->why. */
struct overview *overview_open(struct rec_reader *reader);
void overview_close(struct overview *overview);

/* Stores how many pages are touched of the block that was allocated or resized at this place in the order. Returns false if this is unknown. The
 * caller must ask for the places in ascending order. */
bool overview_touched(struct overview *overview, uint64_t order, uint32_t *pages);
/* Returns the number of a lane (progress.h) for a thread that begins at this place in the order. It is a new lane, or that of an ended thread. */
uint32_t overview_lane(struct overview *overview, uint32_t thread, uint64_t order);
uint32_t overview_lanes(const struct overview *overview);
const struct rec_totals *overview_totals(const struct overview *overview);

#endif
