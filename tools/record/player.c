/* Plays the threads of a plan, and checks the blocks that the allocator returns. */
#include "player.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "figures.h"
#include "progress.h"

#define VERSION_AT 48
#define ADDRESS_MASK (((uint64_t)1 << VERSION_AT) - 1)
#define STACK_BYTES ((size_t)256 << 10)

/* The C++ operators of this process's allocator. If the allocator defines none, malloc and free are used, as in the C++ library. */
static struct {
    void *(*new_block)(size_t);
    void *(*new_aligned)(size_t, size_t);
    void (*delete_block)(void *);
    void (*delete_sized)(void *, size_t);
    void (*delete_aligned)(void *, size_t);
} below;

static struct {
    int plan;
    struct plan_head head;
    _Atomic uint64_t *slots; /* version << 48 | address of the block, or 0 if the slot has no block */
    bool dry;
    _Atomic uint32_t playing;
} stage;

/* A thread that plays. */
struct actor {
    uint8_t *buffer; /* a chunk of the plan */
    const uint8_t *at, *end;
    struct rec_base base;
    uint64_t next_chunk;
    struct progress_lane *lane;
    struct player_result counts;
};

static struct player_result sums;
static pthread_mutex_t sums_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the plan ---------------------------------------------------------- */

static bool read_at(void *to, size_t size, uint64_t at)
{
    return pread(stage.plan, to, size, (off_t)at) == (ssize_t)size;
}

static bool load_chunk(struct actor *actor)
{
    struct plan_chunk chunk;
    if (actor->next_chunk == 0 || !read_at(&chunk, sizeof chunk, actor->next_chunk) ||
        chunk.bytes > PLAN_CHUNK_BYTES - sizeof chunk ||
        !read_at(actor->buffer, chunk.bytes, actor->next_chunk + sizeof chunk))
        return false;
    actor->at = actor->buffer;
    actor->end = actor->at + chunk.bytes;
    actor->next_chunk = chunk.next;
    return true;
}

static bool next_op(struct actor *actor, struct rec_event *op)
{
    if (actor->at >= actor->end && !load_chunk(actor))
        return false;
    actor->base.order = PLAN_NO_ORDER;
    const uint8_t *end = rec_decode(actor->at, actor->end, &actor->base, op);
    actor->at = end != NULL ? end : actor->at;
    return end != NULL;
}

static bool flag(const struct rec_event *op, enum plan_flags flag) { return (op->order & flag) != 0; }

/* ---- blocks ------------------------------------------------------------ */

static uint64_t stamp_of(size_t slot) { return (uint64_t)slot * 0x9e3779b97f4a7c15ull + 1; }

/* Writes one byte of each page from offset `from` to offset `to`, and the last byte before `to`. */
static void touch(char *block, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i += REC_PAGE)
        ((volatile char *)block)[i] = 1;
    if (to > from)
        ((volatile char *)block)[to - 1] = 1;
}

static void *allocated(const struct rec_event *op)
{
    void *block = NULL;
    switch (op->kind) {
    case REC_CALLOC: return calloc(1, op->size);
    case REC_NEW: return below.new_block(op->size);
    case REC_NEW_ALIGNED:
        if (below.new_aligned != NULL)
            return below.new_aligned(op->size, (size_t)1 << op->extra);
        break;
    case REC_ALIGNED: break;
    default: return malloc(op->size);
    }
    if (op->extra < 4)
        return malloc(op->size);
    return posix_memalign(&block, (size_t)1 << op->extra, op->size) == 0 ? block : NULL;
}

static bool begins_with_stamp(const void *block, size_t slot)
{
    uint64_t stamp;
    memcpy(&stamp, block, sizeof stamp);
    return stamp == stamp_of(slot);
}

static void *play_alloc(struct actor *actor, const struct rec_event *op, const void *before, size_t slot)
{
    char *block = allocated(op);
    actor->counts.allocs++;
    actor->counts.bytes += op->size;
    actor->counts.wrong += before != NULL;
    if (block == NULL) {
        actor->counts.failed++;
        return NULL;
    }
    unsigned log = op->kind == REC_ALIGNED || op->kind == REC_NEW_ALIGNED ? op->extra : 0;
    actor->counts.wrong += ((uintptr_t)block & (((size_t)1 << log) - 1)) != 0;
    if (!flag(op, PLAN_LATER))
        touch(block, 0, op->size);
    if (op->size >= sizeof(uint64_t)) {
        uint64_t stamp = stamp_of(slot);
        memcpy(block, &stamp, sizeof stamp);
    }
    return block;
}

