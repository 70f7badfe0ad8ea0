/* check: counted assertions for programs that test malloc from outside.
 *
 * A failed check is counted, and the first twenty are printed. The program continues, and check_report() returns exit status 1. Each thread counts
 * for itself without atomics, so that the checks do not order the threads under test. A thread adds its count with check_thread_done() before it
 * ends. The functions never allocate, because malloc itself is under test. */
#ifndef TEST_SUPPORT_CHECK_H
#define TEST_SUPPORT_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define CHECK_THREAD_LOCAL thread_local
#else
#define CHECK_THREAD_LOCAL _Thread_local
#endif

extern CHECK_THREAD_LOCAL uint64_t check_local;

void check_failed(const char *file, int line, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        check_local++;                                                                                                 \
        if (!(condition)) {                                                                                            \
            check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__);                                                 \
        }                                                                                                              \
    } while (0)

void check_thread_done(void);
uint64_t check_total(void); /* checks of the caller and of ended threads so far */
uint64_t check_failures(void);

/* Prints one line "name: N checks, M failed, allocator X" and returns the exit status. If the environment has TEST_ALLOCATOR=hakmem but HAKMEM does
 * not serve malloc in this process, that is also a failure, because a test on the wrong allocator has tested nothing. */
int check_report(const char *name);

bool check_on_hakmem(void); /* returns whether the process has HAKMEM's own functions */

#ifdef __cplusplus
}
#endif
#endif
