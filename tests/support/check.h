/* check: counted assertions for programs that test malloc from outside.
 *
 * A failed check is printed (the first twenty) and counted; the program continues, and check_report() returns exit
 * status 1. Counting is per thread, without atomics, so that checks do not order the threads under test; a thread adds its
 * count by check_thread_done() before it ends.
 * Never  allocates: malloc itself is under test. */
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
uint64_t check_total(void); /* the checks of ended threads and of the caller so far */
uint64_t check_failures(void);

/* Prints one line "name: N checks, M failed, allocator X"; returns the exit status.  Where the environment says
 * TEST_ALLOCATOR=hakmem and HAKMEM is not what serves malloc here, that is a failure too: a test that runs on the
 * wrong allocator has tested nothing. */
int check_report(const char *name);

bool check_on_hakmem(void); /* does the process have HAKMEM's own names? */

#ifdef __cplusplus
}
#endif
#endif