static void *play_free(struct actor *actor, const struct rec_event *op, void *block, size_t slot)
{
    actor->counts.frees++;
    if (block == NULL) {
        actor->counts.empty++; /* the allocation of the block was refused, or the plan is wrong */
        return NULL;
    }
    actor->counts.wrong += !flag(op, PLAN_UNSTAMPED) && !begins_with_stamp(block, slot);
    if (op->kind == REC_FREE)
        free(block);
    else if (op->extra != 0)
        below.delete_aligned(block, (size_t)1 << op->extra);
    else if (op->kind == REC_DELETE_SIZED)
        below.delete_sized(block, op->size);
    else
        below.delete_block(block);
    return NULL;
}

static void *play_realloc(struct actor *actor, const struct rec_event *op, void *block, size_t slot)
{
    uint64_t before = op->extra;
    actor->counts.reallocs++;
    actor->counts.bytes += op->size > before ? op->size - before : 0;
    actor->counts.empty += block == NULL;
    char *moved = realloc(block, op->size);
    if (moved == NULL && op->size != 0) {
        actor->counts.failed++;
        return block;
    }
    if (moved == NULL)
        return NULL;
    if (!flag(op, PLAN_LATER))
        touch(moved, before < op->size ? before : op->size, op->size);
    actor->counts.wrong +=
        block != NULL && !flag(op, PLAN_UNSTAMPED) && op->size >= 8 && !begins_with_stamp(moved, slot);
    return moved;
}

static void *play_one(struct actor *actor, const struct rec_event *op, void *block, size_t slot)
{
    switch (op->kind) {
    case REC_FREE:
    case REC_DELETE:
    case REC_DELETE_SIZED: return play_free(actor, op, block, slot);
    case REC_REALLOC: return play_realloc(actor, op, block, slot);
    case PLAN_TOUCH:
        if (block != NULL) /* the stamp at the start of the block is kept */
            touch(block, op->extra == 0 ? sizeof(uint64_t) : op->extra * REC_PAGE, (op->extra + op->size) * REC_PAGE);
        return block;
    default: return play_alloc(actor, op, block, slot);
    }
}

/* ---- slots ------------------------------------------------------------- */

struct turn {
    const _Atomic uint64_t *slot;
    uint16_t version;
};

static bool is_turn(const void *context)
{
    const struct turn *turn = context;
    return (uint16_t)(atomic_load(turn->slot) >> VERSION_AT) == turn->version;
}

static void play_slot(struct actor *actor, const struct rec_event *op, size_t slot)
{
    _Atomic uint64_t *entry = &stage.slots[slot];
    struct turn turn = {entry, (uint16_t)(op->order >> PLAN_VERSION_AT)};
    if (flag(op, PLAN_FOREIGN) && !is_turn(&turn))
        progress_wait(is_turn, &turn);
    uint64_t now = atomic_load_explicit(entry, memory_order_relaxed);
    void *block = (void *)(uintptr_t)(now & ADDRESS_MASK);
    if (!stage.dry)
        block = play_one(actor, op, block, slot);
    uint64_t version = (now >> VERSION_AT) + (op->kind != PLAN_TOUCH);
    atomic_store_explicit(entry, version << VERSION_AT | (uint64_t)(uintptr_t)block, memory_order_release);
}

static void play_slots(struct actor *actor, const struct rec_event *op)
{
    uint32_t copies = stage.head.copies;
    for (uint32_t i = 0; i < (op->weight_one ? 1 : copies); i++)
        play_slot(actor, op, op->address * copies + i);
}

/* ---- threads ----------------------------------------------------------- */

static void *play_thread(void *number);

static bool read_thread(struct plan_thread *thread, uint32_t number)
{
    return read_at(thread, sizeof *thread, stage.head.threads_at + number * sizeof *thread);
}

static bool lane_is_idle(const void *context)
{
    return atomic_load(&((const struct progress_lane *)context)->place) == PROGRESS_IDLE;
}

