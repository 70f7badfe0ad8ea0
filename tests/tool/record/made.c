#include "tool/record/made.h"

struct made made;

struct rec_head *made_head(void) { return (struct rec_head *)(void *)made.bytes; }
size_t made_size(void) { return REC_HEAD_BYTES + made.chunks * REC_CHUNK_BYTES; }

void made_begin(uint32_t sample)
{
    memset(made.bytes, 0, made_size());
    made.chunks = 0;
    memset(made.at, 0, sizeof made.at);
    *made_head() = (struct rec_head){
        .magic = REC_MAGIC, .head_bytes = REC_HEAD_BYTES, .chunk_bytes = REC_CHUNK_BYTES, .sample = sample};
}

/* Begins a new chunk for the thread. Returns false if there is no room. */
static bool begin_chunk(uint32_t thread, uint64_t from)
{
    if (made.chunks == MADE_CHUNKS)
        return false;
    struct rec_chunk *chunk = (struct rec_chunk *)(void *)(made.bytes + made_size());
    chunk->magic = REC_CHUNK_MAGIC;
    made_head()->chunks = ++made.chunks;
    struct rec_base none = {0, 0};
    struct rec_event name = {.order = 1, .address = from, .size = 100 + thread, .kind = REC_THREAD};
    made.at[thread] = rec_encode((uint8_t *)(chunk + 1), &none, &name);
    made.end[thread] = (uint8_t *)chunk + REC_CHUNK_BYTES;
    made.base[thread] = (struct rec_base){from - 1, 0};
    return true;
}

bool made_add(const struct rec_event *event)
{
    uint32_t thread = event->thread;
    bool room = made.at[thread] != NULL && (size_t)(made.end[thread] - made.at[thread]) >= REC_EVENT_ROOM;
    if (!room && !begin_chunk(thread, event->order))
        return false;
    made.at[thread] = rec_encode(made.at[thread], &made.base[thread], event);
    return true;
}
