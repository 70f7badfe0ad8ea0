/* OS: every system call that HAKMEM makes: functions, and one table of those that tests replace to make a call fail.
 * Every one may fail at any time and reports it in its result; none changes the caller's errno, none allocates.
 * Sizes and addresses are multiples of the system's page size, hk_system_page(), unless stated otherwise. */
#ifndef HK_OS_H
#define HK_OS_H

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What runs or is written in every process, or at HAKMEM's start, lies together, in pages that the loader touches. */
#define HK_EACH_PROCESS __attribute__((section(".text.unlikely.each_process")))
#define HK_EACH_PROCESS_DATA __attribute__((section(".data.each_process")))

/* HK_PAGE is the unit in which pages are counted; a page of the system is one such unit or more, up to HK_LARGEST_PAGE. */
enum { HK_PAGE = 4096, HK_LARGEST_PAGE = 1 << 16, HK_PAUSES_A_SECOND = 20000 };
enum hk_placed { HK_PLACED, HK_PLACE_TAKEN, HK_PLACE_REFUSED };

/* A flag of dlopen's mode. A C library without the flag has no such plugins. */
#ifdef RTLD_DEEPBIND
enum { HK_DEEPBIND = RTLD_DEEPBIND };
#else
enum { HK_DEEPBIND = 0 };
#endif

struct hk_file_id {
    uint64_t device, inode;
};

enum hk_access { HK_ACCESS, HK_ACCESS_READ, HK_ACCESS_WRITE };

/* The registers of a thread whose access failed: code address, frame pointer (if the code keeps one), stack pointer. */
struct hk_fault {
    uintptr_t code, frame, stack;
    enum hk_access access;
};

/* The segment of a loaded module that holds some code; the module's table of unwind information (.eh_frame_hdr) and the segment
 * [from, to) that should hold the table. NULL if there is none. */
struct hk_code {
    uintptr_t start;
    size_t size;
    const unsigned char *table, *from, *to;
};

struct hk_os {
    void *(*map)(size_t size); /* returns a private, zeroed, writable mapping; NULL on failure */
    /* The same at address p. HK_PLACE_TAKEN if p is in use or the system does not honor addresses. */
    enum hk_placed (*map_at)(void *p, size_t size);
    bool (*unmap)(void *p, size_t size); /* unmaps all of [p, p + size); returns true on success */
    /* seal makes memory read-only, unseal makes it writable again; both preserve its contents. */
    bool (*seal)(void *p, size_t size);
    bool (*unseal)(void *p, size_t size);
    bool (*purge)(void *p, size_t size); /* returns the pages to the system; they read as zero afterwards */
    /* Resizes a mapping: in place if `to` is NULL; otherwise its pages move to `to` and replace the mapping of new_size
     * bytes there. On failure the old mapping is intact; `to` is unmapped for lack of memory, and may be for other reasons. */
    bool (*remap)(void *p, size_t old_size, size_t new_size, void *to);
    /* Resizes a mapping and moves its pages to an address that the system chooses. Needs address space for the added bytes
     * only. NULL on failure: the mapping is intact. */
    void *(*move)(void *p, size_t old_size, size_t new_size);
    bool (*advise_huge)(void *p, size_t size, bool wanted); /* advises for or against huge pages */
    uint64_t (*clock_ms)(void);                             /* monotonic, cheap, coarse */
    uint64_t (*clock_ns)(void);                             /* monotonic, fine: for ordering events */
    void (*rest)(uint64_t ms);                              /* sleeps; a signal ends the sleep */
    /* Finds the module that is loaded at a code address, without a lock of the loader's; false if none is known. */
    bool (*code_at)(uintptr_t address, struct hk_code *code);
    bool (*readable)(uintptr_t address); /* true if the page of an address can be read */
    void (*futex_wait)(_Atomic uint32_t *word, uint32_t expected);
    void (*futex_wait_for)(_Atomic uint32_t *word, uint32_t expected, uint64_t ms); /* the same, with a timeout */
    void (*futex_wake)(_Atomic uint32_t *word, int count);
    void (*write)(int fd, const void *bytes, size_t size); /* writes all bytes, or stops at the first error */
    /* Reads up to size - 1 bytes of a file and adds a terminating zero; returns the number of bytes, 0 on error. */
    size_t (*read_file)(const char *path, char *bytes, size_t size);
    int (*open)(const char *path); /* opens a file for reading; a negative error number on error */
    /* Reads up to `size` bytes from the current position; 0 at the end or on error. */
    size_t (*read)(int fd, char *bytes, size_t size);
    /* Sets bit 0 of each page's byte if the page of [p, p + size) is resident. False if part of the range is not mapped. */
    bool (*resident)(const void *p, size_t size, unsigned char *pages);
    const char *(*option_text)(const char *name); /* NULL if unset, or if the program is privileged (AT_SECURE) */
    char **(*environment)(void);                  /* the whole environment, NULL-terminated; empty under AT_SECURE */
    uint64_t (*memory_total)(void);               /* physical memory in bytes */
    uint64_t (*cpus)(void);                       /* the number of CPUs that this process may run on; 1 if unknown */
    size_t (*address_limit)(void);                /* RLIMIT_AS in bytes; SIZE_MAX if unlimited */
    bool (*random)(void *bytes, size_t size);     /* fills bytes that nobody can predict */
    int (*process_id)(void);
    /* The page size of the system: a power of two, HK_PAGE to HK_LARGEST_PAGE. See hk_system_page(). */
    size_t (*page_size)(void);
    /* bar makes pages of the system's size inaccessible, and returns them to the system; unbar makes them accessible again, zeroed. */
    bool (*bar)(void *p, size_t size);
    bool (*unbar)(void *p, size_t size);
    /* Makes every thread of the process that runs at this moment execute a full memory fence. False if the system does not do so; can_fence asks
     * whether it would. */
    bool (*can_fence)(void);
    bool (*fence_threads)(void);
    uintptr_t (*program_break)(void); /* the program break, where another allocator's heap may end */
};

