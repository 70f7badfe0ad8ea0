/* A plugin of QEMU's user mode that counts transfers of cache lines. Each thread of the program runs on a core of its own, and each core has an
 * infinite cache. So a core misses a line only if it has never had it, or if another core has written to it since (MESI).
 *   load of a line that other cores hold and this core does not    1 transfer
 *   store to a line that any other core holds                      1 transfer
 * One thread runs at a time, for a random number of accesses (`slice` on average), and then the next one. So the result does not depend on the
 * processors of the host. An access is the allocator's if code of its library makes it, or if it is made during a call of one of its functions.
 *
 *   qemu-x86_64 -plugin liblines.so,lib=NAME,whole=on,entry=OFFSET,...,slice=N,out=FILE PROGRAM
 *
 * The program begins and ends the count by prctl(MARK, 1) and prctl(MARK, 0). lines.py runs the plugin and reads FILE. */
#include "lines_directory.h"
#include "lines_turns.h"
#include "qemu_plugin.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- what is counted --------------------------------------------------- */

enum part { PROGRAM, ALLOCATOR, PARTS };

/* A translated instruction. */
struct place {
    uintptr_t offset; /* from the begin of the allocator's library */
    struct place *next;
    uint64_t transfers;
    bool own, atomic, returns, pauses;
};

static struct place *places;
static struct {
    uint64_t accesses, transfers, atomics;
} counts[PARTS];
static uint64_t needed;
static bool counting;
static uintptr_t guest_base; /* host address of the program's address 0 */
static const char *out_path;

enum { ENTRIES = 16, NOTABLE = 100 }; /* lines with fewer transfers are not printed */
static struct {
    const char *name;
    bool whole;                          /* all code is the allocator's, which is not so in the C library */
    uintptr_t low, high, entry[ENTRIES]; /* `entry` has the offsets of malloc, free and so on */
    unsigned entries;
} library;

/* Prints, after the sums, the instructions of the allocator and the lines that had transfers, so that their cause can be found. */
static void print_result(void)
{
    FILE *out = expect(fopen(out_path, "w"));
    fprintf(out, "{\"needed\": %" PRIu64 ", \"library\": %" PRIuPTR ", \"parts\": [", needed, library.low - guest_base);
    for (unsigned i = 0; i < PARTS; i++)
        fprintf(out, "%s{\"accesses\": %" PRIu64 ", \"transfers\": %" PRIu64 ", \"atomics\": %" PRIu64 "}",
                i ? ", " : "", counts[i].accesses, counts[i].transfers, counts[i].atomics);
    fprintf(out, "], \"places\": [[0, 0]");
    for (const struct place *place = places; place != NULL; place = place->next) {
        if (place->own && place->transfers != 0)
            fprintf(out, ",\n[%" PRIuPTR ", %" PRIu64 "]", place->offset, place->transfers);
    }
    fprintf(out, "], \"lines\": [[0, 0]");
    for (unsigned bucket = 0; bucket < 1u << BUCKETS_LOG2; bucket++) {
        for (const struct page *page = pages[bucket]; page != NULL; page = page->next) {
            for (unsigned i = 0; i < PAGE_LINES; i++) {
                if (page->line[FULL][i].transfers >= NOTABLE)
                    fprintf(out, ",\n[%" PRIu64 ", %u]", page->number << 12 | i << 6, page->line[FULL][i].transfers);
            }
        }
    }
    fprintf(out, "]}\n");
    fclose(out);
}

/* ---- what QEMU calls --------------------------------------------------- */

static void count_access(const struct thread *t, struct place *place, uint64_t address, bool store)
{
    enum part part = place->own || t->inside != 0 ? ALLOCATOR : PROGRAM;
    struct line *line = line_of(address, FULL);
    bool moved = touch(line, t->core, store);
    bool needs = part == PROGRAM && touch(line_of(address, NEEDED), t->core, store);
    if (!counting)
        return;
    counts[part].accesses++;
    counts[part].atomics += place->atomic && store;
    counts[part].transfers += moved;
    needed += needs;
    place->transfers += moved;
    line->transfers += moved && part == ALLOCATOR;
}

