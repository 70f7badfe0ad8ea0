/* OS: makes every system call of HAKMEM. Tests replace functions in the table hk_os to make them fail. Functions outside the table are plain
 * functions. Every function may fail at any time, and then reports the failure in its result. No function changes the caller's errno or allocates.
 * Sizes and addresses are multiples of the system's page size, hk_system_page(), unless stated otherwise. */
#ifndef HK_OS_H
#define HK_OS_H

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* HK_EACH_PROCESS marks functions that run at HAKMEM's start or in every process, and HK_EACH_PROCESS_DATA marks data that these functions write. The
 * linker puts these functions and data into pages that the loader touches anyway. */
#define HK_EACH_PROCESS __attribute__((section(".text.unlikely.each_process")))
#define HK_EACH_PROCESS_DATA __attribute__((section(".data.each_process")))

/* HK_PAGE is the unit in which HAKMEM counts pages. A page of the system has one or more units, and at most HK_LARGEST_PAGE bytes. */
enum { HK_PAGE = 4096, HK_LARGEST_PAGE = 1 << 16, HK_PAUSES_A_SECOND = 20000 };
enum hk_placed { HK_PLACED, HK_PLACE_TAKEN, HK_PLACE_REFUSED };

/* HK_DEEPBIND is the flag RTLD_DEEPBIND of dlopen. It is 0 if the C library lacks the flag, because then no plugin can be opened with the flag. */
#ifdef RTLD_DEEPBIND
enum { HK_DEEPBIND = RTLD_DEEPBIND };
#else
enum { HK_DEEPBIND = 0 };
#endif

struct hk_file_id {
    uint64_t device, inode;
};

enum hk_access { HK_ACCESS, HK_ACCESS_READ, HK_ACCESS_WRITE };

/* Holds the registers of a thread whose access failed. `frame` is the frame pointer if the code keeps one. */
struct hk_fault {
    uintptr_t code, frame, stack;
    enum hk_access access;
};

/* Describes the segment of a loaded module that contains a code address. `table` is the module's table of unwind information (.eh_frame_hdr), and
 * [from, to) is the segment that should contain the table. If the module has no table, `table`, `from` and `to` are NULL. */
struct hk_code {
    uintptr_t start;
    size_t size;
    const unsigned char *table, *from, *to;
};

/* Has the layout of struct iovec. */
struct hk_os_range {
    uintptr_t start;
    size_t size;
};

struct hk_os {
    void *(*map)(size_t size); /* returns a private, zeroed, writable mapping; NULL on failure */
    /* Maps like map(), but at address p. Returns HK_PLACE_TAKEN if p is in use, or if the system does not honor requested addresses. */
    enum hk_placed (*map_at)(void *p, size_t size);
    bool (*unmap)(void *p, size_t size); /* unmaps all of [p, p + size); returns true on success */
    /* seal makes memory read-only, and unseal makes it writable again. Both preserve the contents. */
    bool (*seal)(void *p, size_t size);
    bool (*unseal)(void *p, size_t size);
    bool (*purge)(void *p, size_t size); /* returns the pages to the system; the pages then read as zeros */
    /* Purges all ranges with one system call. If it returns false, some ranges may be purged. */
    bool (*purge_all)(const struct hk_os_range *ranges, size_t count);
    /* Resizes a mapping in place if `to` is NULL. Otherwise moves its pages to `to`, where they replace a mapping of new_size bytes. On failure the
     * old mapping is intact, and `to` may be unmapped. If memory was short, `to` is always unmapped. */
    bool (*remap)(void *p, size_t old_size, size_t new_size, void *to);
    /* Resizes a mapping and moves its pages to an address that the system chooses. Needs address space only for the added bytes. On failure returns
     * NULL, and leaves the mapping intact. */
    void *(*move)(void *p, size_t old_size, size_t new_size);
    bool (*advise_huge)(void *p, size_t size, bool wanted); /* advises for or against huge pages */
    bool (*forbids_huge)(void);                             /* returns true if this process gets no huge pages */
    bool (*populate)(void *p,
                     size_t size); /* makes pages resident that were not used since they were mapped or purged */
    uint64_t (*clock_ms)(void);    /* reads a monotonic clock that is cheap and coarse */
    uint64_t (*clock_ns)(void);    /* reads a fine monotonic clock, to order events */
    void (*rest)(uint64_t ms);     /* sleeps; a signal ends the sleep */
    /* Finds the module that is loaded at a code address, without the loader's lock. Returns false if no module is known there. */
    bool (*code_at)(uintptr_t address, struct hk_code *code);
    bool (*readable)(uintptr_t address); /* returns true if the page can be read */
    void (*futex_wait)(_Atomic uint32_t *word, uint32_t expected);
    /* waits for at most `ms` milliseconds */
    void (*futex_wait_for)(_Atomic uint32_t *word, uint32_t expected, uint64_t ms);
    void (*futex_wake)(_Atomic uint32_t *word, int count);
    void (*write)(int fd, const void *bytes, size_t size); /* writes all bytes, or stops at the first error */
    /* Reads up to size - 1 bytes of a file and adds a terminating zero. Returns the number of bytes, or 0 on error. */
    size_t (*read_file)(const char *path, char *bytes, size_t size);
    int (*open)(const char *path); /* opens a file for reading; returns a negative error number on error */
    /* Reads up to `size` bytes from the current position. Returns the number of bytes, which is 0 at the end or on error. */
    size_t (*read)(int fd, char *bytes, size_t size);
    /* Sets bit 0 of pages[i] if page i of [p, p + size) is resident. Returns false if part of the range is not mapped. */
    bool (*resident)(const void *p, size_t size, unsigned char *pages);
    bool (*unfiltered)(void);    /* returns false if a seccomp filter may be in force */
    char **(*environment)(void); /* returns all variables, then NULL; none if the program is privileged (AT_SECURE) */
    uint64_t (*memory_total)(void);           /* physical memory in bytes; UINT64_MAX if unknown */
    uint64_t (*cpus)(void);                   /* how many CPUs this process may use; 1 if unknown */
    size_t (*address_limit)(void);            /* RLIMIT_AS in bytes; SIZE_MAX if unlimited */
    bool (*random)(void *bytes, size_t size); /* fills the bytes with numbers that nobody can predict */
    int (*process_id)(void);
    /* Returns the page size of the system, a power of two from HK_PAGE to HK_LARGEST_PAGE. Callers use hk_system_page(). */
    size_t (*page_size)(void);
    /* bar makes pages inaccessible, and returns them to the system. unbar makes these pages, which are then zero, accessible again. */
    bool (*bar)(void *p, size_t size);
    bool (*unbar)(void *p, size_t size);
    /* fence_threads makes all running threads execute a full memory fence. can_fence returns true if the system supports this. */
    bool (*can_fence)(void);
    bool (*fence_threads)(void);
    uintptr_t (*program_break)(void); /* returns the program break */
};

