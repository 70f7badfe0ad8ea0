/* Tests recordings of `hakmem record` (tools/record). The reader must return the written events, in one order for all threads. A damaged
 * recording must be refused, or read in order up to its end. */
#include <stdlib.h>

#include "unit/fuzz/fuzz.h"
#include "plan.h"
#include "tool/record/made.h"

enum { DRAWN_EVENTS = 500, MOST_EVENTS = 40000, MOST_THREADS = 5 };

static struct rec_event written[MOST_EVENTS];

static struct rec_event draw_event(struct fuzz_input *in, uint64_t order)
{
    struct rec_event event = {.order = order,
                              .kind = (uint8_t)(REC_MALLOC + fuzz_byte(in) % (REC_KINDS - REC_MALLOC)),
                              .thread = fuzz_byte(in) % MOST_THREADS};
    uint8_t shape = fuzz_byte(in);
    event.address = shape % 4 == 0 ? fuzz_word(in) & (((uint64_t)1 << 47) - 1) : 0x7f0000000000u + fuzz_byte(in) * 16u;
    event.size = shape % 8 < 2 ? fuzz_word(in) : fuzz_byte(in);
    event.extra = shape % 16 < 2 ? (uint32_t)fuzz_word(in) : shape / 32u;
    event.weight_one = shape % 3 == 0;
    return event;
}

/* Fills a chunk with events of 2 bytes, so that the next event needs another chunk. Returns the number of events. */
static size_t fill_chunk(void)
{
    size_t count = 0;
    do {
        written[count] = (struct rec_event){.order = count, .kind = REC_THREAD_END};
        made_add(&written[count++]);
    } while ((size_t)(made.end[0] - made.at[0]) >= REC_EVENT_ROOM);
    return count;
}

static size_t write_events(struct fuzz_input *in)
{
    uint8_t shape = fuzz_byte(in);
    made_begin(1 + shape % 3u);
    size_t count = shape % 16 == 1 ? fill_chunk() : 0;
    uint64_t order = count;
    for (size_t wanted = count + fuzz_below(in, DRAWN_EVENTS); count < wanted && fuzz_next(in); count++) {
        written[count] = draw_event(in, order);
        if (!made_add(&written[count]))
            break;
        order += 1 + (fuzz_byte(in) % 16 == 0 ? fuzz_word(in) >> 24 : 0); /* The counter stays far below 2^55. */
    }
    return count;
}

/* Returns a place to damage. It is usually in a header, in the first events, or in the last bytes of the first chunk. */
static size_t damaged_place(struct fuzz_input *in)
{
    uint8_t where = fuzz_byte(in);
    if (where < 40)
        return where * 4u;
    if (where >= 192)
        return REC_HEAD_BYTES + REC_CHUNK_BYTES - 1 - where % 64u;
    return REC_HEAD_BYTES + fuzz_below(in, where < 180 ? 400 : made_size() - REC_HEAD_BYTES + 1);
}

static void damage(struct fuzz_input *in, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        size_t at = damaged_place(in);
        if (at < made_size())
            made.bytes[at] = fuzz_byte(in);
    }
}

static void check_event(const struct rec_event *event, const struct rec_event *expected)
{
    uint64_t size = expected->size < REC_SIZE_MOST ? expected->size : REC_SIZE_MOST;
    FUZZ_CHECK(event->order == expected->order && event->kind == expected->kind, "(%lu)", (unsigned long)event->order);
    FUZZ_CHECK(event->address == expected->address && event->size == size && event->extra == expected->extra);
    FUZZ_CHECK(event->weight_one == expected->weight_one);
}

/* Reads all events. Events that can be read from a damaged recording must be in order, and the reading must end. */
static void read_events(struct rec_reader *reader, size_t count, bool sound)
{
    struct rec_event event;
    uint64_t last = 0;
    size_t read = 0;
    int found;
    for (; (found = rec_reader_next(reader, &event)) > 0; read++, last = event.order) {
        FUZZ_CHECK(read == 0 || event.order > last);
        FUZZ_CHECK(event.thread < reader->threads && event.kind > REC_THREAD && event.kind < REC_KINDS);
        if (sound)
            check_event(&event, &written[read]);
    }
    FUZZ_CHECK(!sound || (found == 0 && read == count), "(%zu of %zu)", read, count);
    FUZZ_CHECK(found == 0 || reader->why[0] != '\0');
}

void fuzz_recording(struct fuzz_input *in)
{
    struct rec_reader reader;
    unsigned times = fuzz_byte(in) % 8;
    size_t count = write_events(in);
    damage(in, times);
    size_t size = times > 5 ? fuzz_below(in, made_size() + 1) : made_size();
    /* The buffer has the exact size, so a sanitizer detects a read beyond its end. */
    uint8_t *bytes = malloc(size != 0 ? size : 1);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, made.bytes, size);
    bool opened = rec_reader_open(&reader, bytes, size);
    FUZZ_CHECK(opened || (times != 0 && reader.why[0] != '\0'));
    if (opened) {
        read_events(&reader, count, times == 0);
        struct overview overview = {0};
        if (rec_reader_rewind(&reader) && overview_open(&overview, &reader)) {
            const struct rec_totals *totals = &overview.totals;
            FUZZ_CHECK(totals->threads == reader.threads && (times != 0 || totals->events == count));
        }
        overview_close(&overview);
        rec_reader_close(&reader);
    }
    free(bytes);
}
