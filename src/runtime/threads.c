/* Threads: counts the threads that the program creates, because HAKMEM must not add a second thread to a process that has only one. For this purpose,
 * libhakmem.so interposes pthread_create. It also interposes prctl and unshare, because they restrict what the background thread may do.
 *
 *   pthread_create adds 1 to the count. The new thread marks itself as counted. When it ends, the destructor of its thread key subtracts 1.
 *
 * Owns       This file decides which threads are counted. It does not count the threads of thrd_create and of a bare clone.
 * Invariant  Counting begins while the process has one thread, or it never begins.
 * Threads    Any thread may call the functions. */
#include <errno.h>
#include <stdarg.h>
#include "hakmem.h"
#include "os/forward.h"
#include "runtime/background.h"
#include "runtime/learning.h"
#include "runtime/lifecycle.h"
#include "span/chunks.h"
#include "span/meta.h"

/* A ticket keeps the function and the argument of a new thread until the thread begins. */
struct ticket {
    void *(*start)(void *);
    void *argument;
};

enum counts { NOT_DECIDED, COUNTS_NOTHING, COUNTS };
static _Atomic uint32_t xcounts;

/* Returns true if HAKMEM counts threads. The first call after the start decides this. HAKMEM counts only if its malloc serves the process and the
 * process has one thread, because the locks of slab lists must be in use before a second thread exists. */
static bool counting(void)
{
    if (hk_load(xcounts) == NOT_DECIDED && hk_started()) {
        bool counts = hk_options.background == HK_BACKGROUND_AUTO && hk_only_thread() && hk_process_is_served() &&
                      hk_tcache_get() != NULL && hk_mark_thread();
        if (counts)
            hk_slab_lists_shared = true;
        hk_store(xcounts, counts ? COUNTS : COUNTS_NOTHING);
    }
    return hk_load(xcounts) == COUNTS;
}

static void *begin_counted(void *given)
{
    struct ticket ticket = *(struct ticket *)given;
    hk_meta_free(given, sizeof ticket);
    if (!hk_mark_thread())
        (void)hk_background_thread_ended();
    HK_BY_JUMP return ticket.start(ticket.argument);
}

/* Calls the pthread_create that follows HAKMEM's, or the C library's if HAKMEM does not interpose the function. */
int hk_thread_make(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    static _Atomic(void *) xfound;
    bool interposed = HK_IS_OURS(pthread_create, hak_pthread_create);
    hk_thread_maker *next =
        interposed ? (hk_thread_maker *)hk_forward_next_once("pthread_create", &xfound) : pthread_create;
    return next != NULL ? next(thread, attributes, start, argument) : ENOSYS;
}

/* Creates the background thread just before a thread of the program, because a filter that forbids one creation would also forbid the other. Does not
 * count a thread for whose ticket memory is refused. */
HK_EXPORT int hak_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                 void *argument)
{
    struct ticket *ticket = counting() ? hk_meta_alloc(sizeof *ticket) : NULL;
    if (ticket == NULL)
        return hk_thread_make(thread, attributes, start, argument);
    *ticket = (struct ticket){start, argument};
    hk_background_begin_with_thread(hk_thread_make);
    int error = hk_thread_make(thread, attributes, begin_counted, ticket);
    /* If the system refuses the thread, ends HAKMEM's own thread and tries again, for a while because the ended thread may still be counted. */
    if (error == EAGAIN && hk_background_give_way())
        (void)HK_COMES_TRUE((error = hk_thread_make(thread, attributes, begin_counted, ticket)) != EAGAIN,
                            HK_PAUSES_A_SECOND / 10);
    if (error != 0) {
        hk_meta_free(ticket, sizeof *ticket);
        (void)hk_background_thread_ended();
    }
    return error;
}

/* Reads from the system what HAKMEM may need later, because the program is about to restrict its system calls. */
static void shut_in(void)
{
    if (hk_started()) {
        hk_learning_shut_in();
        hk_thp_look();
    }
    hk_background_shut_in();
}

HK_STANDS_BEFORE(int, prctl, (int option, ...))
{
    unsigned long arguments[4];
    va_list list;
    va_start(list, option);
    for (unsigned i = 0; i < 4; i++)
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    if (hk_prctl_shuts_in(option)) {
        hk_os_filter_comes();
        shut_in();
    }
    return (int)HK_FORWARD(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

HK_STANDS_BEFORE(int, unshare, (int flags))
{
    shut_in();
    return (int)HK_FORWARD(SYS_unshare, flags);
}
