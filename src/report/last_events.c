#include "report/last_events.h"

#include "base/message.h"
#include "tcache/tcache.h"

enum { MICROSECONDS = 1000000, NS_A_MICROSECOND = 1000 };

/* "1234.000056": seconds since boot. */
static void add_clock(struct hk_text *text, uint64_t ns)
{
    uint64_t microseconds = ns / NS_A_MICROSECOND;
    hk_text_add(text, "  %lu.", microseconds / MICROSECONDS);
    for (uint64_t place = MICROSECONDS / 10; place > 0; place /= 10)
        hk_text_add(text, "%u", (unsigned)(microseconds / place % 10));
}

static void write_event(void *context, const struct hk_event_seen *event)
{
    struct hk_text *text = context;
    const struct hk_event_row *row = &hk_event_rows[event->kind];
    add_clock(text, event->clock_ns);
    hk_text_add(text, " %s %lu %s", row->name, event->amount, row->unit);
    if (event->address != 0)
        hk_text_add(text, " 0x%zx", (size_t)event->address);
    hk_text_add(text, "\n");
}

void hk_last_events_write(int fd)
{
    struct hk_text text;
    const struct hk_tcache *self = hk_tcache_self();
    hk_text_init(&text, fd);
    hk_text_add(&text, "hakmem: last events of each thread, the oldest first\n");
    for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end(); id = hk_owner_next(id + 1)) {
        const struct hk_tcache *cache = hk_tcache_by_id(id);
        hk_text_add(&text, "thread %u%s\n", id, cache == self ? " (this one)" : cache->alive ? "" : " (ended)");
        hk_ring_read(&cache->owner.ring, write_event, &text);
    }
    hk_text_add(&text, "no thread\n");
    hk_ring_read(&hk_ring_shared, write_event, &text);
    hk_text_add(&text, "hakmem: end of events\n");
    hk_text_flush(&text);
}
