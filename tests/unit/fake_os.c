#include "unit/fake_os.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

struct fake_os fake_os;

static struct hk_os real;
static char *no_environment[] = {NULL};
/* With HAKMEM_LIBRARY in the environment, HAKMEM's start runs when the process begins, and this start fails. Otherwise the process that runs all
 * tests would get HAKMEM's fork handlers. */
static char *begins_at_once[] = {"HAKMEM_LIBRARY=", NULL};

static bool refused(enum fake_call call)
{
    uint64_t ordinal = hk_add(fake_os.xtotal, 1) + 1;
    hk_add(fake_os.xcalls[call], 1);
    if (fake_os.refuse == NULL || !fake_os.refuse(call, ordinal))
        return false;
    hk_add(fake_os.xrefused, 1);
    return true;
}

static void *fake_map(size_t size) { return refused(FAKE_MAP) ? NULL : real.map(size); }

static enum hk_placed fake_map_at(void *p, size_t size)
{
    if (refused(FAKE_MAP_AT))
        return HK_PLACE_REFUSED;
    return fake_os.places_taken ? HK_PLACE_TAKEN : real.map_at(p, size);
}

static bool fake_unmap(void *p, size_t size) { return !refused(FAKE_UNMAP) && real.unmap(p, size); }
static bool fake_unseal(void *p, size_t size) { return !refused(FAKE_UNSEAL) && real.unseal(p, size); }
static bool fake_seal(void *p, size_t size) { return !refused(FAKE_SEAL) && real.seal(p, size); }

/* Aborts if the thread still holds a lock that it held during an earlier purge or change of protection. */
static void expect_a_hold_of_its_own(void)
{
    uint32_t still_held = HK_DEBUG ? hk_locks_still_held() : 0;
    if (still_held != 0) {
        (void)fprintf(stderr, "fake_os: locks of the ranks 0x%x are held over a second purge\n", still_held);
        abort();
    }
}

static bool fake_purge(void *p, size_t size)
{
    expect_a_hold_of_its_own();
    return !refused(FAKE_PURGE) && real.purge(p, size);
}

static bool fake_purge_all(const struct hk_os_range *ranges, size_t count)
{
    expect_a_hold_of_its_own();
    return !refused(FAKE_PURGE_ALL) && real.purge_all(ranges, count);
}

static bool fake_populate(void *p, size_t size) { return !refused(FAKE_POPULATE) && real.populate(p, size); }

static bool fake_bar(void *p, size_t size)
{
    /* A guard page after a slab or a region was never in use, so barring it is not checked. Growth is not checked because the heap may grow twice
     * while the lock of the page heap is held. */
    if (HK_DEBUG && size > hk_system_page() && !hk_lock_is_held(HK_RANK_PAGE_HEAP))
        expect_a_hold_of_its_own();
    return !refused(FAKE_BAR) && real.bar(p, size);
}

static bool fake_unbar(void *p, size_t size) { return !refused(FAKE_UNBAR) && real.unbar(p, size); }

static bool fake_can_fence(void) { return !refused(FAKE_FENCE) && real.can_fence(); }
static bool fake_fence_threads(void) { return !refused(FAKE_FENCE) && real.fence_threads(); }

/* Valgrind 3.19 sometimes reports writes to the memory by which mremap has lengthened a mapping that it moves. */
static void tell_valgrind_mapped(void *p, size_t size)
{
#if __has_include(<valgrind/memcheck.h>)
    (void)VALGRIND_MAKE_MEM_DEFINED(p, size);
#else
    (void)p, (void)size;
#endif
}

/* Valgrind prints a message for each invalid call by which the real function probes an address, and it reports an error if memcheck does not know the
 * memory there. */
static bool fake_readable(uintptr_t address)
{
#if __has_include(<valgrind/memcheck.h>)
    enum { NO_VALGRIND = 0, ADDRESSABLE = 1 };
    uintptr_t unused;
    unsigned answer = VALGRIND_GET_VBITS(address, &unused, sizeof unused);
    if (answer != NO_VALGRIND)
        return answer == ADDRESSABLE;
#endif
    return real.readable(address);
}