static bool spawn(uint32_t number)
{
    struct plan_thread thread;
    pthread_t handle;
    pthread_attr_t attributes;
    if (number >= stage.head.threads || number == stage.head.first_thread || !read_thread(&thread, number))
        return false;
    struct progress_lane *lane = progress_lane(thread.lane);
    if (!lane_is_idle(lane))
        progress_wait(lane_is_idle, lane);
    lane->seen = 0;
    atomic_store(&lane->place, thread.first_order);
    atomic_fetch_add(&stage.playing, 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&handle, &attributes, play_thread, (void *)(uintptr_t)number);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

static bool play_op(struct actor *actor, const struct rec_event *op)
{
    switch (op->kind) {
    case PLAN_SYNC: progress_reach(actor->lane, op->size, op->extra != 0); return true;
    case PLAN_SPAWN: return spawn((uint32_t)op->size);
    default: break;
    }
    if (flag(op, PLAN_FOREIGN) && stage.head.threads == 1)
        return false; /* no other thread could end the wait */
    if (op->address >= stage.head.slots || op->kind < REC_MALLOC || op->kind >= PLAN_KINDS)
        return false;
    play_slots(actor, op);
    return true;
}

static void add_counts(const struct player_result *counts)
{
    pthread_mutex_lock(&sums_lock);
    sums.allocs += counts->allocs;
    sums.frees += counts->frees;
    sums.reallocs += counts->reallocs;
    sums.bytes += counts->bytes;
    sums.empty += counts->empty;
    sums.failed += counts->failed;
    sums.wrong += counts->wrong;
    pthread_mutex_unlock(&sums_lock);
}

static bool open_actor(struct actor *actor, uint32_t number)
{
    struct plan_thread thread;
    if (!read_thread(&thread, number) || thread.lane >= stage.head.lanes)
        return false;
    *actor = (struct actor){.next_chunk = thread.first_chunk, .lane = progress_lane(thread.lane)};
    actor->buffer = mmap(NULL, PLAN_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return actor->buffer != MAP_FAILED;
}

static void *play_thread(void *number)
{
    struct actor actor;
    struct rec_event op;
    bool sound = open_actor(&actor, (uint32_t)(uintptr_t)number);
    while (sound && next_op(&actor, &op))
        sound = play_op(&actor, &op);
    sound = sound && actor.at == actor.end && actor.next_chunk == 0;
    if (!sound) { /* ends the process, because other threads might wait for this thread forever */
        static const char line[] = "hakmem-play: the plan is damaged, or a thread cannot begin\n";
        if (write(STDERR_FILENO, line, sizeof line - 1) >= 0)
            _exit(2);
        _exit(2);
    }
    add_counts(&actor.counts);
    munmap(actor.buffer, PLAN_CHUNK_BYTES);
    atomic_fetch_sub(&stage.playing, 1);
    progress_publish(actor.lane, PROGRESS_IDLE);
    return NULL;
}

/* ---- playing the plan -------------------------------------------------- */

/* Stands in for a sized or an aligned operator delete that the allocator does not define. */
static void delete_plainly(void *block, __attribute__((unused)) size_t ignored) { below.delete_block(block); }

#define FIND(member, symbol, otherwise)                                                                                \
    below.member = (__typeof__(below.member))dlsym(RTLD_DEFAULT, symbol);                                              \
    below.member = below.member != NULL ? below.member : (otherwise)

static void find_operators(void)
{
    FIND(new_block, "_Znwm", malloc);
    FIND(new_aligned, "_ZnwmSt11align_val_t", NULL);
    FIND(delete_block, "_ZdlPv", free);
    FIND(delete_sized, "_ZdlPvm", delete_plainly);
    FIND(delete_aligned, "_ZdlPvSt11align_val_t", delete_plainly);
}

static const char *open_plan(int plan, const struct player_options *options)
{
    stage.plan = plan;
    stage.dry = options->dry;
    if (!read_at(&stage.head, sizeof stage.head, 0) || stage.head.magic != PLAN_MAGIC || stage.head.copies == 0)
        return "not a plan of this version";
    size_t bytes = ((size_t)stage.head.slots * stage.head.copies + 1) * sizeof *stage.slots;
    stage.slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (stage.slots == MAP_FAILED || !progress_begin(stage.head.lanes, options->window))
        return "no memory for the player's tables";
    find_operators();
    return NULL;
}

static bool all_done(const void *context)
{
    (void)context;
    return atomic_load(&stage.playing) == 0;
}

static uint64_t live_blocks(void)
{
    uint64_t live = 0;
    for (size_t i = 0; i < (size_t)stage.head.slots * stage.head.copies; i++)
        live += (atomic_load_explicit(&stage.slots[i], memory_order_relaxed) & ADDRESS_MASK) != 0;
    return live;
}

static void play_all(void)
{
    if (stage.head.threads == 0 || stage.head.lanes == 0)
        return; /* nothing was allocated */
    struct plan_thread first = {0};
    if (read_thread(&first, stage.head.first_thread))
        atomic_store(&progress_lane(first.lane)->place, first.first_order);
    atomic_fetch_add(&stage.playing, 1);
    play_thread((void *)(uintptr_t)stage.head.first_thread);
    progress_wait(all_done, NULL);
}

bool player_play(int plan, const struct player_options *options, struct player_result *result, const char **why)
{
    *why = open_plan(plan, options);
    if (*why != NULL)
        return false;
    struct rec_memory before = rec_memory_now();
    uint64_t faults, cpu_us, began = rec_now_us();
    rec_usage(&faults, &cpu_us);
    play_all();
    uint64_t ended = rec_now_us();
    *result = sums;
    rec_usage(&result->faults, &result->cpu_us);
    struct rec_memory after = rec_memory_now();
    result->faults -= faults;
    result->cpu_us -= cpu_us;
    result->wall_us = ended - began;
    result->peak_rss_kib = after.peak_kib;
    uint64_t others = after.file_kib + before.anon_kib;
    result->heap_kib = after.peak_kib > others ? after.peak_kib - others : 0;
    result->wrong += result->empty > result->failed ? result->empty - result->failed : 0;
    result->left = live_blocks();
    return true;
}
