/* Writes a plan. */
#include "plan.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct stream {
    uint8_t *bytes; /* memory of the current chunk */
    size_t used;
    uint64_t chunk_at; /* offset of the current chunk in the file */
    uint64_t last_sync, last_order;
    unsigned since_sync;
    bool spawned;
    struct plan_thread entry;
};

struct plan {
    int file;
    uint64_t end;
    struct stream *streams;
    struct overview *overview;
    struct plan_head head;
    uint32_t last_thread; /* thread of the previous operation, which starts a new thread */
    bool failed;
};

/* ---- bytes ------------------------------------------------------------- */

static bool store(struct plan *plan, const void *bytes, size_t size, uint64_t at)
{
    for (size_t done = 0; done < size && !plan->failed;) {
        ssize_t written = pwrite(plan->file, (const uint8_t *)bytes + done, size - done, (off_t)(at + done));
        if (written <= 0 && errno != EINTR)
            plan->failed = true;
        done += written > 0 ? (size_t)written : 0;
    }
    return !plan->failed;
}

static bool begin_chunk(struct plan *plan, struct stream *stream)
{
    if (stream->bytes == NULL)
        stream->bytes = malloc(PLAN_CHUNK_BYTES);
    stream->chunk_at = plan->end;
    stream->used = sizeof(struct plan_chunk);
    plan->end += PLAN_CHUNK_BYTES;
    return stream->bytes != NULL;
}

static bool end_chunk(struct plan *plan, struct stream *stream, uint64_t next)
{
    struct plan_chunk chunk = {.next = next, .bytes = (uint32_t)(stream->used - sizeof chunk)};
    memcpy(stream->bytes, &chunk, sizeof chunk);
    return store(plan, stream->bytes, stream->used, stream->chunk_at);
}

static bool room(struct plan *plan, struct stream *stream)
{
    if (PLAN_CHUNK_BYTES - stream->used >= PLAN_OP_MOST + 8)
        return true;
    return end_chunk(plan, stream, plan->end) && begin_chunk(plan, stream);
}

struct fields {
    unsigned kind, flags;
    uint32_t slot;
    uint64_t size;
    uint32_t extra;
    uint16_t version;
};

static bool put(struct plan *plan, struct stream *stream, const struct fields *op)
{
    if (!room(plan, stream))
        return false;
    unsigned slot_bytes = rec_bytes_of(op->slot | 1), size_bytes = rec_bytes_of(op->size);
    unsigned extra_code = op->extra == 0 ? 0 : op->extra < 256 ? 1 : op->extra < 65536 ? 2 : 3;
    uint16_t head = (uint16_t)(op->kind | op->flags | (slot_bytes - 1) << PLAN_SLOT_AT | size_bytes << PLAN_SIZE_AT |
                               extra_code << PLAN_EXTRA_AT);
    uint8_t *to = stream->bytes + stream->used;
    memcpy(to, &head, sizeof head);
    to = rec_put_word(to + 2, op->slot, slot_bytes);
    to = rec_put_word(to, op->size, size_bytes);
    to = rec_put_word(to, op->extra, 0x4210u >> extra_code * 4 & 15);
    if ((op->flags >> PLAN_FOREIGN_AT & 1) != 0) {
        memcpy(to, &op->version, sizeof op->version);
        to += sizeof op->version;
    }
    stream->used = (size_t)(to - stream->bytes);
    return true;
}

/* ---- threads ----------------------------------------------------------- */

/* Begins the stream of a thread. In the plan, the thread of the previous operation starts it, because the recording does not name its creator. */
static bool begin_thread(struct plan *plan, struct stream *stream, const struct rec_op *op)
{
    stream->spawned = true;
    stream->entry.first_order = op->order;
    stream->last_sync = stream->last_order = op->order;
    stream->entry.lane = overview_lane(plan->overview, op->thread, op->order);
    if (!begin_chunk(plan, stream))
        return false;
    stream->entry.first_chunk = stream->chunk_at;
    if (plan->last_thread == UINT32_MAX) {
        plan->head.first_thread = op->thread;
        return true;
    }
    struct stream *starter = &plan->streams[plan->last_thread];
    return put(plan, starter, &(struct fields){.kind = PLAN_SYNC, .size = op->order}) &&
           put(plan, starter, &(struct fields){.kind = PLAN_SPAWN, .size = op->thread});
}

/* Adds a PLAN_SYNC before an operation at which the thread may have to wait, and otherwise once in PLAN_STEP operations or places. At a PLAN_SYNC,
 * the thread publishes the place that it has reached, because other threads may wait for this place. */
