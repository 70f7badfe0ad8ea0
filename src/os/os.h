/* OS: every system call HAKMEM makes, behind one table. Tests replace entries, so that any call can be made to fail.
 * Every entry may fail at any time and says so by its result; none sets errno for its caller, none allocates.
 * Sizes and addresses are multiples of HK_PAGE unless stated otherwise. */
#ifndef HK_OS_H
#define HK_OS_H

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HK_PAGE = 4096, HK_HUGE_PAGE = 2 << 20, HK_PAUSES_A_SECOND = 20000 };

enum hk_placed { HK_PLACED, HK_PLACE_TAKEN, HK_PLACE_REFUSED };

/* In dlopen's mode. A C library that has no such flag has no such plugins. */
#ifdef RTLD_DEEPBIND
enum { HK_DEEPBIND = RTLD_DEEPBIND };
#else
enum { HK_DEEPBIND = 0 };
#endif

struct hk_file_id {
    uint64_t device, inode;
};

struct hk_os {
    /* A private zeroed mapping, writable; NULL if refused. */
    void *(*map)(size_t size);
    /* The same at p: taken if something lies there, or if the system does not let addresses be chosen. */
    enum hk_placed (*map_at)(void *p, size_t size);
    /* All of [p, p + size) goes; true on success. */
    bool (*unmap)(void *p, size_t size);
    /* Makes sealed memory writable again. */
    bool (*commit)(void *p, size_t size);
    /* Makes written memory read-only, and writable again: what is in it stays. */
    bool (*seal)(void *p, size_t size);
    bool (*unseal)(void *p, size_t size);
    /* Gives the pages back: they read as zero afterwards. */
    bool (*purge)(void *p, size_t size);
    /* Resizes a mapping: in place where `to` is NULL, else its pages move to `to`, a mapping of new_size bytes that they
     * replace. False if refused: the old mapping is as it was, but whether `to` is still there is not known. */
    bool (*remap)(void *p, size_t old_size, size_t new_size, void *to);
    /* Asks for (or against) huge pages; advice only. */
    bool (*advise_huge)(void *p, size_t size, bool wanted);
    /* Takes memory off its huge page, of which [p, p + size) is about to be given back: what is in that range is lost. */
    void (*split_huge)(void *p, size_t size);
    /* Monotonic, cheap, coarse. */
    uint64_t (*clock_ms)(void);
    /* Monotonic, fine: what happened first? */
    uint64_t (*clock_ns)(void);
    /* Lets others run, for a moment: some 50 microseconds (HK_PAUSES_A_SECOND). */
    void (*pause)(void);
    /* Sleeps, unless a signal comes. */
    void (*rest)(uint64_t ms);
    /* Is this code of the dynamic loader? */
    bool (*in_loader)(const void *code);
    /* True once the C library has begun: until then what it loads would believe that there is no environment. */
    bool (*has_libc)(void);
    /* True once thread-local storage can be reached. */
    bool (*has_thread_pointer)(void);
    void (*futex_wait)(_Atomic uint32_t *word, uint32_t expected);
    /* The same, for so long at most. */
    void (*futex_wait_for)(_Atomic uint32_t *word, uint32_t expected, uint64_t ms);
    void (*futex_wake)(_Atomic uint32_t *word, int count);
    /* Writes all, or stops at the first error. */
    void (*write)(int fd, const void *bytes, size_t size);
    /* A file created or emptied, mode 0644; -1 on error. */
    int (*create)(const char *path);
    /* A file to be written behind its end, created if need be, mode 0644; -1 on error. */
    int (*append)(const char *path);
    void (*close)(int fd);
    /* Which file a descriptor leads to; false if to none, or if that cannot be asked. */
    bool (*identify)(int fd, struct hk_file_id *id);
    /* Up to size - 1 bytes of a file and a terminating zero; the number of bytes, 0 on error. */
    size_t (*read_file)(const char *path, char *bytes, size_t size);
    /* A file to read from; -1 on error. */
    int (*open)(const char *path);
    /* Up to `size` bytes of what comes next; 0 at the end or on error. */
    size_t (*read)(int fd, char *bytes, size_t size);
    /* Would a new file take the place of nothing but a regular file? */
    bool (*is_replaceable)(const char *path);
    bool (*rename)(const char *from, const char *to);
    /* For each page of [p, p + size), whether it is in memory: bit 0 of its byte. False if some of it is not mapped. */
    bool (*resident)(const void *p, size_t size, unsigned char *pages);
    /* NULL if unset, or if the program runs with privileges that its caller does not have (AT_SECURE). */
    const char *(*option_text)(const char *name);
    /* Where the environment is, for who is called before the C library knows. */
    void (*environment_begins)(char **variables);
    /* All of the environment, NULL-terminated; empty under AT_SECURE. */
    char **(*environment)(void);
    /* Of physical memory, bytes. */
    uint64_t (*memory_total)(void);
    /* That this process may run on; 1 if that cannot be asked. */
    uint64_t (*cpus)(void);
    /* RLIMIT_AS in bytes; SIZE_MAX if there is none. */
    size_t (*address_limit)(void);
    /* RLIMIT_DATA, likewise. */
    size_t (*data_limit)(void);
    int (*process_id)(void);
    /* Has a handler run on a signal, on the alternate stack if there is one; true also if it does already, as in a fork
     * child; false if the program has set the signal, or the system refuses. */
    bool (*catch_signal)(int number, void (*handler)(int number, siginfo_t *info, void *context));
    /* In such a handler: once it returns, the signal has its default action, with the same particulars. */
    void (*default_signal)(int number, siginfo_t *info);
    /* The address after the program break, where another allocator's heap may end. */
    uintptr_t (*program_break)(void);
};

extern struct hk_os hk_os;

/* A mapping aligned to `align` (a power of two): more is mapped where needed, and the surplus unmapped. */
void *hk_os_map_aligned(size_t size, size_t align);

/* A private zeroed mapping, by a bare system call: for who comes before the C library and the table above can be called. NULL if refused. */
void *hk_os_map_bare(size_t size);

#endif
