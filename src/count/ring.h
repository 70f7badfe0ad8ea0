/* Ring: the last events of a thread, for who looks when it is too late.
 *
 *   note: slot = xnext++ % size -> stamp off -> clock, address, amount -> stamp          read: oldest first; what changes is skipped
 *
 * Owns       the slots and their order. What can happen is events.def's.
 * Invariant  a slot whose stamp is the same before and after it was read was whole.
 * Threads    note: its thread; the shared ring: any. read: any, a signal handler too.
 * Never      takes a lock, waits, or allocates: who opens it brings the memory. */
#ifndef HK_RING_H
#define HK_RING_H

#include "base/base.h"

enum hk_event_kind {
#define HK_EVENT(name, amount, meaning) HK_EVENT_##name,
#include "count/events.def"
#undef HK_EVENT
    HK_EVENTS
};

struct hk_event_row {
    const char *name, *unit, *meaning;
};
extern const struct hk_event_row hk_event_rows[HK_EVENTS];

struct hk_event {
    _Atomic uint64_t xstamp; /* (number + 1) << 8 | kind; 0 before, 1 while it is written */
    _Atomic uint64_t xclock; /* ns */
    _Atomic uint64_t xamount;
    _Atomic uintptr_t xaddress;
};

struct hk_ring {
    _Atomic(struct hk_event *) xevents; /* NULL: nothing is recorded */
    size_t size;                        /* a power of two */
    _Atomic uint64_t xnext;
};

/* A copy, for the reader. */
struct hk_event_seen {
    enum hk_event_kind kind;
    uint64_t clock_ns, amount;
    uintptr_t address;
};

/* What happens on behalf of no thread in particular, or in one that has no cache. */
extern struct hk_ring hk_ring_shared;

/* The power of two that holds so many events. */
size_t hk_ring_size(size_t wanted);
/* Zeroed memory for `size` events; stays the ring's. */
void hk_ring_open(struct hk_ring *ring, struct hk_event *events, size_t size);

void hk_ring_note_slow(struct hk_ring *ring, enum hk_event_kind kind, uint64_t amount, uintptr_t address);

/* Calls visit for each event that is there and whole, oldest first. */
void hk_ring_read(const struct hk_ring *ring, void (*visit)(void *context, const struct hk_event_seen *event),
                  void *context);

#define HK_TRACE(ring, name, amount, address)                                                                          \
    do {                                                                                                               \
        if (HK_UNLIKELY(hk_load((ring)->xevents) != NULL))                                                             \
            hk_ring_note_slow((ring), HK_EVENT_##name, (amount), (uintptr_t)(address));                                \
    } while (0)

#endif
