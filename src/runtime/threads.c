#include "runtime/threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>

#include "hakmem.h"
#include "os/os.h"
#include "os/passed.h"
#include "policy/options.h"
#include "runtime/background.h"
#include "runtime/life.h"
#include "runtime/served.h"
#include "runtime/thread_count.h"

#pragma weak dlsym

typedef int create_call(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *), void *argument);

/* What a thread is to do, until it has begun. */
struct ticket {
    _Atomic bool xtaken;
    void *(*start)(void *);
    void *argument;
};

/* More that begin at one moment are not counted. */
enum { TICKETS = 64 };
static struct ticket tickets[TICKETS] HK_COLD_DATA;

enum counts { NOT_DECIDED, COUNTS_NOT, COUNTS };
static _Atomic uint32_t xcounts;

extern char __libc_single_threaded __attribute__((weak));

/* Shelves are shared from now on: while there is one thread, nobody is at any. Where the C library cannot say that there is, or where
 * malloc is another's, no thread is ever made unasked. */
static uint32_t begin_counting(void)
{
    bool alone = &__libc_single_threaded != NULL && __libc_single_threaded;
    bool wanted = hk_options.background == HK_BACKGROUND_AUTO && alone && hk_process_is_served();
    if (!wanted || hk_life_cache() == NULL || !hk_life_mark_thread())
        return COUNTS_NOT;
    hk_slab_lists_share();
    return COUNTS;
}

static bool counting(void)
{
    uint32_t counts = hk_load(xcounts);
    if (counts == NOT_DECIDED && hk_life_started()) {
        counts = begin_counting();
        hk_store(xcounts, counts);
    }
    return counts == COUNTS;
}

static struct ticket *take_ticket(void *(*start)(void *), void *argument)
{
    for (struct ticket *ticket = tickets; ticket < tickets + TICKETS; ticket++)
        if (!hk_load(ticket->xtaken) && !atomic_exchange_explicit(&ticket->xtaken, true, memory_order_acquire)) {
            ticket->start = start;
            ticket->argument = argument;
            return ticket;
        }
    return NULL;
}

static void give_ticket(struct ticket *ticket) { hk_store_release(ticket->xtaken, false); }

static void *begin_counted(void *given)
{
    struct ticket *ticket = given;
    void *(*start)(void *) = ticket->start;
    void *argument = ticket->argument;
    give_ticket(ticket);
    if (!hk_life_mark_thread())
        hk_background_thread_ended();
    HK_BY_JUMP return start(argument);
}

/* Whoever comes after HAKMEM; the C library's own where HAKMEM has not put itself before it. */
static create_call *next_create(void)
{
    static _Atomic(create_call *) xnext;
    create_call *next = hk_load(xnext), *known = pthread_create;
    HK_FORGET(known);
    if (next != NULL || known != hak_pthread_create)
        return next != NULL ? next : known;
    if (dlsym != NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    hk_store(xnext, next);
    return next;
}

int hk_thread_make(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *))
{
    create_call *next = next_create();
    return next != NULL ? next(thread, how, start, NULL) : ENOSYS;
}

static int create_counted(create_call *next, pthread_t *thread, const pthread_attr_t *how, struct ticket *ticket)
{
    hk_thread_count_more();
    hk_background_begin_with_thread(hk_thread_make);
    int error = next(thread, how, begin_counted, ticket);
    if (error == EAGAIN && hk_background_give_way()) /* it had the last place */
        error = next(thread, how, begin_counted, ticket);
    if (error != 0) {
        give_ticket(ticket);
        hk_background_thread_ended();
    }
    return error;
}

/* HAKMEM's comes before the program's: what would forbid it to be made, would forbid the program's too. */
HK_EXPORT int hak_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *), void *argument)
{
    create_call *next = next_create();
    if (HK_UNLIKELY(next == NULL))
        return ENOSYS;
    struct ticket *ticket = counting() ? take_ticket(start, argument) : NULL;
    if (ticket == NULL)
        return next(thread, how, start, argument);
    return create_counted(next, thread, how, ticket);
}

static __attribute__((used)) int change_process(int option, ...)
{
    unsigned long arguments[4];
    va_list list;
    va_start(list, option);
    for (unsigned i = 0; i < 4; i++)
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    if (hk_prctl_shuts_in(option))
        hk_background_shut_in();
    return hk_passed_prctl(option, arguments);
}

/* A thread that has files or a root of its own would share them with who it makes. */
static __attribute__((used)) int part_with_others(int flags)
{
    hk_background_shut_in();
    return hk_passed_unshare(flags);
}

HK_STANDS_BEFORE(int, prctl, (int option, ...), change_process)
HK_STANDS_BEFORE(int, unshare, (int flags), part_with_others)
