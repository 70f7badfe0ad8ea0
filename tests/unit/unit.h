/* Unit: the frame of the unit tests. Each test runs in a forked child: it finds the core not started, as a new process does, and
 * leaves no trace in it. */
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

/* The number of the class whose blocks have so many bytes: CLASS_OF_64 */
enum {
#define HK_CLASS(idx, size, slab_kib, cap, tier) CLASS_OF_##size = idx,
#include "policy/classes.def"
#undef HK_CLASS
};

/* The thread sanitizer lets no address be chosen; and it has a thread of its own, so that a forked child makes abandoned slabs of slabs whose
 * owner it does not know. Tests that are about either have nothing to see there. */
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

/* Runs the action in a child of its own, which must abort and say `expected` on stderr, in one line. */
void unit_dies(void (*action)(void *argument), void *argument, const char *expected);

/* Starts the core with a cache for this thread. */
void unit_start(void);

/* No thread's end purges anything in the next hour, because the last one seems to have left a TiB a moment ago. */
void unit_keep_what_threads_leave(void);

/* A new slab whose page map entry names this owner; NULL if refused. */
struct hk_slab *unit_slab(unsigned class, uint32_t owner);

/* Runs the action in a thread and waits for its end, its key destructors included. */
void unit_in_thread(void (*action)(void *argument), void *argument);

/* The heap is in order and so many blocks of up to 1 MiB are with the program. */
void unit_heap_holds(size_t live_blocks);

#endif
