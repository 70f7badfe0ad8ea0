/* Reader: reads the events of all threads of a recording in the order in which they happened. Checks the whole file. If the file is damaged, refuses
 * it and tells the reason. */
#ifndef REC_READER_H
#define REC_READER_H

#include "recording.h"

struct rec_cursor;
struct rec_run;

struct rec_reader {
    const uint8_t *bytes;
    size_t size, chunks;
    struct rec_head head;
    struct rec_run *runs; /* sequences of events of one thread, sorted by thread and order */
    size_t run_count;
    struct rec_cursor *cursors; /* one for each thread */
    struct rec_cursor **heap;   /* binary heap of the cursors; the first has the earliest event */
    size_t threads, waiting;
    uint64_t last_order, events;
    char why[160];
};

/* Stores the reason why the recording cannot be used, and returns false. */
__attribute__((format(printf, 2, 3))) bool rec_refuse(struct rec_reader *reader, const char *format, ...);
/* Returns the array with room for one more element, or NULL if memory is refused. An array is full if its count is 0 or a power of two. */
void *rec_with_room(void *array, size_t count, size_t size);

/* Opens a recording. The caller keeps `bytes` until the reader is closed. If the file is refused, returns false and stores the reason in `why`. The
 * reader need not be closed then. */
bool rec_reader_open(struct rec_reader *reader, const void *bytes, size_t size);
void rec_reader_close(struct rec_reader *reader);

/* Reads the next event, and returns 1. The event's thread is a number below `threads`. Returns 0 at the end, or -1 if the file is refused. */
int rec_reader_next(struct rec_reader *reader, struct rec_event *event);
/* Goes back to the first event. Returns false if the file is refused. */
bool rec_reader_rewind(struct rec_reader *reader);

#endif
