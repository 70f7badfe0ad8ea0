/* Writes events into the ring of a thread or the shared ring, and reads the events that the ring still holds, oldest first. */
#include "count/ring.h"
#include "base/bits.h"
#include "os/os.h"

enum { KIND_BITS = 8, BEING_WRITTEN = 1, USUAL_SIZE = 256 };

const struct hk_event_row hk_event_rows[HK_EVENTS] = {
#define HK_EVENT(name, amount, meaning) {#name, #amount, meaning},
#include "count/events.def"
};

struct hk_ring hk_ring_shared;

size_t hk_ring_size(size_t wanted) { return wanted == 1 ? USUAL_SIZE : hk_max(2, hk_pow2_from(wanted)); }

void hk_ring_open(struct hk_ring *ring, struct hk_event *events, size_t size)
{
    ring->size = size;
    hk_store_release(ring->xevents, events);
}

HK_COLD void hk_ring_note_slow(struct hk_ring *ring, enum hk_event_kind kind, uint64_t amount, uintptr_t address)
{
    uint64_t number = hk_add(ring->xnext, 1);
    struct hk_event *event = hk_load_acquire(ring->xevents) + number % ring->size;
    if (atomic_exchange_explicit(&event->xstamp, BEING_WRITTEN, memory_order_acquire) == BEING_WRITTEN)
        return;                     /* drops the event, because another writer of the shared ring uses the slot */
    HK_FENCE(memory_order_release); /* a reader that sees a new field also sees that the stamp has changed */
    hk_store(event->xclock, hk_os.clock_ns());
    hk_store(event->xamount, amount);
    hk_store(event->xaddress, address);
    hk_store_release(event->xstamp, (number + 1) << KIND_BITS | kind);
}

void hk_ring_read(const struct hk_ring *ring, void (*visit)(void *context, const struct hk_event_seen *event),
                  void *context)
{
    const struct hk_event *events = hk_load_acquire(ring->xevents);
    uint64_t end = hk_load(ring->xnext);
    if (events == NULL)
        return;
    for (uint64_t number = end > ring->size ? end - ring->size : 0; number < end; number++) {
        const struct hk_event *event = &events[number % ring->size];
        uint64_t stamp = hk_load_acquire(event->xstamp);
        struct hk_event_seen seen = {(enum hk_event_kind)(stamp & ((1u << KIND_BITS) - 1)),
                                     hk_load_acquire(event->xclock), hk_load_acquire(event->xamount),
                                     hk_load_acquire(event->xaddress)};
        if (stamp >> KIND_BITS == number + 1 && hk_load(event->xstamp) == stamp)
            visit(context, &seen);
    }
}
