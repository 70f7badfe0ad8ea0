/* Checks a recording, and merges the events of its threads. */
#include "reader.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A run is a stretch of events of one thread in one chunk. */
struct rec_run {
    uint32_t thread;
    uint64_t from; /* the first place in the order that an event of the run may have */
    size_t at;     /* offset of the run's first event in the file */
};

/* A cursor reads the events of one thread in the thread's order. */
struct rec_cursor {
    uint32_t index;
    size_t run, last_run; /* number of the current run, and of the next thread's first run */
    size_t at;
    struct rec_base base;
    struct rec_event event;
};

bool rec_refuse(struct rec_reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->why, sizeof reader->why, format, arguments);
    va_end(arguments);
    return false;
}

void *rec_with_room(void *array, size_t count, size_t size)
{
    bool full = (count & (count - 1)) == 0;
    return full ? realloc(array, (count == 0 ? 1 : count * 2) * size) : array;
}

/* ---- bytes ------------------------------------------------------------- */

static size_t chunk_end(size_t at) { return at + REC_CHUNK_BYTES - (at - REC_HEAD_BYTES) % REC_CHUNK_BYTES; }

/* Returns the head of the event at the offset `at`, or 0 at the end of a chunk. */
static unsigned head_at(const struct rec_reader *reader, size_t at)
{
    bool end = (at - REC_HEAD_BYTES) % REC_CHUNK_BYTES == 0 || chunk_end(at) - at < 2;
    return end ? 0 : reader->bytes[at] | (unsigned)reader->bytes[at + 1] << 8;
}

/* Reads the event at *at, and moves *at to the end of the event. Returns false if the bytes are not a valid event. */
static bool decode(struct rec_reader *reader, size_t *at, struct rec_base *base, struct rec_event *event)
{
    const uint8_t *bytes = reader->bytes, *end = rec_decode(bytes + *at, bytes + chunk_end(*at), base, event);
    if (end == NULL || event->kind == REC_END || event->kind >= REC_KINDS)
        return rec_refuse(reader, "no event at byte %zu", *at);
    *at = (size_t)(end - bytes);
    return true;
}

/* ---- opening ----------------------------------------------------------- */

static bool check_head(struct rec_reader *reader)
{
    if (reader->size < REC_HEAD_BYTES)
        return rec_refuse(reader, "not a recording: it has %zu bytes", reader->size);
    memcpy(&reader->head, reader->bytes, sizeof reader->head);
    const struct rec_head *head = &reader->head;
    if (head->magic != REC_MAGIC)
        return rec_refuse(reader, "not a recording of this version");
    if (head->head_bytes != REC_HEAD_BYTES || head->chunk_bytes != REC_CHUNK_BYTES || head->sample < 1 ||
        head->sample > REC_SAMPLE_MOST || memchr(head->program, 0, sizeof head->program) == NULL)
        return rec_refuse(reader, "its head makes no sense");
    size_t body = reader->size - REC_HEAD_BYTES;
    reader->chunks = body / REC_CHUNK_BYTES;
    if (body % REC_CHUNK_BYTES != 0 || reader->chunks < head->chunks)
        return rec_refuse(reader, "cut off: %zu bytes, and its head says %llu chunks", reader->size,
                          (unsigned long long)head->chunks);
    return true;
}

static bool add_run(struct rec_reader *reader, const struct rec_event *event, size_t at)
{
    struct rec_run *larger = rec_with_room(reader->runs, reader->run_count, sizeof *larger);
    if (larger == NULL)
        return rec_refuse(reader, "out of memory");
    reader->runs = larger;
    reader->runs[reader->run_count++] = (struct rec_run){(uint32_t)event->size, event->address, at};
    return event->size <= UINT32_MAX || rec_refuse(reader, "a thread's number makes no sense at byte %zu", at);
}

static bool scan_chunk(struct rec_reader *reader, size_t start)
{
    struct rec_chunk chunk;
    memcpy(&chunk, reader->bytes + start, sizeof chunk);
    if (chunk.magic == 0)
        return true; /* the process was killed before it used the chunk */
    if (chunk.magic != REC_CHUNK_MAGIC)
        return rec_refuse(reader, "no chunk at byte %zu", start);
    if (chunk.closed != 0 && chunk.sum != rec_sum(reader->bytes + start))
        return rec_refuse(reader, "altered: the sum of the chunk at byte %zu is wrong", start);
    bool first = true;
    for (size_t at = start + sizeof chunk; head_at(reader, at) != 0; first = false) {
        size_t here = at;
        struct rec_base base = {0, 0};
        struct rec_event event;
        if (!decode(reader, &at, &base, &event))
            return false;
        if (first && event.kind != REC_THREAD)
            return rec_refuse(reader, "no event at byte %zu", here);
        if (event.kind == REC_THREAD && !add_run(reader, &event, at))
            return false;
    }
    return true;
}

