/* OS: makes every system call of HAKMEM. Tests replace functions in the table hk_os. A function that can fail reports the failure in its result. No
 * function changes the caller's errno or allocates. Sizes and addresses are multiples of the system's page size, unless a comment says otherwise. */
#pragma once

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* HK_EACH_PROCESS marks functions that every process runs, most of them at HAKMEM's start. HK_EACH_PROCESS_DATA marks data that such functions write.
 * The linker puts both next to pages that the loader touches anyway, so that they cost no further pages. */
#define HK_EACH_PROCESS __attribute__((section(".text.unlikely.each_process")))
#define HK_EACH_PROCESS_DATA __attribute__((section(".data.each_process")))

/* HAKMEM counts memory in pages of HK_PAGE bytes. A page of the system is one or several of them, up to HK_LARGEST_PAGE bytes. */
enum { HK_PAGE = 4096, HK_LARGEST_PAGE = 1 << 16, HK_PAUSES_A_SECOND = 20000 };
enum hk_placed { HK_PLACED, HK_PLACE_TAKEN, HK_PLACE_REFUSED };

/* Some C libraries have no flag RTLD_DEEPBIND of dlopen. In this case, HAKMEM defines the flag as 0, and no mode contains it. */
#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0
#endif

struct hk_file_id {
    uint64_t device, inode;
};

enum hk_access { HK_ACCESS, HK_ACCESS_READ, HK_ACCESS_WRITE };

/* Holds the registers of a thread at the moment of a fault. `frame` is the frame pointer, if the code keeps one. */
struct hk_fault {
    uintptr_t code, frame, stack;
    enum hk_access access;
};

/* Describes the code segment of a loaded module. `table` is the module's table of unwind information (.eh_frame_hdr). [from, to) is the segment that
 * contains the table, so that a walker of the table can check its bounds. All three are NULL if the module has no table. */
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
    void *(*map)(size_t size); /* maps private, zeroed, writable memory; returns NULL on failure */
    /* Maps memory like map(), but at address p. Returns HK_PLACE_TAKEN if p is in use, or if the system chooses another address. */
    enum hk_placed (*map_at)(void *p, size_t size);
    bool (*unmap)(void *p, size_t size); /* returns true on success */
    /* seal makes memory read-only. unseal makes it writable again. The contents do not change. */
    bool (*seal)(void *p, size_t size);
    bool (*unseal)(void *p, size_t size);
    bool (*purge)(void *p, size_t size); /* returns the pages to the system; they are zero at the next access */
    /* Purges all ranges with one system call. Returns false on failure, and then some of the ranges may be purged. */
    bool (*purge_all)(const struct hk_os_range *ranges, size_t count);
    /* If `to` is NULL, resizes a mapping in place. Otherwise moves the mapping to `to`, where it replaces another mapping of new_size bytes. On
     * failure the old mapping is intact, but the mapping at `to` may be gone, and is always gone if the system had too little memory. */
    bool (*remap)(void *p, size_t old_size, size_t new_size, void *to);
    /* Resizes a mapping, and moves it to an address that the system chooses. This needs address space only for the added bytes. Returns NULL on
     * failure, and then leaves the mapping intact. */
    void *(*move)(void *p, size_t old_size, size_t new_size);
    bool (*advise_huge)(void *p, size_t size, bool wanted); /* advises for or against huge pages */
    /* Splits the huge pages and folios of which [p, p + size) is a part. The contents of the range are lost. */
    void (*split_huge)(void *p, size_t size);
    bool (*forbids_huge)(void);             /* returns true if PR_SET_THP_DISABLE is set for this process */
    bool (*populate)(void *p, size_t size); /* makes pages resident before their first use */
    uint64_t (*clock_ms)(void);             /* returns a monotonic time, which is cheap but coarse */
    uint64_t (*clock_ns)(void);             /* returns a fine monotonic time, to order events */
    void (*rest)(uint64_t ms);              /* sleeps; a signal ends the sleep */
    /* Finds the module that contains a code address, without the loader's lock. Returns false if no module is known there. */
    bool (*code_at)(uintptr_t address, struct hk_code *code);
    bool (*readable)(uintptr_t address); /* returns true if the memory at the address can be read */
    void (*futex_wait)(_Atomic uint32_t *word, uint32_t expected);
    void (*futex_wait_for)(_Atomic uint32_t *word, uint32_t expected, uint64_t ms);
    void (*futex_wake)(_Atomic uint32_t *word, int count);
    void (*write)(int fd, const void *bytes, size_t size); /* writes all bytes, or stops at the first error */
    /* Reads up to size - 1 bytes of a file, and adds a zero byte. Returns the number of bytes read, or 0 on error. */
    size_t (*read_file)(const char *path, char *bytes, size_t size);
    int (*open)(const char *path); /* opens a file for reading; returns a negative error number on error */
    /* Reads up to `size` bytes from the current position. Returns the number of bytes read, which is 0 at the end of the file or on error. */
    size_t (*read)(int fd, char *bytes, size_t size);
    /* Sets bit 0 of pages[i] if page i of [p, p + size) is resident. Returns false if part of the range is not mapped. */
    bool (*resident)(const void *p, size_t size, unsigned char *pages);
    bool (*unfiltered)(void); /* returns false if the process may have a seccomp filter, which forbids system calls */
    char **(*environment)(void);    /* returns the variables, then NULL; none for a privileged program (AT_SECURE) */
    uint64_t (*memory_total)(void); /* physical memory in bytes; UINT64_MAX if unknown */
    uint64_t (*cpus)(void);         /* number of CPUs that this process may use; 1 if unknown */
    size_t (*address_limit)(void);  /* RLIMIT_AS in bytes; SIZE_MAX if unlimited */
    bool (*random)(void *bytes, size_t size); /* fills the bytes with numbers that nobody can predict */
    int (*process_id)(void);
    /* Returns the page size of the system, a power of two from HK_PAGE to HK_LARGEST_PAGE. Callers use hk_system_page() instead. */
    size_t (*page_size)(void);
    /* bar makes pages inaccessible, and purges them. unbar makes the pages accessible again, and they are zero then. */
    bool (*bar)(void *p, size_t size);
    bool (*unbar)(void *p, size_t size);
    /* fence_threads makes each running thread of the process execute a full memory fence. can_fence returns true if the system supports this. */
    bool (*can_fence)(void);
    bool (*fence_threads)(void);
    uintptr_t (*program_break)(void);
};

