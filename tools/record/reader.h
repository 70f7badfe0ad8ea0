/* Reader: the events of a recording, all threads' in one order. It trusts nothing in the file: what does not fit is refused with a reason. */
#ifndef REC_READER_H
#define REC_READER_H

#include "recording.h"

struct rec_cursor;
struct rec_run;

struct rec_reader {
    const uint8_t *bytes;
    size_t size, chunks;
    struct rec_head head;
    struct rec_run *runs; /* stretches of one thread's events, by thread and order */
    size_t run_count;
    struct rec_cursor *cursors; /* one for each thread, a heap by the order of its next event */
    struct rec_cursor **heap;
    size_t threads, waiting;
    uint64_t last_order, events;
    char why[160];
};

/* `bytes` stay the caller's, and outlive the reader. False: refused, `why` has the reason; nothing to close. */
bool rec_reader_open(struct rec_reader *reader, const void *bytes, size_t size);
void rec_reader_close(struct rec_reader *reader);

/* 1: an event, whose thread is a number below `threads`; 0: the end; -1: refused. */
int rec_reader_next(struct rec_reader *reader, struct rec_event *event);
/* Back to the first event. */
bool rec_reader_rewind(struct rec_reader *reader);

#endif
