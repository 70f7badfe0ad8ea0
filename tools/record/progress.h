/* Progress: keeps how far each thread of the player has come in the order of the recording, so that no thread runs far ahead of another.
 *
 * Owns       This file owns the lanes. A lane has the place in the order that its thread has reached, or PROGRESS_IDLE if no thread uses the lane.
 * Invariant  A thread publishes its place before it waits for anything. The thread with the smallest place waits for no other thread, so the
 *            threads cannot wait for each other in a circle. */
#ifndef REC_PROGRESS_H
#define REC_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_IDLE UINT64_MAX

struct progress_lane {
    _Alignas(64) _Atomic uint64_t place;
    /* The smallest place of all other lanes when this lane's thread last looked. Only this thread uses the field. */
    uint64_t seen;
};

/* Maps the lanes, which are all idle. `window` is how many places a thread may be ahead of the others. Returns false if memory is refused. */
bool progress_begin(uint32_t lanes, uint64_t window);
struct progress_lane *progress_lane(uint32_t lane);
/* Publishes the place, and wakes all threads that wait. */
void progress_publish(struct progress_lane *lane, uint64_t place);
/* Publishes the place that the thread has reached. Waits until no other thread is behind by more than the window. If `strictly`, the window is 0. */
void progress_reach(struct progress_lane *lane, uint64_t place, bool strictly);
/* Waits until another thread has made the condition true. */
void progress_wait(bool (*holds)(const void *context), const void *context);

#endif
