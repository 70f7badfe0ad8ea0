/* Usage: test_early
 * Tests the heap before main (in preinit_array and constructors) and after main (in atexit handlers, destructors and fini_array). */
#include "early.h"

#include "support/check.h"

#include <stdlib.h>
#include <unistd.h>

enum { HEAP_WAS_NOT_RIGHT = 9 };

static struct early_blocks from_preinit;
static struct early_blocks from_constructor;
static struct early_blocks until_exit;
static struct early_blocks until_destructor;

static void preinit(void) { early_allocate(&from_preinit); }

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(void) = preinit;

__attribute__((constructor(101))) static void constructor(void) { early_allocate(&from_constructor); }

static void must(bool good, const char *text)
{
    if (!good) {
        ssize_t ignored = write(STDERR_FILENO, text, __builtin_strlen(text));
        (void)ignored;
        _exit(HEAP_WAS_NOT_RIGHT);
    }
}

static void at_exit(void)
{
    must(early_check_and_free(&until_exit), "early: blocks from main were not right at exit\n");
    early_allocate(&until_exit);
    must(early_check_and_free(&until_exit), "early: no heap at exit\n");
}

__attribute__((destructor(101))) static void destructor(void)
{
    must(early_check_and_free(&until_destructor), "early: blocks from main were not right in the destructor\n");
    early_allocate(&until_destructor);
    must(early_check_and_free(&until_destructor), "early: no heap in the destructor\n");
    must(write(STDOUT_FILENO, "early: destructor ran\n", 22) == 22, "early: no stdout\n");
}

int main(void)
{
    CHECK(early_check_and_free(&from_preinit), "blocks from preinit_array");
    CHECK(early_check_and_free(&from_constructor), "blocks from a constructor");
    early_allocate(&until_exit);
    early_allocate(&until_destructor);
    CHECK(atexit(at_exit) == 0, "atexit");
    return check_report("early");
}
