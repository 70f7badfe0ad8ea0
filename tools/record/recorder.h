/* Recorder: libhakmem-record.so is preloaded before any allocator. It notes each call of the malloc family in a file, and passes the call on to the
 * program's allocator, which is called the allocator below.
 *
 * Owns       The recorder has a file for the process, and a chunk of this file for each thread. Chunks are mapped shared, so that an event is in the
 *            file as soon as it is noted, and a process that is killed loses nothing.
 * Invariant  Each event gets a number from one counter, the order. A free gets its number before the allocator is called, and an allocation gets its
 *            number after the allocator was called. Therefore two blocks that are live at the same time in the order have different addresses.
 * Fork       The kernel zeroes the page `rec_shared` in a child process. Therefore the child begins a file of its own.
 * Never      The recorder never calls malloc, keeps no descriptor open, and takes no lock that a signal or a fork could leave locked. */
#ifndef REC_RECORDER_H
#define REC_RECORDER_H

#include "recording.h"

#define REC_EXPORT __attribute__((visibility("default")))
#define REC_COLD __attribute__((noinline, cold))
#define REC_LIKELY(x) __builtin_expect(!!(x), 1)
#define REC_UNLIKELY(x) __builtin_expect(!!(x), 0)

enum rec_state { REC_UNBORN, REC_STARTING, REC_RUNNING, REC_OFF };
enum { REC_SPARE_CHUNKS = 16 };

/* The page that is zero in a forked child. Zero is the state REC_UNBORN, so the first event of a process begins its recording. */
struct rec_shared {
    uint32_t state; /* enum rec_state */
    uint32_t sample;
    int64_t pid;
    struct rec_head *head;
    uint64_t next_chunk;
    uint32_t threads;
    uint64_t order __attribute__((aligned(64)));
    struct rec_chunk *spare[REC_SPARE_CHUNKS]
        __attribute__((aligned(64))); /* chunks of ended threads that still have room */
};

struct rec_self {
    uint8_t *at, *end; /* the unused part of the chunk; equal if the thread has no chunk */
    struct rec_base base;
    struct rec_chunk *chunk;
    int64_t pid;     /* the process to whose file the chunk belongs; in a forked child, this is first the parent */
    uint32_t number; /* number of the thread in this process */
    bool inside;     /* the thread is in the allocator below or in the recorder; calls from there are not recorded */
    bool ended;      /* the destructor of the thread's key has run */
};

extern struct rec_shared *rec_shared;
extern _Thread_local struct rec_self rec_self __attribute__((tls_model("initial-exec")));
/* A bit is set for each address at which a large block was allocated. Several addresses share a bit, so a set bit says that a block may be large. */
extern uint64_t rec_large_seen[1024];

/* Makes sure that the thread has a chunk of this process's file with room for an event. Returns false if nothing is recorded. Keeps errno. */
bool rec_prepare(struct rec_self *self);
/* Gives the chunk of an ended thread to other threads. The thread may still make calls, so this function is also called after each later event. */
void rec_release(struct rec_self *self);
/* Writes the final figures of the process to the head of the file. */
void rec_finish(void);
/* Returns the size of a page of the system, in bytes. */
size_t rec_page_size(void);
/* Returns the number of resident units (REC_PAGE) of a large block, plus 1. Returns 0 if the block is not large or the number is unknown. */
uint32_t rec_touched(const void *block);
/* Writes one line to standard error. If errno is not 0, the line ends with the error. Writes nothing if descriptor 2 is no longer the file that it
 * was when the program began. */
void rec_say(const char *what, const char *why);
/* Returns true if the block is so large that every sample contains it. */
bool rec_always(const void *block);

extern const char __libc_single_threaded __attribute__((weak));

static inline uint64_t rec_draw(struct rec_shared *shared)
{
    if (&__libc_single_threaded != NULL && __libc_single_threaded)
        return shared->order++;
    return __atomic_fetch_add(&shared->order, 1, __ATOMIC_SEQ_CST);
}

static inline uint64_t *rec_large_word(uintptr_t block) { return &rec_large_seen[block >> 18 & 1023]; }

static inline void rec_see_large(const void *block)
{
    __atomic_fetch_or(rec_large_word((uintptr_t)block), (uint64_t)1 << ((uintptr_t)block >> 12 & 63), __ATOMIC_RELAXED);
}

/* Notes an event in the chunk of this thread, even if the sample does not contain the block. */
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

/* Returns true if the calls for the block are recorded. Sets *weight_one if the sample contains the block because of its size. */
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
        rec_see_large(block);
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
