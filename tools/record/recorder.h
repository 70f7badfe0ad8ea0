/* Recorder: libhakmem-record.so, preloaded before any allocator, notes each call of the malloc family in a file, and passes it on.
 *
 * Owns       a file for the process, and a chunk of it for each thread, mapped shared: what is noted is in the file at once, and a
 *            process that is killed loses nothing.
 * Invariant  each number of the order is drawn once: of a free before the call, of an allocation after it. So no address is live
 *            twice in the order, whatever threads do.
 * Fork       the page `rec_shared` is zero in a child, however it was forked: the child begins a file of its own.
 * Never      calls malloc, keeps a descriptor open, or takes a lock that a signal or a fork could leave locked. */
#ifndef REC_RECORDER_H
#define REC_RECORDER_H

#include "recording.h"

#define REC_EXPORT __attribute__((visibility("default")))
#define REC_COLD __attribute__((noinline, cold))
#define REC_LIKELY(x) __builtin_expect(!!(x), 1)
#define REC_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define REC_THREAD_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))

enum rec_state { REC_UNBORN, REC_STARTING, REC_RUNNING, REC_OFF };
enum { REC_SPARE_CHUNKS = 16 };

/* A page that a forked child finds zero. Before the start, and without that page, the state is REC_UNBORN or REC_OFF. */
struct rec_shared {
    uint32_t state; /* enum rec_state */
    uint32_t sample;
    int64_t pid;
    struct rec_head *head;
    uint64_t next_chunk;
    uint32_t threads;
    uint64_t order __attribute__((aligned(64)));
    void *spare[REC_SPARE_CHUNKS] __attribute__((aligned(64))); /* of ended threads, with room left */
};

struct rec_self {
    uint8_t *at, *end; /* in its chunk; equal without one */
    struct rec_base base;
    void *chunk;
    int64_t pid;     /* whose chunk it is: a forked child has another */
    uint32_t number; /* of the thread in this process */
    bool
        inside; /* a call of the allocator below, or of the recorder, is under way: calls it makes are not the program's */
    bool ended; /* its key's destructor has run */
};

extern struct rec_shared *rec_shared;
extern _Thread_local struct rec_self rec_self __attribute__((tls_model("initial-exec")));
extern uint64_t rec_large_seen[1024];

/* Room for an event, and a chunk of this process and thread; false: nothing is recorded. Keeps errno. */
bool rec_prepare(struct rec_self *self);
/* After an event of a thread that has ended. */
void rec_release(struct rec_self *self);
/* The process ends: its figures go to the head. */
void rec_finish(void);
/* A page of the system, in bytes. */
size_t rec_page_size(void);
/* The resident bytes of this large block in REC_PAGEs, + 1; 0 if it is not large. */
uint32_t rec_touched(const void *block);
/* Writes one line to standard error, with the error in errno unless that is 0; nothing if descriptor 2 is another file than at the start. */
void rec_say(const char *what, const char *why);
/* Sampling: takes this block for its size. */
bool rec_always(const void *block);

extern const char __libc_single_threaded __attribute__((weak));

static inline uint64_t rec_draw(struct rec_shared *shared)
{
    if (&__libc_single_threaded != NULL && __libc_single_threaded)
        return shared->order++;
    return __atomic_fetch_add(&shared->order, 1, __ATOMIC_SEQ_CST);
}

static inline uint64_t *rec_large_word(uintptr_t block) { return &rec_large_seen[block >> 18 & 1023]; }

/* Notes one event. `block` decides whether a sample takes it. */
static inline void rec_note_event(enum rec_kind kind, uintptr_t block, uint64_t size, uint32_t extra, bool weight_one)
{
    struct rec_self *self = &rec_self;
    if (REC_UNLIKELY(rec_shared->state != REC_RUNNING || (size_t)(self->end - self->at) < REC_EVENT_ROOM) &&
        !rec_prepare(self))
        return;
    struct rec_event event = {.order = rec_draw(rec_shared),
                              .address = block,
                              .size = size,
                              .extra = extra,
                              .kind = (uint8_t)kind,
                              .weight_one = weight_one};
    self->at = rec_encode(self->at, &self->base, &event);
    if (REC_UNLIKELY(self->ended))
        rec_release(self);
}

/* False: a sample leaves the block out. */
static inline bool rec_takes(const void *block, bool *weight_one)
{
    uint32_t sample = rec_shared->sample;
    if (REC_LIKELY(sample <= 1) || block == NULL)
        return true;
    *weight_one = rec_always(block);
    return *weight_one || rec_sampled((uintptr_t)block, sample);
}

static inline void rec_note_alloc(enum rec_kind kind, const void *block, size_t size, unsigned align_log)
{
    bool weight_one = false;
    if (REC_UNLIKELY(size >= REC_LARGE_BLOCK))
        __atomic_fetch_or(rec_large_word((uintptr_t)block), (uint64_t)1 << ((uintptr_t)block >> 12 & 63),
                          __ATOMIC_RELAXED);
    if (rec_takes(block, &weight_one))
        rec_note_event(kind, (uintptr_t)block, size, align_log, weight_one);
}

static inline uint32_t rec_touched_of(const void *block)
{
    bool maybe_large = (*rec_large_word((uintptr_t)block) >> ((uintptr_t)block >> 12 & 63) & 1) != 0;
    return REC_UNLIKELY(maybe_large) ? rec_touched(block) : 0;
}

static inline void rec_note_free(enum rec_kind kind, const void *block, size_t size)
{
    bool weight_one = false;
    if (rec_takes(block, &weight_one))
        rec_note_event(kind, (uintptr_t)block, size, rec_touched_of(block), weight_one);
}

#endif
