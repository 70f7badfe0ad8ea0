/* Overview: what the plan needs to know of the whole recording before its first operation: how much of each large block the program
 * touches, and when each thread ends. One pass over the recording. */
#ifndef REC_OVERVIEW_H
#define REC_OVERVIEW_H

#include "book.h"

struct overview;

/* NULL: reader->why has the reason, unless memory is out. */
struct overview *overview_open(struct rec_reader *reader);
void overview_close(struct overview *overview);

/* Of the block that was allocated or moved at this place of the order; false: unknown. Asked in the order. */
bool overview_touched(struct overview *overview, uint64_t order, uint32_t *pages);
/* A place in the table of progress for a thread that begins here: one whose thread has ended before, or a new one. */
uint32_t overview_lane(struct overview *overview, uint32_t thread, uint64_t order);
uint32_t overview_lanes(const struct overview *overview);

/* The sums alone; false: reader->why has the reason. */
bool rec_sum_up(struct rec_reader *reader, struct rec_totals *totals);

#endif
