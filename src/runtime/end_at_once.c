/* Interposes _exit and _Exit, which end a process without its destructors, as children of Python's multiprocessing and workers of
 * servers do: the report of such a process is written all the same. */
#include "base/base.h"
#include "os/passed.h"
#include "runtime/life.h"

static __attribute__((used, noreturn)) void end_at_once(int status)
{
    hk_life_end_at_once();
    hk_passed_exit(status);
}

HK_STANDS_BEFORE(void, _exit, (int status), end_at_once)
HK_STANDS_BEFORE(void, _Exit, (int status), end_at_once)
