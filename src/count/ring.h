/* Ring: records the last events of a thread, which are shown at a signal or after a crash.
 *
 *   note: slot = xnext++ % size -> stamp = 1 -> clock, address, amount -> stamp       read: oldest first; skips changing slots
 *
 * Owns       This file owns the slots and their order. events.def lists the events.
 * Invariant  If the stamp of a slot is the same before and after a read, the read has seen one whole event.
 * Threads    A thread notes events in its own ring. Any thread may note events in the shared ring. Any thread or signal handler may read a ring.
 * Never      takes a lock, waits, or allocates. The caller of hk_ring_open() provides the memory. */
#pragma once

#include "base/base.h"

enum hk_event_kind {
#define HK_EVENT(name, amount, meaning) HK_EVENT_##name,
#include "count/events.def"
    HK_EVENTS
};

struct hk_event_row {
    char name[12], unit[8], meaning[72];
};
extern const struct hk_event_row hk_event_rows[HK_EVENTS];

struct hk_event {
    _Atomic uint64_t xstamp; /* (number + 1) << 8 | kind; 0: empty, 1: being written */
    _Atomic uint64_t xclock; /* time in nanoseconds */
    _Atomic uint64_t xamount;
    _Atomic uintptr_t xaddress;
};

struct hk_ring {
    _Atomic(struct hk_event *) xevents; /* NULL: recording is off */
    size_t size;                        /* number of slots, a power of two */
    _Atomic uint64_t xnext;
};

/* hk_ring_read() passes this copy of an event to `visit`. */
struct hk_event_seen {
    enum hk_event_kind kind;
    uint64_t clock_ns, amount;
    uintptr_t address;
};

extern struct hk_ring hk_ring_shared; /* holds the events of no particular thread, and of threads without a tcache */

/* Returns the number of slots for a ring, which is `wanted` rounded up to a power of two. If `wanted` is 1, returns the usual number of 256. */
size_t hk_ring_size(size_t wanted);
/* Begins recording into `events`, which is zeroed memory for `size` events. The ring keeps the memory. */
void hk_ring_open(struct hk_ring *ring, struct hk_event *events, size_t size);

void hk_ring_note_slow(struct hk_ring *ring, enum hk_event_kind kind, uint64_t amount, uintptr_t address);
/* Calls visit for each complete event, oldest first. */
void hk_ring_read(const struct hk_ring *ring, void (*visit)(void *context, const struct hk_event_seen *event),
                  void *context);

#define HK_TRACE(ring, name, amount, address)                                                                          \
    do {                                                                                                               \
        if (HK_UNLIKELY(hk_load((ring)->xevents) != NULL))                                                             \
            hk_ring_note_slow((ring), HK_EVENT_##name, (amount), (uintptr_t)(address));                                \
    } while (0)
