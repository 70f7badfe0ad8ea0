/* Collects the facts about later events that the plan needs, and writes the plan. */
#include "plan.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the overview ------------------------------------------------------ */

struct touch {
    uint64_t born;
    uint32_t pages;
};

/* Notes an operation. A free or realloc tells how many pages of its block were touched. The number is stored with the block's `born`, which is the
 * `order` of the allocation or realloc that gave the block its size. */
static bool note(void *context, const struct rec_op *op)
{
    struct overview *overview = context;
    if (overview->last_order[op->thread] == 0 && overview->last_thread != UINT32_MAX)
        overview->last_order[overview->last_thread] = op->order; /* in the plan, this thread starts the new one */
    overview->last_order[op->thread] = op->order;
    overview->last_thread = op->thread;
    if (op->touched == 0)
        return true;
    struct touch *larger = rec_with_room(overview->touches, overview->touch_count, sizeof *larger);
    if (larger == NULL)
        return false;
    overview->touches = larger;
    overview->touches[overview->touch_count++] = (struct touch){op->block.born, op->touched - 1};
    return true;
}

static int by_birth(const void *left, const void *right)
{
    const struct touch *a = left, *b = right;
    return a->born < b->born ? -1 : a->born > b->born;
}

bool overview_open(struct overview *overview, struct rec_reader *reader)
{
    *overview = (struct overview){.last_thread = UINT32_MAX,
                                  .last_order = calloc(reader->threads + 1, sizeof *overview->last_order),
                                  .lane_until = calloc(reader->threads + 1, sizeof *overview->lane_until)};
    if (overview->last_order == NULL || overview->lane_until == NULL ||
        !rec_book_read(reader, note, overview, &overview->totals))
        return reader->why[0] != '\0' ? false : rec_refuse(reader, "out of memory");
    if (overview->touch_count > 1)
        qsort(overview->touches, overview->touch_count, sizeof *overview->touches, by_birth);
    return true;
}

void overview_close(struct overview *overview)
{
    free(overview->touches);
    free(overview->last_order);
    free(overview->lane_until);
}

bool overview_touched(struct overview *overview, uint64_t order, uint32_t *pages)
{
    const struct touch *touches = overview->touches;
    size_t *next = &overview->next_touch;
    while (*next < overview->touch_count && touches[*next].born < order)
        ++*next;
    if (*next == overview->touch_count || touches[*next].born != order)
        return false;
    *pages = touches[*next].pages;
    return true;
}

uint32_t overview_lane(struct overview *overview, uint32_t thread, uint64_t order)
{
    uint32_t lane = 0;
    while (lane < overview->lanes && overview->lane_until[lane] >= order)
        lane++;
    overview->lanes += lane == overview->lanes;
    overview->lane_until[lane] = overview->last_order[thread];
    return lane;
}

/* ---- bytes ------------------------------------------------------------- */

struct stream {
    uint8_t *bytes; /* memory of the current chunk */
    size_t used;
    uint64_t chunk_at; /* offset of the current chunk in the file */
    struct rec_base base;
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
    uint32_t last_thread; /* thread of the previous operation, which starts each new thread in the plan */
    bool failed;
};

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

static bool put(struct plan *plan, struct stream *stream, const struct rec_event *op)
{
    if (PLAN_CHUNK_BYTES - stream->used < REC_EVENT_ROOM &&
        !(end_chunk(plan, stream, plan->end) && begin_chunk(plan, stream)))
        return false;
    stream->base.order = PLAN_NO_ORDER;
    uint8_t *end = rec_encode(stream->bytes + stream->used, &stream->base, op);
    stream->used = (size_t)(end - stream->bytes);
    return true;
}

/* ---- threads ----------------------------------------------------------- */

/* Begins the stream of a thread. In the plan, the thread of the previous operation starts the new thread, because the recording names no creator. */
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
    return put(plan, starter, &(struct rec_event){.kind = PLAN_SYNC, .size = op->order}) &&
           put(plan, starter, &(struct rec_event){.kind = PLAN_SPAWN, .size = op->thread});
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
    return put(plan, stream, &(struct rec_event){.kind = PLAN_SYNC, .size = op->order, .extra = paused});
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
    struct rec_event touch = {.kind = PLAN_TOUCH,
                              .weight_one = op->block.weight_one,
                              .address = op->block.slot,
                              .size = to - from,
                              .extra = (uint32_t)from};
    return put(plan, stream, &touch);
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
    struct rec_event played = {.kind = op->kind,
                               .weight_one = op->block.weight_one,
                               .address = op->block.slot,
                               .size = sizeless ? 0 : op->block.size,
                               .extra = op->kind == REC_FREE ? 0 : extra_of(op)};
    played.order = (later ? PLAN_LATER : 0) | (op->block.stamped ? 0 : PLAN_UNSTAMPED);
    if (op->foreign)
        played.order |= PLAN_FOREIGN | (uint64_t)op->version << PLAN_VERSION_AT;
    return put(plan, stream, &played) && (!later || put_touch(plan, stream, op, pages));
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
    plan->head.slots = plan->overview->totals.slots;
    plan->head.lanes = plan->overview->lanes;
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
        rec_refuse(reader, "the plan cannot be written: %s", strerror(plan.failed ? errno : ENOMEM));
    for (size_t i = 0; plan.streams != NULL && i < reader->threads; i++)
        free(plan.streams[i].bytes);
    free(plan.streams);
    return sound;
}
