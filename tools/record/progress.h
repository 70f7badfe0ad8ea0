/* Progress: where each thread of a player is in the order of the recording, so that none runs far ahead of another.
 *
 * Owns       the lanes: a place in the order for each thread that plays; IDLE without one.
 * Invariant  a thread publishes its place before it waits for anything. The thread whose place is the first waits for none: there is no
 *            circle. */
#ifndef REC_PROGRESS_H
#define REC_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_IDLE UINT64_MAX

struct progress_lane {
    _Alignas(64) _Atomic uint64_t place;
    uint64_t seen; /* its thread's: no other was before this place */
};

/* Maps the lanes, all idle; false: refused. `window`: how far a thread may be ahead of the others. */
bool progress_begin(uint32_t lanes, uint64_t window);
struct progress_lane *progress_lane(uint32_t lane);
/* Publishes the place, and wakes those who wait. */
void progress_publish(struct progress_lane *lane, uint64_t place);
/* Publishes the place, and waits until no other thread is more than the window behind; strictly: behind at all. */
void progress_reach(struct progress_lane *lane, uint64_t place, bool strictly);
/* Waits until the condition holds, which another thread makes true. */
void progress_wait(bool (*holds)(const void *context), const void *context);
/* Other threads wait for an operation of this one. */
bool progress_awaited(void);
void progress_wake(void);

#endif
