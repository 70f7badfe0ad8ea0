/* Made: builds a recording in memory event by event, as the recorder writes it. Tests of the reader and the player use it. */
#ifndef TEST_RECORD_MADE_H
#define TEST_RECORD_MADE_H

#include "recording.h"

enum { MADE_CHUNKS = 40, MADE_THREADS = 32 };

struct made {
    uint8_t bytes[REC_HEAD_BYTES + MADE_CHUNKS * REC_CHUNK_BYTES];
    uint8_t *at[MADE_THREADS];
    const uint8_t *end[MADE_THREADS];
    struct rec_base base[MADE_THREADS];
    size_t chunks;
};
extern struct made made;

/* Begins an empty recording. `sample` has the same meaning as in the head. */
void made_begin(uint32_t sample);
/* Adds an event of a thread below MADE_THREADS. Returns false if the recording is full. */
bool made_add(const struct rec_event *event);
size_t made_size(void);
struct rec_head *made_head(void);

#endif
