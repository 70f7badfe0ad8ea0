/* Makes threads of the player wait for each other. */
#include "progress.h"
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 200 };

static inline void spin_hint(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static struct progress_lane *lanes;
static uint32_t lane_count;
static uint64_t window;
static _Atomic uint32_t epoch, sleepers;

bool progress_begin(uint32_t count, uint64_t ahead)
{
    size_t size = (count + (size_t)1) * sizeof *lanes;
    lanes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (lanes == MAP_FAILED)
        return false;
    lane_count = count;
    window = ahead;
    for (uint32_t i = 0; i < count; i++)
        atomic_init(&lanes[i].place, PROGRESS_IDLE);
    return true;
}

struct progress_lane *progress_lane(uint32_t lane) { return &lanes[lane]; }

/* Checks the condition once more after counting this thread as a sleeper, because only then do other threads wake this thread. */
void progress_wait(bool (*holds)(const void *context), const void *context)
{
    for (unsigned i = 0; i < SPINS; i++) {
        if (holds(context))
            return;
        spin_hint();
    }
    atomic_fetch_add(&sleepers, 1);
    for (;;) {
        uint32_t now = atomic_load(&epoch);
        if (holds(context))
            break;
        syscall(SYS_futex, &epoch, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
    }
    atomic_fetch_sub(&sleepers, 1);
}

void progress_publish(struct progress_lane *lane, uint64_t place)
{
    atomic_store(&lane->place, place);
    if (atomic_load(&sleepers) == 0)
        return;
    atomic_fetch_add(&epoch, 1);
    syscall(SYS_futex, &epoch, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static uint64_t first_of_others(const struct progress_lane *lane)
{
    uint64_t first = PROGRESS_IDLE;
    for (uint32_t i = 0; i < lane_count; i++) {
        uint64_t place = &lanes[i] == lane ? PROGRESS_IDLE : atomic_load(&lanes[i].place);
        first = place < first ? place : first;
    }
    return first;
}

struct reach {
    struct progress_lane *lane;
    uint64_t needed;
};

static bool reached(const void *context)
{
    const struct reach *reach = context;
    reach->lane->seen = first_of_others(reach->lane);
    return reach->lane->seen >= reach->needed;
}

void progress_reach(struct progress_lane *lane, uint64_t place, bool strictly)
{
    progress_publish(lane, place);
    struct reach reach = {lane, strictly || place < window ? place : place - window};
    if (!strictly && place < window)
        return;
    if (lane->seen < reach.needed || lane->seen == PROGRESS_IDLE)
        progress_wait(reached, &reach);
}