extern struct hk_os hk_os;

/* The functions below are not in the table hk_os, because no test replaces them. */

/* Splits the huge page around [p, p + size), and loses the contents of the range. Precondition: the caller is about to purge the range. */
void hk_os_split_huge(void *p, size_t size);
/* Makes hk_os.unfiltered() return false from now on. Called before the program installs a filter. */
void hk_os_filter_comes(void);
/* Sleeps for 50 microseconds, so that other threads run. */
void hk_os_pause(void);
/* Returns true if `code` lies in the dynamic loader. */
bool hk_os_in_loader(const void *code);
/* Returns true if thread-local storage is accessible. */
bool hk_os_has_thread_pointer(void);
/* Creates or truncates a file with mode 0644. Returns its descriptor, or a negative error number. */
int hk_os_create(const char *path);
/* Opens a file for appending, and creates it with mode 0644 if needed. Returns its descriptor, or a negative error number. */
int hk_os_append(const char *path);
void hk_os_close(int fd);
/* Identifies the file behind a descriptor. Returns false if the descriptor is closed or cannot be queried. */
bool hk_os_identify(int fd, struct hk_file_id *id);
/* Returns true if `path` is a regular file or does not exist. */
bool hk_os_is_replaceable(const char *path);
bool hk_os_rename(const char *from, const char *to);
/* Stores the environment of the process. HAKMEM reads this environment until the C library has set `environ`. */
void hk_os_environment_begins(char **variables);
/* Returns RLIMIT_DATA in bytes, or SIZE_MAX if it is unlimited. */
size_t hk_os_data_limit(void);
int hk_os_parent_id(void);
/* Installs a signal handler, which uses the alternate stack if the program has set one up. Returns true also if the handler is already installed, as
 * in a fork child. Returns false if the program handles the signal itself, or on failure. */
bool hk_os_catch_signal(int number, void (*handler)(int number, siginfo_t *info, void *context));
/* Sends the signal again with its default action and the same siginfo. Called by the signal's handler. Takes effect when the handler returns. */
void hk_os_default_signal(int number, siginfo_t *info);
/* Returns true if the system reports the calling thread as the only one of the process. Returns false also if the number of threads is unknown. */
bool hk_os_has_one_thread(void);
int hk_os_thread_id(void);
/* Reads up to `size` bytes at an offset of a file. Returns the number of bytes, which is 0 at the end or on error. */
size_t hk_os_read_at(int fd, uint64_t offset, void *bytes, size_t size);
/* Installs a handler for SIGSEGV that runs before the program's. Returns false on failure. If `handler` is NULL, only looks up the function that a
 * later call needs, so that the later call neither takes a lock of the loader nor needs much stack. */
bool hk_os_catch_faults(void (*handler)(int number, siginfo_t *info, void *context));
/* HAKMEM's handler of SIGSEGV calls pass_fault or leave_fault. pass_fault does what would happen without HAKMEM's handler. leave_fault removes
 * HAKMEM's handler. The fault then occurs again when the handler returns, and reaches the program. */
void hk_os_pass_fault(int number, siginfo_t *info, void *context);
void hk_os_leave_fault(int number);
struct hk_fault hk_os_fault_of(const void *context);

/* hk_system_page() returns the page size of the system, and reads it from the system only once. The system maps, purges, protects and unmaps only
 * multiples of this size. */
extern _Atomic size_t hk_xsystem_page; /* 0: not read yet */
size_t hk_read_system_page(void);
static inline size_t hk_system_page(void)
{
    size_t bytes = atomic_load_explicit(&hk_xsystem_page, memory_order_relaxed);
    return __builtin_expect(bytes != 0, 1) ? bytes : hk_read_system_page();
}
/* Returns `bytes`, rounded up to whole pages of the system. */
static inline size_t hk_in_system_pages(size_t bytes)
{
    size_t page = hk_system_page();
    return (bytes + page - 1) & -page;
}

/* Returns a text that describes a negative error number of the functions above. */
const char *hk_os_error(int result);
/* Returns a mapping that begins `lead` bytes before a multiple of `align` (a power of two), or NULL. First maps more, and then unmaps the excess. */
void *hk_os_map_led(size_t size, size_t align, size_t lead);
/* Returns a mapping aligned to `align` (a power of two), or NULL. If needed, first maps more, and then unmaps the excess. */
void *hk_os_map_aligned(size_t size, size_t align);
/* Returns a private zeroed mapping, or NULL on failure. Uses a raw system call, because its callers run before the C library and hk_os are usable. */
void *hk_os_map_bare(size_t size);

#endif