extern struct hk_os hk_os;

/* The system calls that no test replaces. */

/* Splits the huge page around [p, p + size), a range about to be purged: its contents are lost. */
void hk_os_split_huge(void *p, size_t size);
/* Sleeps briefly, so that other threads run. */
void hk_os_pause(void);
/* True if `code` lies in the dynamic loader. */
bool hk_os_in_loader(const void *code);
/* True once thread-local storage is accessible. */
bool hk_os_has_thread_pointer(void);
/* Creates or truncates a file, mode 0644; a negative error number on error. */
int hk_os_create(const char *path);
/* Opens a file for appending, creates it if needed, mode 0644; a negative error number on error. */
int hk_os_append(const char *path);
void hk_os_close(int fd);
/* Identifies the file behind a descriptor; false if the descriptor is closed or cannot be queried. */
bool hk_os_identify(int fd, struct hk_file_id *id);
/* True if `path` is a regular file or does not exist. */
bool hk_os_is_replaceable(const char *path);
bool hk_os_rename(const char *from, const char *to);
/* Sets the environment for calls that come before the C library knows it. */
void hk_os_environment_begins(char **variables);
/* RLIMIT_DATA in bytes; SIZE_MAX if unlimited. */
size_t hk_os_data_limit(void);
int hk_os_parent_id(void);
/* Installs a signal handler, on the alternate stack if the program set one up. True also if it is already
 * installed, as in a fork child; false if the program handles the signal itself, or on failure. */
bool hk_os_catch_signal(int number, void (*handler)(int number, siginfo_t *info, void *context));
/* Called in such a handler: re-raises the signal with its default action and the same siginfo after the handler returns. */
void hk_os_default_signal(int number, siginfo_t *info);
/* True if the calling thread is the only one of the process, by the system's count; false also if that is unknown. */
bool hk_os_has_one_thread(void);
/* The number of the calling thread in the system. */
int hk_os_thread_id(void);
/* Reads up to `size` bytes at an offset of a file; 0 at the end or on error. */
size_t hk_os_read_at(int fd, uint64_t offset, void *bytes, size_t size);
/* Installs a handler of SIGSEGV before that of the program; false on failure. NULL only looks up what a later call needs, because
 * the loader takes a lock and much stack for that. */
bool hk_os_catch_faults(void (*handler)(int number, siginfo_t *info, void *context));
/* Called in that handler. pass_fault: as if the handler were not installed. leave_fault: the handler is installed
 * no more; the fault recurs when it returns. */
void hk_os_pass_fault(int number, siginfo_t *info, void *context);
void hk_os_leave_fault(int number);
struct hk_fault hk_os_fault_of(const void *context);

/* The page size of the system, read once: what is mapped, purged, guarded or unmapped is a multiple of it. */
extern _Atomic size_t hk_xsystem_page; /* 0: not read yet */
size_t hk_read_system_page(void);
static inline size_t hk_system_page(void)
{
    size_t bytes = atomic_load_explicit(&hk_xsystem_page, memory_order_relaxed);
    return __builtin_expect(bytes != 0, 1) ? bytes : hk_read_system_page();
}
/* Rounds up to whole pages of the system. */
static inline size_t hk_in_system_pages(size_t bytes)
{
    size_t page = hk_system_page();
    return (bytes + page - 1) & -page;
}

/* Returns what a negative error number of the functions above means. */
const char *hk_os_error(int result);
/* Returns a mapping that begins `lead` bytes before a multiple of `align` (a power of two): maps more, and unmaps the surplus. */
void *hk_os_map_led(size_t size, size_t align, size_t lead);
/* Returns a mapping aligned to `align` (a power of two): maps more if needed. */
void *hk_os_map_aligned(size_t size, size_t align);
/* Returns a private zeroed mapping by a raw system call, before the C library and the table above are usable; NULL on failure. */
void *hk_os_map_bare(size_t size);

#endif