static void on_access(unsigned vcpu, uint32_t info, uint64_t address, void *data)
{
    struct thread *t = &threads[vcpu];
    struct place *place = data;
    bool store = qemu_plugin_mem_is_store(info);
    uint64_t last = address + ((uint64_t)1 << qemu_plugin_mem_size_shift(info)) - 1;
    if (over || must_run_on(t))
        return;
    if (!t->has_turn)
        take_turn(t);
    count_access(t, place, address, store);
    if ((address ^ last) >> 6 != 0)
        count_access(t, place, last, store);
    if (store)
        t->last_store = address;
    else if (place->returns && address == t->inside)
        t->inside = 0;
    if (--t->left == 0)
        end_turn(t);
}

/* A function of the allocator begins. The call instruction has just stored the return address. */
static void on_entry(unsigned vcpu, void *data)
{
    struct thread *t = &threads[vcpu];
    (void)data;
    if (t->inside == 0)
        t->inside = t->last_store;
}

/* The thread waits for another one, by the instruction pause. */
static void on_pause(unsigned vcpu, void *data)
{
    struct thread *t = &threads[vcpu];
    (void)data;
    if (t->has_turn && !over)
        end_turn(t);
}

/* The numbers of system calls on x86-64, and of our own request of prctl. */
enum {
    READ = 0,
    POLL = 7,
    MUNMAP = 11,
    SELECT = 23,
    SCHED_YIELD = 24,
    MADVISE = 28,
    NANOSLEEP = 35,
    CLONE = 56,
    EXIT = 60,
    WAIT4 = 61,
    PRCTL = 157,
    FUTEX = 202,
    GETAFFINITY = 204,
    CLOCK_GETTIME = 228,
    CLOCK_NANOSLEEP = 230,
    EXIT_GROUP = 231,
    EPOLL_WAIT = 232,
    PPOLL = 271,
    MARK = 0x4C494E45
};

static bool may_block(int64_t number, uint64_t a2)
{
    static const int64_t waits[] = {READ, POLL, SELECT, NANOSLEEP, WAIT4, CLOCK_NANOSLEEP, EPOLL_WAIT, PPOLL};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        if (number == waits[i])
            return true;
    }
    return number == FUTEX && (a2 & 127) != FUTEX_WAKE;
}

static void end_program(void)
{
    print_result();
    pthread_mutex_lock(&lock);
    over = true;
    for (unsigned i = 0; i <= highest; i++)
        pthread_cond_signal(&threads[i].turn);
    pthread_mutex_unlock(&lock);
}

static void on_syscall(plugin_id id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
                       uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    struct thread *t = &threads[vcpu];
    (void)id, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (over)
        return;
    t->told = number == GETAFFINITY ? a3 : a2;
    t->joins_seen = joins;
    t->wakes = number == CLONE ? forked : number == FUTEX && (a2 & 127) == FUTEX_WAKE;
    if (number == CLONE && !forked) {
        forked = true;
        xforking = t;
    }
    if (number == PRCTL && a1 == MARK)
        counting = a2 != 0;
    else if (number == MUNMAP || (number == MADVISE && a3 == MADV_DONTNEED))
        forget(a1, a2);
    else if (number == SCHED_YIELD)
        end_turn(t);
    else if (number == EXIT_GROUP)
        end_program();
    else if (number == EXIT || may_block(number, a2))
        leave(t, number == EXIT);
}

/* The program sees as many processors as the kernel's mask has room for, and a clock on which an access takes a nanosecond. So the allocator does
 * not adapt to the few processors of the host and to the slowness of the emulator. */
static void on_syscall_end(plugin_id id, unsigned vcpu, int64_t number, int64_t result)
{
    struct thread *t = &threads[vcpu];
    void *told = (void *)(t->told + guest_base);
    (void)id;
    if (over)
        return;
    if (!t->has_turn)
        take_turn(t);
    if (t->wakes && result > 0)
        wait_for_joins(t, number == CLONE ? 1 : (uint64_t)result);
    if (number == GETAFFINITY && result > 0)
        memset(told, 0xFF, (size_t)result);
    else if (number == CLOCK_GETTIME && result == 0)
        *(struct timespec *)told =
            (struct timespec){1000 + (time_t)(picoseconds / 1000000000000), (long)(picoseconds / 1000 % 1000000000)};
}

