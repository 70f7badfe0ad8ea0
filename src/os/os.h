/* OS: every system call HAKMEM makes, behind one table. Tests replace entries, so that any call can be made to fail.
 * Every entry may fail at any time and says so by its result; none sets errno for its caller, none allocates.
 * Sizes and addresses are multiples of HK_PAGE unless stated otherwise. */
#ifndef HK_OS_H
#define HK_OS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HK_PAGE = 4096, HK_HUGE_PAGE = 2 << 20 };

enum hk_access { HK_ACCESS_NONE, HK_ACCESS_READ, HK_ACCESS_WRITE };

struct hk_os {
    /* A private zeroed mapping; NULL if refused. Without HK_ACCESS_WRITE it is address space only and costs no memory. */
    void *(*map)(size_t size, enum hk_access access);
    /* All of [p, p + size) goes; true on success. */
    bool (*unmap)(void *p, size_t size);
    /* Makes address space that `map` gave without HK_ACCESS_WRITE writable; contents are zero at first. */
    bool (*commit)(void *p, size_t size);
    /* Gives the pages back: they read as zero afterwards. */
    bool (*purge)(void *p, size_t size);
    /* Resizes a mapping: in place where `to` is NULL, else its pages move to `to`, a mapping of new_size bytes that they
     * replace. False if refused: the old mapping is as it was, but whether `to` is still there is not known. */
    bool (*remap)(void *p, size_t old_size, size_t new_size, void *to);
    /* Asks for (or against) huge pages; advice only. */
    bool (*advise_huge)(void *p, size_t size, bool wanted);
    /* Monotonic, cheap, coarse. */
    uint64_t (*clock_ms)(void);
    /* Lets others run, for a moment. */
    void (*pause)(void);
    /* Sleeps, unless a signal comes. */
    void (*rest)(uint64_t ms);
    /* Is this code of the dynamic loader? */
    bool (*in_loader)(const void *code);
    /* True once thread-local storage can be reached. */
    bool (*has_thread_pointer)(void);
    void (*futex_wait)(_Atomic uint32_t *word, uint32_t expected);
    void (*futex_wake)(_Atomic uint32_t *word, int count);
    /* Writes all, or stops at the first error. */
    void (*write)(int fd, const void *bytes, size_t size);
    /* A file created or emptied, mode 0644; -1 on error. */
    int (*create)(const char *path);
    void (*close)(int fd);
    /* Up to size - 1 bytes of a file and a terminating zero; the number of bytes, 0 on error. */
    size_t (*read_file)(const char *path, char *bytes, size_t size);
    /* NULL if unset, or if the program runs with privileges that its caller does not have (AT_SECURE). */
    const char *(*option_text)(const char *name);
    /* Where the environment is, for who is called before the C library knows. */
    void (*environment_begins)(char **variables);
    /* All of the environment, NULL-terminated; empty under AT_SECURE. */
    char **(*environment)(void);
    /* RLIMIT_AS in bytes; SIZE_MAX if there is none. */
    size_t (*address_limit)(void);
    int (*process_id)(void);
    /* The address after the program break, where another allocator's heap may end. */
    uintptr_t (*program_break)(void);
};

extern struct hk_os hk_os;

/* A mapping aligned to `align` (a power of two): more is mapped where needed, and the surplus unmapped. */
void *hk_os_map_aligned(size_t size, size_t align, enum hk_access access);

#endif