static int by_thread_and_order(const void *left, const void *right)
{
    const struct rec_run *a = left, *b = right;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static bool make_cursors(struct rec_reader *reader)
{
    const struct rec_run *runs = reader->runs;
    if (reader->run_count > 1)
        qsort(reader->runs, reader->run_count, sizeof *reader->runs, by_thread_and_order);
    for (size_t i = 0; i < reader->run_count; i++)
        reader->threads += i == 0 || runs[i].thread != runs[i - 1].thread;
    reader->cursors = calloc(reader->threads + 1, sizeof *reader->cursors);
    reader->heap = calloc(reader->threads + 1, sizeof(struct rec_cursor *));
    if (reader->cursors == NULL || reader->heap == NULL)
        return rec_refuse(reader, "out of memory");
    uint32_t index = 0;
    for (size_t i = 0; i < reader->run_count; i++) {
        if (i != 0 && runs[i].thread != runs[i - 1].thread)
            index++;
        struct rec_cursor *cursor = &reader->cursors[index];
        if (cursor->last_run == 0)
            *cursor = (struct rec_cursor){.index = index, .run = i};
        cursor->last_run = i + 1;
    }
    return true;
}

bool rec_reader_open(struct rec_reader *reader, const void *bytes, size_t size)
{
    *reader = (struct rec_reader){.bytes = bytes, .size = size};
    bool sound = check_head(reader);
    for (size_t i = 0; sound && i < reader->chunks; i++)
        sound = scan_chunk(reader, REC_HEAD_BYTES + i * REC_CHUNK_BYTES);
    if (sound && make_cursors(reader) && rec_reader_rewind(reader))
        return true;
    rec_reader_close(reader);
    return false;
}

void rec_reader_close(struct rec_reader *reader)
{
    free(reader->runs);
    free(reader->cursors);
    free(reader->heap);
    reader->runs = NULL;
    reader->cursors = NULL;
    reader->heap = NULL;
}

/* ---- the merge --------------------------------------------------------- */

static void begin_run(const struct rec_reader *reader, struct rec_cursor *cursor)
{
    const struct rec_run *run = &reader->runs[cursor->run];
    cursor->at = run->at;
    cursor->base = (struct rec_base){run->from - 1, 0};
}

/* Moves the cursor to the thread's next event, and returns 1. Returns 0 if the thread has no more events, or -1 if the file is refused. */
static int step(struct rec_reader *reader, struct rec_cursor *cursor)
{
    for (;;) {
        unsigned head = head_at(reader, cursor->at);
        if (head != 0 && (head & ((1u << REC_KIND_BITS) - 1)) != REC_THREAD)
            break;
        if (++cursor->run == cursor->last_run)
            return 0;
        begin_run(reader, cursor);
    }
    if (!decode(reader, &cursor->at, &cursor->base, &cursor->event))
        return -1;
    cursor->event.thread = cursor->index;
    return 1;
}

static void sink(struct rec_reader *reader, size_t i)
{
    struct rec_cursor **heap = reader->heap, *moving = heap[i];
    for (size_t child; (child = 2 * i + 1) < reader->waiting; i = child) {
        if (child + 1 < reader->waiting && heap[child + 1]->event.order < heap[child]->event.order)
            child++;
        if (moving->event.order <= heap[child]->event.order)
            break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

bool rec_reader_rewind(struct rec_reader *reader)
{
    reader->waiting = 0;
    reader->events = 0;
    for (size_t i = 0; i < reader->threads; i++) {
        struct rec_cursor *cursor = &reader->cursors[i];
        while (cursor->run > 0 && reader->runs[cursor->run - 1].thread == reader->runs[cursor->last_run - 1].thread)
            cursor->run--;
        begin_run(reader, cursor);
        int found = step(reader, cursor);
        if (found < 0)
            return false;
        if (found > 0)
            reader->heap[reader->waiting++] = cursor;
    }
    for (size_t i = reader->waiting / 2; i-- > 0;)
        sink(reader, i);
    return true;
}

int rec_reader_next(struct rec_reader *reader, struct rec_event *event)
{
    if (reader->waiting == 0)
        return 0;
    struct rec_cursor *first = reader->heap[0];
    *event = first->event;
    if (reader->events != 0 && event->order <= reader->last_order)
        return rec_refuse(reader, "two events have the place %llu", (unsigned long long)event->order) - 1;
    reader->last_order = event->order;
    reader->events++;
    int found = step(reader, first);
    if (found == 0 && --reader->waiting != 0)
        reader->heap[0] = reader->heap[reader->waiting];
    if (found >= 0 && reader->waiting != 0)
        sink(reader, 0);
    return found < 0 ? -1 : 1;
}
