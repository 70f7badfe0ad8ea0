/* Installs HAKMEM's signal handlers, and shows the program the actions that they stand for.
 *
 * A runtime such as the Java machine calls the handler that it finds for a fault that it does not know, and takes the fault as handled. So it
 * must not find a handler of HAKMEM's: after a fault of the program's, this would perform the default action instead of the runtime's. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux.h"
#include "os/forward.h"

typedef void signal_handler(int number, siginfo_t *info, void *context);

struct caught {
    struct sigaction ours;
    struct sigaction shown; /* what the program sees in its place */
};

/* The last handler of HAKMEM's for each signal, set before the handler is installed; NULL: none. */
static _Atomic(const struct caught *) xcaught[_NSIG];

static const struct caught *caught_of(int number)
{
    return number > 0 && number < _NSIG ? atomic_load_explicit(&xcaught[number], memory_order_acquire) : NULL;
}

static struct sigaction shown_for(int number, const struct sigaction *action)
{
    const struct caught *caught = caught_of(number);
    return caught != NULL && action->sa_sigaction == caught->ours.sa_sigaction ? caught->shown : *action;
}

/* Sets *former to the action that was installed until now. */
static bool install(int number, struct caught *caught, struct sigaction *former)
{
    atomic_store_explicit(&xcaught[number], caught, memory_order_release);
    return hk_forward_sigaction(number, &caught->ours, former) == 0;
}

int hk_caught_sigaction(int number, const struct sigaction *action, struct sigaction *former)
{
    const struct caught *caught = caught_of(number);
    struct sigaction then;
    if (caught == NULL)
        return hk_forward_sigaction(number, action, former);
    bool again = action != NULL && action->sa_sigaction == caught->shown.sa_sigaction;
    int result = hk_forward_sigaction(number, again ? &caught->ours : action, &then);
    if (result == 0 && former != NULL)
        *former = shown_for(number, &then);
    return result;
}

sighandler_t hk_caught_signal(int number, sighandler_t handler)
{
    const struct caught *caught = caught_of(number);
    sighandler_t former = hk_forward_signal(number, handler);
    if (caught == NULL || former == SIG_ERR)
        return former;
    if (handler == caught->shown.sa_handler)
        (void)hk_forward_sigaction(number, &caught->ours, NULL);
    return former == caught->ours.sa_handler ? caught->shown.sa_handler : former;
}

/* Blocks all other signals during the handler; one that cannot be blocked, such as a fault in the handler, ends the process. */
bool hk_linux_catch_signal(int number, signal_handler *handler)
{
    static struct caught caught[_NSIG];
    struct sigaction now, ours = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    int saved_errno = errno;
    (void)sigfillset(&ours.sa_mask);
    bool known = hk_forward_sigaction(number, NULL, &now) == 0, installed = known && now.sa_sigaction == handler;
    if (known && !installed && now.sa_handler == SIG_DFL) {
        caught[number] = (struct caught){.ours = ours, .shown = now};
        installed = install(number, &caught[number], &now);
    }
    errno = saved_errno;
    return installed;
}

/* Sends the signal to this thread again; it is blocked until the handler returns. */
void hk_linux_default_signal(int number, siginfo_t *info)
{
    struct sigaction none = {.sa_handler = SIG_DFL};
    (void)KEEPING_ERRNO(hk_forward_sigaction(number, &none, NULL));
    (void)KEEPING_ERRNO(syscall(SYS_rt_tgsigqueueinfo, getpid(), (int)syscall(SYS_gettid), number, info));
}

static struct sigaction program_action; /* of SIGSEGV, when catch_faults came */

/* The mask and the flags are those that the program's handler expects. */
static struct sigaction before_programs(signal_handler *handler)
{
    bool handled = program_action.sa_handler != SIG_DFL && program_action.sa_handler != SIG_IGN;
    struct sigaction ours = {
        .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK, .sa_mask = program_action.sa_mask};
    ours.sa_flags |= program_action.sa_flags & (SA_RESTART | SA_NODEFER);
    if (!handled)
        (void)sigfillset(&ours.sa_mask);
    return ours;
}

/* Another thread may install a handler of the program's at the same time. The loop ends when HAKMEM's handler has replaced the action that it
 * passes faults to. */
bool hk_linux_catch_faults(signal_handler *handler)
{
    static struct caught caught;
    struct sigaction former;
    int saved_errno = errno;
    bool installed = hk_forward_sigaction(SIGSEGV, NULL, &former) == 0, again = installed && handler != NULL;
    while (again) {
        program_action = former;
        caught = (struct caught){.ours = before_programs(handler), .shown = shown_for(SIGSEGV, &former)};
        installed = install(SIGSEGV, &caught, &former);
        again = installed && former.sa_sigaction != program_action.sa_sigaction && former.sa_sigaction != handler;
    }
    errno = saved_errno;
    return installed;
}

void hk_linux_leave_fault(int number) { (void)KEEPING_ERRNO(hk_forward_sigaction(number, &program_action, NULL)); }

static void call_program(int number, siginfo_t *info, void *context)
{
    struct sigaction action = program_action;
    if ((action.sa_flags & (int)SA_RESETHAND) != 0)
        program_action.sa_handler = SIG_DFL;
    if ((action.sa_flags & SA_SIGINFO) != 0)
        action.sa_sigaction(number, info, context);
    else
        action.sa_handler(number);
}

/* A signal that a process sent does not recur. */
void hk_linux_pass_fault(int number, siginfo_t *info, void *context)
{
    bool sent = info->si_code <= 0, ignored = program_action.sa_handler == SIG_IGN;
    if (program_action.sa_handler != SIG_DFL && !ignored)
        call_program(number, info, context);
    else if (!sent)
        hk_linux_leave_fault(number);
    else if (!ignored)
        hk_linux_default_signal(number, info);
}
