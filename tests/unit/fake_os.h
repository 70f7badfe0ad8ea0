/* Fake OS: replaces the system calls in unit tests. It counts the calls, refuses those that a test chooses, and moves the clock only if a test
 * asks for it.
 *
 *   core -> hk_os (replaced) -> counted -> refuse(call, ordinal)? -> the real table
 *
 * All calls are refused at first, so that HAKMEM's constructor cannot start it. main() therefore runs before the first allocation, and each test
 * decides how the start proceeds.
 * Threads  The counters may be used by any thread. All other fields are set while no other thread is in the core. */
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
    FAKE_POPULATE,
    FAKE_PURGE_ALL,
    FAKE_CALLS
};

typedef bool fake_refuse(enum fake_call call, uint64_t ordinal);

struct fake_os {
    _Atomic uint64_t xcalls[FAKE_CALLS]; /* number of calls, including refused ones */
    _Atomic uint64_t xtotal;             /* sum of xcalls */
    _Atomic uint64_t xrefused;
    _Atomic uint64_t xclock_ms;
    fake_refuse *refuse;  /* NULL refuses no call. The ordinal counts all system calls together, from 1. */
    size_t address_limit; /* SIZE_MAX: no limit */
    bool places_taken;    /* true: the system reports each chosen address as in use */
    const char *conf;     /* HAKMEM_CONF */
    char **environment;
    const struct fake_file {
        const char *path, *text;
    } * files; /* NULL for the real files; otherwise only these files exist, and a path of NULL ends the list */
    uint64_t memory_total, cpus;
    uintptr_t break_start, break_end; /* the fake break heap, or 0 for the real one */
    const char *file;                 /* content of all files, read in small pieces; NULL for the real files */
    bool capturing;                   /* Writes go to `captured`, which is always a string. */
    size_t captured_bytes;
    char captured[65536];
};

extern struct fake_os fake_os;

/* Restores a healthy system, and resets the counters and the clock. */
void fake_os_reset(void);

/* Resets the counters. After this call, `refuse` decides which system calls are refused. */
void fake_os_refuse(fake_refuse *refuse);

uint64_t fake_os_calls(enum fake_call call);
void fake_os_pass_ms(uint64_t ms);

/* Empties `captured`, and captures all later writes. */
void fake_os_capture(void);

/* These functions can be passed to fake_os_refuse(). */
fake_refuse fake_refuse_all, fake_refuse_map, fake_refuse_mappings, fake_refuse_unmap, fake_refuse_unseal,
    fake_refuse_seal, fake_refuse_purge, fake_refuse_remap, fake_refuse_open, fake_refuse_resident, fake_refuse_bar,
    fake_refuse_unbar, fake_refuse_fence;

#endif