static bool sync_thread(struct plan *plan, struct stream *stream, const struct rec_op *op)
{
    bool paused = op->order - stream->last_order > PLAN_PAUSE;
    stream->last_order = op->order;
    if (plan->head.threads == 1 ||
        (!paused && !op->foreign && op->order - stream->last_sync < PLAN_STEP && ++stream->since_sync < PLAN_STEP))
        return true;
    stream->since_sync = 0;
    stream->last_sync = op->order;
    return put(plan, stream, &(struct fields){.kind = PLAN_SYNC, .size = op->order, .extra = paused});
}

/* ---- operations -------------------------------------------------------- */

static bool is_free(unsigned kind) { return kind >= REC_FREE && kind <= REC_DELETE_SIZED; }

static uint32_t extra_of(const struct rec_op *op)
{
    if (op->kind == REC_REALLOC)
        return op->size_before < UINT32_MAX ? (uint32_t)op->size_before : UINT32_MAX;
    return op->block.align_log;
}

/* Adds a PLAN_TOUCH for the pages of a large block that the program touched. After a realloc, these are only the pages behind the old end. */
static bool put_touch(struct plan *plan, struct stream *stream, const struct rec_op *op, uint32_t pages)
{
    uint64_t from = op->kind == REC_REALLOC ? op->size_before / REC_PAGE : 0, most = op->block.size / REC_PAGE;
    uint64_t to = pages < most ? pages : most;
    if (to <= from || from > UINT32_MAX)
        return true;
    unsigned flags = (unsigned)op->block.weight_one << PLAN_WEIGHT_AT;
    return put(
        plan, stream,
        &(struct fields){
            .kind = PLAN_TOUCH, .flags = flags, .slot = op->block.slot, .size = to - from, .extra = (uint32_t)from});
}

static bool add(void *context, const struct rec_op *op)
{
    struct plan *plan = context;
    struct stream *stream = &plan->streams[op->thread];
    if (!stream->spawned && !begin_thread(plan, stream, op))
        return false;
    if (!sync_thread(plan, stream, op))
        return false;
    plan->last_thread = op->thread;
    uint32_t pages;
    bool later = !is_free(op->kind) && overview_touched(plan->overview, op->order, &pages);
    bool sizeless = is_free(op->kind) && op->kind != REC_DELETE_SIZED;
    struct fields fields = {.kind = op->kind,
                            .slot = op->block.slot,
                            .size = sizeless ? 0 : op->block.size,
                            .extra = op->kind == REC_FREE ? 0 : extra_of(op),
                            .version = op->version};
    fields.flags = (unsigned)op->foreign << PLAN_FOREIGN_AT | (unsigned)op->block.stamped << PLAN_STAMPED_AT |
                   (unsigned)op->block.weight_one << PLAN_WEIGHT_AT | (unsigned)later << PLAN_LATER_AT;
    return put(plan, stream, &fields) && (!later || put_touch(plan, stream, op, pages));
}

/* Writes the ends of the streams and the table of threads. Writes the head last, so that an incomplete file is not a valid plan. */
static bool finish(struct plan *plan)
{
    bool sound = true;
    for (uint32_t i = 0; sound && i < plan->head.threads; i++)
        if (plan->streams[i].spawned)
            sound = end_chunk(plan, &plan->streams[i], 0);
    plan->head.threads_at = plan->end;
    for (uint32_t i = 0; sound && i < plan->head.threads; i++)
        sound = store(plan, &plan->streams[i].entry, sizeof(struct plan_thread),
                      plan->end + i * sizeof(struct plan_thread));
    plan->head.magic = PLAN_MAGIC;
    plan->head.slots = overview_totals(plan->overview)->slots;
    plan->head.lanes = overview_lanes(plan->overview);
    return sound && store(plan, &plan->head, sizeof plan->head, 0);
}

bool plan_write(struct rec_reader *reader, struct overview *overview, int file)
{
    struct plan plan = {.file = file, .end = sizeof(struct plan_head), .overview = overview, .last_thread = UINT32_MAX};
    plan.head.threads = (uint32_t)reader->threads;
    plan.head.copies = reader->head.sample;
    plan.streams = calloc(reader->threads + 1, sizeof *plan.streams);
    bool sound = plan.streams != NULL && rec_book_read(reader, add, &plan, NULL) && finish(&plan);
    if (!sound && reader->why[0] == '\0')
        snprintf(reader->why, sizeof reader->why, "the plan cannot be written: %s",
                 strerror(plan.failed ? errno : ENOMEM));
    for (size_t i = 0; plan.streams != NULL && i < reader->threads; i++)
        free(plan.streams[i].bytes);
    free(plan.streams);
    return sound;
}