/* ---- translation ------------------------------------------------------- */

static struct {
    uintptr_t low, high;
} qemus;

/* Finds where the program has loaded the library. QEMU itself may have the C library too, before the program starts. */
static void find_library(void)
{
    FILE *maps = expect(fopen("/proc/self/maps", "r"));
    char text[512];
    while (fgets(text, sizeof text, maps) != NULL) {
        uintptr_t low, high;
        char *name = strrchr(text, '/');
        if (name == NULL || sscanf(text, "%" SCNxPTR "-%" SCNxPTR, &low, &high) != 2)
            continue;
        name[strcspn(name, "\n")] = '\0';
        if (strcmp(name + 1, library.name) == 0 && (low < qemus.low || low >= qemus.high)) {
            library.low = library.low == 0 ? low : library.low;
            library.high = high;
        }
    }
    fclose(maps);
}

static struct place *place_of(const struct qemu_plugin_insn *at)
{
    static const uint8_t prefixes[] = {0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3};
    uintptr_t pc = (uintptr_t)qemu_plugin_insn_haddr(at);
    const uint8_t *code = qemu_plugin_insn_data(at), *end = code + qemu_plugin_insn_size(at);
    struct place *place = expect(calloc(1, sizeof *place));
    place->offset = pc - library.low;
    place->own = library.whole && pc >= library.low && pc < library.high;
    place->pauses = code[0] == 0xF3 && code[1] == 0x90;
    for (; code + 1 < end && (memchr(prefixes, *code, sizeof prefixes) != NULL || *code >> 4 == 4); code++)
        place->atomic |= *code == 0xF0;
    /* xchg with memory is atomic without the prefix lock */
    place->atomic |= (*code == 0x86 || *code == 0x87) && code[1] < 0xC0;
    place->returns = *code == 0xC3 || *code == 0xC2;
    place->next = places;
    return places = place;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *block)
{
    static pthread_mutex_t translating = PTHREAD_MUTEX_INITIALIZER;
    (void)id;
    pthread_mutex_lock(&translating);
    if (library.low == 0)
        find_library();
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        struct qemu_plugin_insn *at = qemu_plugin_tb_get_insn(block, i);
        struct place *place = place_of(at);
        guest_base = (uintptr_t)qemu_plugin_insn_haddr(at) - qemu_plugin_insn_vaddr(at);
        qemu_plugin_register_vcpu_mem_cb(at, on_access, NO_REGISTERS, LOADS_AND_STORES, place);
        if (place->pauses)
            qemu_plugin_register_vcpu_insn_exec_cb(at, on_pause, NO_REGISTERS, NULL);
        for (unsigned k = 0; library.low != 0 && k < library.entries; k++) {
            if (place->offset == library.entry[k])
                qemu_plugin_register_vcpu_insn_exec_cb(at, on_entry, NO_REGISTERS, NULL);
        }
    }
    pthread_mutex_unlock(&translating);
}

int qemu_plugin_version = 1;

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        const char *value = expect(strchr(argv[i], '=')) + 1;
        if (strncmp(argv[i], "lib=", 4) == 0)
            library.name = strdup(value);
        else if (strncmp(argv[i], "whole=", 6) == 0)
            library.whole = strcmp(value, "on") == 0;
        else if (strncmp(argv[i], "entry=", 6) == 0 && library.entries < ENTRIES)
            library.entry[library.entries++] = (uintptr_t)strtoull(value, NULL, 16);
        else if (strncmp(argv[i], "slice=", 6) == 0)
            slice = (unsigned)strtoul(value, NULL, 10);
        else if (strncmp(argv[i], "out=", 4) == 0)
            out_path = strdup(value);
    }
    if (library.name == NULL || out_path == NULL || slice == 0)
        return 1;
    find_library();
    qemus.low = library.low;
    qemus.high = library.high;
    library.low = library.high = 0;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_end);
    return 0;
}
