#include "unit/fuzz/world.h"

#include <stdio.h>

#include "unit/fuzz/heap_block.h"
#include "hakmem.h"
#include "unit/fake_os.h"
#include "unit/invariants.h"

enum { OPTIONS_MOST = 4 };

static const char *const options[] = {
    "HAKMEM_LEARN=off",       "HAKMEM_LEARN=canary",      "HAKMEM_LEARN_DELAY=off",    "HAKMEM_LEARN_CROWD=on",
    "HAKMEM_BIN_CAP=1",       "HAKMEM_BIN_CAP=15",        "HAKMEM_SLAB_BLOCKS=1",      "HAKMEM_SLAB_BLOCKS=3",
    "HAKMEM_SLAB_BLOCKS=64",  "HAKMEM_THREAD_CACHE=0",    "HAKMEM_THREAD_CACHE=64k",   "HAKMEM_DEPOT=0",
    "HAKMEM_PURGE_DELAY=0",   "HAKMEM_PURGE_DELAY=10",    "HAKMEM_LARGE_CACHE=0",      "HAKMEM_LARGE_CACHE=4m",
    "HAKMEM_LARGE_FIT=100",   "HAKMEM_HUGE_PAGES_FROM=0", "HAKMEM_HUGE_PAGES_FROM=1",  "HAKMEM_HUGE_BLOCKS_FROM=1",
    "HAKMEM_CEILING=1m",      "HAKMEM_GOAL=16m",          "HAKMEM_LIMIT=8m",           "HAKMEM_LIMIT=64m",
    "HAKMEM_HEAP_SAMPLE=1k",  "HAKMEM_TRACE_RING=64",     "HAKMEM_SITE_RULES=on",      "HAKMEM_SITE_RULES=watch",
    "HAKMEM_PROFILE=compact", "HAKMEM_PROFILE=debug",     "HAKMEM_PROFILE=throughput", "HAKMEM_REUSE_WORTH=1",
};
static char *environment[OPTIONS_MOST + 1];
static bool limited, exact;
static uint64_t plan_n, plan_k;

/* Keeps the core from starting in this process. The core starts in the children of FORK targets. */
void world_prepare(void)
{
    fake_os_reset();
    fake_os.refuse = fake_refuse_all;
}

void world_reset(void) { fake_os_reset(); }

void world_begin(struct fuzz_input *in)
{
    unsigned count = (unsigned)fuzz_below(in, OPTIONS_MOST + 1);
    limited = false;
    exact = true;
    for (unsigned i = 0; i < count; i++) {
        const char *option = options[fuzz_below(in, sizeof options / sizeof options[0])];
        environment[i] = (char *)(uintptr_t)option;
        limited |= strstr(option, "LIMIT=") != NULL;
    }
    environment[count] = NULL;
    fake_os.environment = environment;
    fake_os.places_taken = fuzz_below(in, 16) == 1;
    if (fuzz_below(in, 16) == 1)
        fake_os.address_limit = (size_t)1 << 32;
    fake_os_capture();
    heap_rules.xmay_refuse = limited;
}

void world_pass_ms(uint64_t ms) { fake_os_pass_ms(ms); }

static bool every_nth(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    return ordinal % plan_n == plan_k;
}

static bool at_random(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    uint64_t mixed = (ordinal ^ plan_k << 32) * 0x9E3779B97F4A7C15u;
    return (mixed ^ mixed >> 29) % plan_n == 0;
}

void world_refuse(uint8_t plan)
{
    static fake_refuse *const kinds[] = {fake_refuse_map,   fake_refuse_mappings, fake_refuse_unmap, fake_refuse_purge,
                                         fake_refuse_remap, fake_refuse_all,      every_nth,         at_random};
    heap_rules.xmay_refuse = true;
    plan_n = 2 + plan / 8 % 8;
    plan_k = plan / 64;
    fake_os_refuse(kinds[plan % 8]);
}

void world_heal(void)
{
    fake_os_refuse(NULL);
    heap_rules.xmay_refuse = limited;
}

void world_check(void)
{
    static struct hk_heap_stats heap_stats;
    const char *wrong = heap_is_wrong(&heap_stats);
    uint64_t live = heap_stats.sum.live_blocks + heap_stats.tiers[HK_TIER_LARGE].live_blocks;
    FUZZ_CHECK(wrong == NULL, "(%s)", wrong);
    FUZZ_CHECK(exact ? live == heap_rules.xlive : live >= heap_rules.xlive, "(%lu blocks for %lu)", (unsigned long)live,
               (unsigned long)heap_rules.xlive);
    FUZZ_CHECK(!exact || heap_stats.mallocs >= live, "(%lu mallocs, %lu live)", (unsigned long)heap_stats.mallocs,
               (unsigned long)live);
}

void world_report(uint8_t form)
{
    struct hak_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    if (form % 2 == 0) {
        if (hak_get_stats(&stats, sizeof stats) == 0)
            FUZZ_CHECK(stats.live + stats.rounding + stats.large_live + stats.thread_caches + stats.remote_pending +
                           stats.free_in_slabs + stats.slab_tails + stats.large_cached + stats.idle + stats.metadata +
                           stats.metadata_spare ==
                       stats.mapped);
        else
            FUZZ_CHECK(heap_rules.xmay_refuse);
        return;
    }
    fake_os_capture();
    if (hak_report("-") == 0)
        FUZZ_CHECK(strncmp(fake_os.captured, "HAKMEM", 6) == 0 || strncmp(fake_os.captured, "hakmem", 6) == 0,
                   "(%.40s)", fake_os.captured);
    else
        FUZZ_CHECK(heap_rules.xmay_refuse);
    fake_os_capture();
}

void world_in_child(unsigned gone) { exact = exact && gone == 0; }