extern struct hk_os hk_os;

/* The functions below are not in the table hk_os, because no test replaces them. */

/* Makes hk_os.unfiltered() return false from now on. Called before the program installs a seccomp filter. */
void hk_os_filter_comes(void);
/* Sleeps for 50 microseconds, so that other threads run. */
void hk_os_pause(void);
bool hk_os_in_loader(const void *code);
/* Returns true if thread-local variables can be accessed. */
bool hk_os_has_thread_pointer(void);
/* Returns the address of the program's first instruction, which lies in the code of the executable file. */
uintptr_t hk_os_program_entry(void);
/* Opens a file, which gets mode 0644 if it is new. create truncates the file, append adds to it. Returns a descriptor, or a negative error number. */
int hk_os_create(const char *path);
int hk_os_append(const char *path);
void hk_os_close(int fd);
/* Sets *id to the device and inode of an open file. Returns false if the descriptor is closed or cannot be queried. */
bool hk_os_identify(int fd, struct hk_file_id *id);
/* Returns true if `path` is a regular file or does not exist. */
bool hk_os_is_replaceable(const char *path);
bool hk_os_rename(const char *from, const char *to);
/* Overwrites constants of HAKMEM through /proc/self/mem. Returns false if the system refuses. A part of the bytes may be written even then. */
bool hk_os_overwrite(const void *constants, const void *bytes, size_t size);
void hk_os_remove(const char *path);
/* Stores the environment that the loader passes to HAKMEM. hk_os.environment() returns it until the C library has set `environ`. */
void hk_os_environment_begins(char **variables);
/* Returns RLIMIT_DATA in bytes, or SIZE_MAX if it is unlimited. */
size_t hk_os_data_limit(void);
int hk_os_parent_id(void);
/* Installs a signal handler, which runs on the alternate stack if the program has set one up. Returns true if the handler is installed now, even if
 * an earlier call installed it, as in a fork child. Returns false on failure, or if the program has an action of its own for the signal. */
bool hk_os_catch_signal(int number, void (*handler)(int number, siginfo_t *info, void *context));
/* Lets the signal take its default action, with the same siginfo, when the calling signal handler returns. */
void hk_os_default_signal(int number, siginfo_t *info);
/* Returns true if the process certainly has no thread other than the caller. Returns false also if the number of threads is unknown. */
bool hk_os_has_one_thread(void);
/* Leaves a range out of core dumps from now on. Returns the size, or 0 if the system refuses. */
size_t hk_os_leave_out_of_core(uintptr_t start, size_t size);
int hk_os_thread_id(void);
/* Reads up to `size` bytes at an offset of a file. Returns the number of bytes read, which is 0 at the end of the file or on error. */
size_t hk_os_read_at(int fd, uint64_t offset, void *bytes, size_t size);
/* Installs a handler for SIGSEGV, which runs before the program's handler. Returns false on failure. If `handler` is NULL, only prepares a later
 * call: looks up sigaction, so that the later call does not need the loader's lock or much stack. */
bool hk_os_catch_faults(void (*handler)(int number, siginfo_t *info, void *context));
/* HAKMEM's handler of SIGSEGV calls one of these two functions. pass_fault does what would happen without HAKMEM's handler. leave_fault puts the
 * program's action back in place of HAKMEM's handler. The fault occurs again when the handler returns, and then reaches the program. */
void hk_os_pass_fault(int number, siginfo_t *info, void *context);
void hk_os_leave_fault(int number);
struct hk_fault hk_os_fault_of(const void *context);

/* hk_system_page() returns the page size of the system, which it reads once. The system maps, purges and protects only whole pages of this size. */
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

/* Returns a text that describes a negative error number, such as hk_os_create() returns. */
const char *hk_os_error(int result);
/* Returns a mapping that begins `lead` bytes before a multiple of `align` (a power of two), or NULL. Maps more at first, and unmaps the excess. */
void *hk_os_map_led(size_t size, size_t align, size_t lead);
/* Returns a mapping whose address is a multiple of `align` (a power of two), or NULL. If needed, maps more at first, and unmaps the excess. */
void *hk_os_map_aligned(size_t size, size_t align);
/* Returns a private zeroed mapping, or NULL. Makes a raw system call, because it is called before the C library and hk_os are usable. */
void *hk_os_map_bare(size_t size);
