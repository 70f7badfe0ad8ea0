/* Unit: the frame of the unit tests. Each test runs in a forked child. It therefore finds a core that has not started, as a new process does, and
 * it cannot affect other tests. */
#ifndef TEST_UNIT_H
#define TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/fake_os.h"
#include "slab/slab.h"
#include "unit/invariants.h"

/* CLASS_OF_64 is the number of the size class whose blocks have 64 bytes. */
enum {
#define HK_CLASS(idx, size, slab_kib, cap, tier) CLASS_OF_##size = idx,
#include "policy/classes.def"
#undef HK_CLASS
};

/* The thread sanitizer does not allow a program to choose addresses. It also has a thread of its own, so a forked child turns slabs of unknown
 * owners into abandoned slabs. Tests that depend on either of these return at once. */
#ifdef __SANITIZE_THREAD__
enum { UNIT_UNDER_TSAN = 1 };
#else
enum { UNIT_UNDER_TSAN = 0 };
#endif

/* UNIT_TEST(name) { ... } defines the test that cmocka_unit_test(name) runs. */
#define UNIT_TEST(name)                                                                                                \
    static void name##_body(void);                                                                                     \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        unit_in_child(#name, name##_body);                                                                             \
    }                                                                                                                  \
    static void name##_body(void)

void unit_in_child(const char *name, void (*body)(void));

/* Runs the action in a child process, which must abort and write a line to stderr that contains `expected`. */
void unit_dies(void (*action)(void *argument), void *argument, const char *expected);

/* Starts the core with a cache for this thread. */
void unit_start(void);

/* Sets the state as after the end of a thread with 1 TiB of free memory, so that no thread's end purges memory in the next hour. */
void unit_keep_what_threads_leave(void);

/* Returns a new slab whose page map entry names this owner. Returns NULL if memory is refused. */
struct hk_slab *unit_slab(unsigned class, uint32_t owner);

/* Runs the action in a new thread and waits until the thread has ended, with its key destructors. Then ends its cache, which may be parked. */
void unit_in_thread(void (*action)(void *argument), void *argument);

/* Checks that the heap is consistent, and that the program has exactly `live_blocks` blocks of up to 1 MiB. */
void unit_heap_holds(size_t live_blocks);

#endif
