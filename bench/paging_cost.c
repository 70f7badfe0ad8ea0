/* Measures what pages cost on this machine, and prints JSON: the time of a fault on a page of 4 KiB and on a huge page, and the time of a TLB
 * miss for a small page.
 *
 * Faults  mapped memory is touched page by page. The time includes the zeroing.
 * TLB     a chain of cache lines is followed, on small pages and on huge pages. The chain has one line in each of LINES pages, in random order. The
 *         caches hold the same lines in both cases, but only the translations of huge pages fit into the TLB. So the difference is the time of a
 *         page walk.
 * Each figure is the smallest of TRIES tries, because disturbances only increase it. A figure is -1 if the kernel does not provide the page size. */
#include "bench_common.h"

#define SMALL ((size_t)4096)
#define HUGE ((size_t)2 << 20)
#define ROOM ((size_t)128 << 20) /* the size of a program's heap; the heap's page tables fit into the L2 cache */
#define LINE ((size_t)64)
#define LINES (ROOM / SMALL) /* 2 MiB of lines, in ten times as many pages as a TLB has entries */
#define TRIES 7
#define LAPS 10

/* Returns the processor time of this thread, which excludes the time of other processes. */
static double now_ns(void) { return bench_read_clock(CLOCK_THREAD_CPUTIME_ID) * 1e9; }

/* Returns true if all ROOM bytes from `place` on are on huge pages. If `huge` is false, returns true if all are on small pages. */
static bool is_on(const char *place, bool huge)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char text[512];
    unsigned long from, to;
    bool inside = false;
    long kib = 0;
    while (maps != NULL && fgets(text, sizeof text, maps) != NULL) {
        if (sscanf(text, "%lx-%lx ", &from, &to) == 2)
            inside = from <= (uintptr_t)place && (uintptr_t)place < to;
        else if (inside)
            sscanf(text, "AnonHugePages: %ld", &kib);
    }
    if (maps != NULL)
        fclose(maps);
    return kib == (huge ? (long)(ROOM >> 10) : 0);
}

/* Returns ROOM untouched bytes at a multiple of HUGE. They will be on huge pages if `huge` is true, and otherwise on small pages. */
static char *fresh(bool huge)
{
    char *whole = bench_map(ROOM + HUGE);
    char *place = whole + (HUGE - (uintptr_t)whole % HUGE) % HUGE;
    munmap(place + ROOM, (size_t)(whole + HUGE - place));
    if (place != whole)
        munmap(whole, (size_t)(place - whole));
    madvise(place, ROOM, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return place;
}

static double touch(char *place, size_t step)
{
    double begin = now_ns();
    for (size_t at = 0; at < ROOM; at += step)
        ((volatile char *)place)[at] = 1;
    return (now_ns() - begin) / (double)(ROOM / step);
}

/* Returns the time of a fault. The first round does not count, because the host may have to provide the memory then. */
static double fault_ns(bool huge)
{
    double least = -1;
    for (int round = 0; round <= TRIES; round++) {
        char *place = fresh(huge);
        double ns = touch(place, huge ? HUGE : SMALL);
        bool as_meant = is_on(place, huge);
        munmap(place, ROOM);
        if (as_meant && round > 0 && (least < 0 || ns < least))
            least = ns;
    }
    return least;
}

static void **line_of(char *place, size_t page)
{
    size_t line = page * 7 % (SMALL / LINE); /* differs between pages, so that all lines together use all cache sets */
    return (void **)(void *)(place + page * SMALL + line * LINE);
}

/* Links all lines in one random cycle (Sattolo's shuffle). */
static void chain(char *place)
{
    static uint32_t order[LINES];
    bench_rng rng = bench_rng_seed(1);
    for (uint32_t i = 0; i < LINES; i++)
        order[i] = i;
    for (uint32_t i = LINES - 1; i > 0; i--) {
        uint32_t other = (uint32_t)bench_pick_high(bench_rng_next(&rng), i), mine = order[i];
        order[i] = order[other];
        order[other] = mine;
    }
    for (uint32_t i = 0; i < LINES; i++)
        *line_of(place, order[i]) = line_of(place, order[(i + 1) % LINES]);
}

static double lap_ns(char *place)
{
    void **at = line_of(place, 0);
    double begin = now_ns();
    for (size_t step = 0; step < LAPS * LINES; step++)
        at = *(void **volatile *)at;
    return (now_ns() - begin) / (LAPS * (double)LINES);
}

static char *chained(bool huge)
{
    char *place = fresh(huge);
    touch(place, SMALL);
    chain(place);
    return is_on(place, huge) ? place : NULL;
}

/* Measures the time of a step on small and on huge pages in turns, so that a slow period of the machine affects both. */
static void steps_ns(double least[2])
{
    char *places[2] = {chained(false), chained(true)};
    least[0] = least[1] = -1;
    for (int round = 0; round <= TRIES; round++)
        for (int kind = 0; kind < 2; kind++) {
            double ns = places[kind] != NULL ? lap_ns(places[kind]) : -1;
            if (round > 0 && (least[kind] < 0 || ns < least[kind]))
                least[kind] = ns;
        }
}

int main(void)
{
    double small_fault = fault_ns(false), huge_fault = fault_ns(true), steps[2];
    steps_ns(steps);
    bool known = steps[0] >= 0 && steps[1] >= 0;
    double miss = !known ? -1 : steps[0] > steps[1] ? steps[0] - steps[1] : 0;
    printf("{\"fault_ns\": %.0f, \"huge_fault_ns\": %.0f, \"step_ns\": %.2f, \"huge_step_ns\": %.2f, "
           "\"tlb_miss_ns\": %.2f}\n",
           small_fault, huge_fault, steps[0], steps[1], miss);
    return 0;
}