static bool fake_remap(void *p, size_t old_size, size_t new_size, void *to)
{
    if (refused(FAKE_REMAP) || !real.remap(p, old_size, new_size, to))
        return false;
    if (new_size > old_size)
        tell_valgrind_mapped((char *)(to != NULL ? to : p) + old_size, new_size - old_size);
    return true;
}

static void *fake_move(void *p, size_t old_size, size_t new_size)
{
    return refused(FAKE_REMAP) ? NULL : real.move(p, old_size, new_size);
}

static bool fake_resident(const void *p, size_t size, unsigned char *pages)
{
    return !refused(FAKE_RESIDENT) && real.resident(p, size, pages);
}

static bool fake_unfiltered(void) { return true; }

static int fake_open(const char *path) { return refused(FAKE_OPEN) ? -1 : real.open(path); }

static size_t fake_read(int fd, char *bytes, size_t size)
{
    enum { AT_ONCE = 7 };
    if (fake_os.file == NULL)
        return real.read(fd, bytes, size);
    size_t left = strlen(fake_os.file), taken = left < AT_ONCE ? left : AT_ONCE;
    memcpy(bytes, fake_os.file, taken);
    fake_os.file += taken;
    return taken;
}

static uint64_t fake_clock_ms(void) { return hk_load(fake_os.xclock_ms); }
static size_t fake_address_limit(void) { return fake_os.address_limit; }

/* Returns the variables of fake_os.environment, behind HAKMEM_CONF if a test has set it. */
static char **fake_environment(void)
{
    static char conf[8192], *all[64];
    unsigned count = 0;
    if (fake_os.conf == NULL)
        return fake_os.environment;
    snprintf(conf, sizeof conf, "HAKMEM_CONF=%s", fake_os.conf);
    all[count++] = conf;
    for (char **entry = fake_os.environment; *entry != NULL; entry++)
        all[count++] = *entry;
    all[count] = NULL;
    return all;
}

static void fake_write(int fd, const void *bytes, size_t size)
{
    if (!fake_os.capturing) {
        real.write(fd, bytes, size);
        return;
    }
    size_t room = sizeof fake_os.captured - 1 - fake_os.captured_bytes;
    size_t kept = size < room ? size : room;
    memcpy(fake_os.captured + fake_os.captured_bytes, bytes, kept);
    fake_os.captured_bytes += kept;
    fake_os.captured[fake_os.captured_bytes] = 0;
}

static size_t read_fake_file(const char *path, char *bytes, size_t size)
{
    const struct fake_file *file = fake_os.files;
    while (file->path != NULL && strcmp(file->path, path) != 0)
        file++;
    int used = snprintf(bytes, size, "%s", file->path != NULL ? file->text : "");
    return (size_t)used < size ? (size_t)used : size - 1;
}

static uint64_t fake_memory_total(void) { return fake_os.memory_total; }
static uint64_t fake_cpus(void) { return fake_os.cpus; }

/* Returns the text of a fake file. In /proc/self/stat, field 47 is the start of the break heap, and the fields before it have arbitrary values. */
static size_t fake_read_file(const char *path, char *bytes, size_t size)
{
    if (fake_os.files != NULL)
        return read_fake_file(path, bytes, size);
    bool of_huge_pages = strncmp(path, "/sys/kernel/mm/", strlen("/sys/kernel/mm/")) == 0;
    if (of_huge_pages) {
        bytes[0] = 0; /* The file reads as empty because tests must not depend on the machine's mode of huge pages. */
        return 0;
    }
    if (fake_os.break_start == 0 || strcmp(path, "/proc/self/stat") != 0)
        return real.read_file(path, bytes, size);
    int used = snprintf(bytes, size, "1 (a name) with) brackets)");
    for (int field = 3; field < 47; field++)
        used += snprintf(bytes + used, size - (size_t)used, " %d", field);
    used += snprintf(bytes + used, size - (size_t)used, " %lu 48 49", (unsigned long)fake_os.break_start);
    return (size_t)used;
}

static uintptr_t fake_program_break(void)
{
    return fake_os.break_start == 0 ? real.program_break() : fake_os.break_end;
}

