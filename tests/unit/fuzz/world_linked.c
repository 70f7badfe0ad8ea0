#include "unit/fuzz/world.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit/fuzz/heap_block.h"
#include "hakmem.h"

enum { PAGE = 4096, ROOM_FOR_STACKS = 1 << 20, STEP = 128 << 10 };

static bool limited, exact;
static uint64_t live_before; /* number of live blocks that do not belong to the target */
static struct rlimit limit_before;

void world_prepare(void) {}
void world_reset(void) {}

static uint64_t live_now(void)
{
    struct hak_stats stats;
    return hak_get_stats(&stats, sizeof stats) == 0 ? stats.live_blocks : 0;
}

/* Skips the bytes for options in the input, because the process has the options of the environment. */
void world_begin(struct fuzz_input *in)
{
    const char *background = getenv("HAKMEM_BACKGROUND");
    for (uint64_t count = fuzz_below(in, 5) + 2; count > 0; count--)
        (void)fuzz_byte(in);
    limited = getenv("HAKMEM_LIMIT") != NULL;
    exact = background != NULL && strcmp(background, "0") == 0;
    heap_rules.xmay_refuse = limited;
    getrlimit(RLIMIT_AS, &limit_before);
    live_before = live_now();
}

/* Lets other threads run at times. Time passes only by the system's clock. */
void world_pass_ms(uint64_t ms)
{
    if (ms % 8 == 0)
        sched_yield();
}

static size_t address_space(void)
{
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    return got > 0 ? strtoul(text, NULL, 10) * PAGE : 0;
}

/* Leaves only a little address space. */
void world_refuse(uint8_t plan)
{
    struct rlimit limit = {address_space() + ROOM_FOR_STACKS + (size_t)plan * STEP, limit_before.rlim_max};
    heap_rules.xmay_refuse = true;
    setrlimit(RLIMIT_AS, &limit);
}

void world_heal(void)
{
    setrlimit(RLIMIT_AS, &limit_before);
    heap_rules.xmay_refuse = limited;
}

void world_check(void)
{
    struct hak_stats stats;
    if (hak_get_stats(&stats, sizeof stats) != 0) {
        FUZZ_CHECK(heap_rules.xmay_refuse);
        return;
    }
    uint64_t parts = stats.live + stats.rounding + stats.large_live + stats.thread_caches + stats.remote_pending +
                     stats.free_in_slabs + stats.slab_tails + stats.large_cached + stats.idle + stats.metadata +
                     stats.metadata_spare;
    FUZZ_CHECK(!exact || parts == stats.mapped, "(%lu of %lu bytes)", (unsigned long)parts,
               (unsigned long)stats.mapped);
    FUZZ_CHECK(!exact || stats.live_blocks >= heap_rules.xlive, "(%lu blocks for %lu)",
               (unsigned long)stats.live_blocks, (unsigned long)heap_rules.xlive);
    FUZZ_CHECK(stats.mallocs >= stats.frees && stats.size == sizeof stats);
}

void world_report(uint8_t form)
{
    char *name = form % 4 == 0 ? NULL : "/dev/null";
    if (name != NULL)
        FUZZ_CHECK(hak_report(name) == 0 || heap_rules.xmay_refuse);
    world_check();
}

void world_in_child(unsigned gone) { exact = exact && gone == 0; }
