/* Fake OS: counts system calls, refuses those that a test picks, and moves the clock only when told.
 *
 *   core -> hk_os (replaced) -> counted -> refuse(call, ordinal)? -> the real table
 *
 * All calls are refused at first, so that HAKMEM's constructor cannot start it: main() runs before the first allocation, and
 * each test decides how the start goes.
 * Threads  counting: any. All else is set while no other thread is in the core. */
#ifndef TEST_FAKE_OS_H
#define TEST_FAKE_OS_H

#include "base/base.h"
#include "os/os.h"

enum fake_call {
    FAKE_MAP,
    FAKE_MAP_AT,
    FAKE_UNMAP,
    FAKE_UNSEAL,
    FAKE_SEAL,
    FAKE_PURGE,
    FAKE_REMAP,
    FAKE_OPEN,
    FAKE_RESIDENT,
    FAKE_BAR,
    FAKE_UNBAR,
    FAKE_FENCE,
    FAKE_CALLS
};

typedef bool fake_refuse(enum fake_call call, uint64_t ordinal);

struct fake_os {
    _Atomic uint64_t xcalls[FAKE_CALLS]; /* made, refused ones included */
    _Atomic uint64_t xtotal;             /* of all kinds */
    _Atomic uint64_t xrefused;
    _Atomic uint64_t xclock_ms;
    fake_refuse *refuse;  /* NULL: nothing is; ordinals of all kinds together begin at 1 */
    size_t address_limit; /* SIZE_MAX: none */
    bool places_taken;    /* no address can be chosen */
    const char *conf;     /* HAKMEM_CONF */
    char **environment;
    const struct fake_file {
        const char *path, *text;
    } * files; /* that there are, up to a path of NULL, where this is not NULL; else the real ones */
    uint64_t memory_total, cpus;
    uintptr_t break_start, break_end; /* where another allocator's heap is said to be; 0: the real one */
    const char *file;                 /* the content of all files, a few bytes at a time; NULL: the real files */
    bool capturing;                   /* writes go to `captured`, always a string */
    size_t captured_bytes;
    char captured[65536];
};

extern struct fake_os fake_os;

/* A healthy system, counts and clock at their beginning. */
void fake_os_reset(void);

/* Counts from zero again, refusals as `refuse` says. */
void fake_os_refuse(fake_refuse *refuse);

uint64_t fake_os_calls(enum fake_call call);
void fake_os_pass_ms(uint64_t ms);

/* Empties `captured` and captures on. */
void fake_os_capture(void);

/* Ready-made refusals. */
fake_refuse fake_refuse_all, fake_refuse_map, fake_refuse_mappings, fake_refuse_unmap, fake_refuse_unseal,
    fake_refuse_seal, fake_refuse_purge, fake_refuse_remap, fake_refuse_open, fake_refuse_resident, fake_refuse_bar,
    fake_refuse_unbar, fake_refuse_fence;

#endif