bool fake_refuse_all(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    (void)ordinal;
    return true;
}

#define REFUSE_KIND(name, kind)                                                                                        \
    bool name(enum fake_call call, uint64_t ordinal)                                                                   \
    {                                                                                                                  \
        (void)ordinal;                                                                                                 \
        return call == (kind);                                                                                         \
    }
REFUSE_KIND(fake_refuse_map, FAKE_MAP)
bool fake_refuse_mappings(enum fake_call call, uint64_t ordinal)
{
    (void)ordinal;
    return call == FAKE_MAP || call == FAKE_MAP_AT;
}
REFUSE_KIND(fake_refuse_unmap, FAKE_UNMAP)
REFUSE_KIND(fake_refuse_unseal, FAKE_UNSEAL)
REFUSE_KIND(fake_refuse_seal, FAKE_SEAL)
REFUSE_KIND(fake_refuse_purge, FAKE_PURGE)
REFUSE_KIND(fake_refuse_remap, FAKE_REMAP)
REFUSE_KIND(fake_refuse_open, FAKE_OPEN)
REFUSE_KIND(fake_refuse_resident, FAKE_RESIDENT)
REFUSE_KIND(fake_refuse_bar, FAKE_BAR)
REFUSE_KIND(fake_refuse_unbar, FAKE_UNBAR)
REFUSE_KIND(fake_refuse_fence, FAKE_FENCE)

void fake_os_refuse(fake_refuse *refuse)
{
    for (int call = 0; call < FAKE_CALLS; call++)
        hk_store(fake_os.xcalls[call], 0);
    hk_store(fake_os.xtotal, 0);
    hk_store(fake_os.xrefused, 0);
    fake_os.refuse = refuse;
}

void fake_os_reset(void)
{
    fake_os_refuse(NULL);
    hk_store(fake_os.xclock_ms, 1000000);
    fake_os.address_limit = SIZE_MAX;
    fake_os.places_taken = false;
    fake_os.conf = NULL;
    fake_os.environment = no_environment;
    fake_os.files = NULL;
    fake_os.memory_total = (uint64_t)8 << 30;
    fake_os.cpus = 4;
    fake_os.break_start = fake_os.break_end = 0;
    fake_os.file = NULL;
    fake_os.capturing = false;
}

uint64_t fake_os_calls(enum fake_call call) { return hk_load(fake_os.xcalls[call]); }
void fake_os_pass_ms(uint64_t ms) { hk_add(fake_os.xclock_ms, ms); }

void fake_os_capture(void)
{
    fake_os.capturing = true;
    fake_os.captured_bytes = 0;
    fake_os.captured[0] = 0;
}

/* 101 is the earliest priority, so this runs before HAKMEM's own constructor. */
__attribute__((constructor(101))) static void replace_the_system(void)
{
    real = hk_os;
    hk_os.map = fake_map;
    hk_os.map_at = fake_map_at;
    hk_os.unmap = fake_unmap;
    hk_os.purge = fake_purge;
    hk_os.populate = fake_populate;
    hk_os.purge_all = fake_purge_all;
    hk_os.remap = fake_remap;
    hk_os.move = fake_move;
    hk_os.resident = fake_resident;
    hk_os.unfiltered = fake_unfiltered;
    hk_os.open = fake_open;
    hk_os.read = fake_read;
    hk_os.readable = fake_readable;
    hk_os.clock_ms = fake_clock_ms;
    hk_os.write = fake_write;
    hk_os.address_limit = fake_address_limit;
    hk_os.environment = fake_environment;
    hk_os.read_file = fake_read_file;
    hk_os.program_break = fake_program_break;
    hk_os.memory_total = fake_memory_total;
    hk_os.cpus = fake_cpus;
    hk_os.seal = fake_seal;
    hk_os.unseal = fake_unseal;
    hk_os.bar = fake_bar;
    hk_os.unbar = fake_unbar;
    hk_os.can_fence = fake_can_fence;
    hk_os.fence_threads = fake_fence_threads;
    fake_os_reset();
    fake_os.refuse = fake_refuse_all;
    fake_os.environment = begins_at_once;
}
