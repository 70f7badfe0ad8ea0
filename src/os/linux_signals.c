/* Installs HAKMEM's signal handlers, and shows the program the actions that they stand for.
 *
 * A runtime such as the Java machine calls the handler that it finds for a fault that it does not know, and takes the fault as handled. So it
 * must not find a handler of HAKMEM's: after a fault of the program's, this would perform the default action instead of the runtime's. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include "os/linux.h"
#include "os/forward.h"

typedef void signal_handler(int number, siginfo_t *info, void *context);

struct caught {
    struct sigaction ours;
    struct sigaction shown; /* what the program sees in its place */
};
/* HAKMEM's last handler for each signal, set before the handler is installed; NULL if there is none. */
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
bool hk_os_catch_signal(int number, signal_handler *handler)
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
void hk_os_default_signal(int number, siginfo_t *info)
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
bool hk_os_catch_faults(signal_handler *handler)
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

void hk_os_leave_fault(int number) { (void)KEEPING_ERRNO(hk_forward_sigaction(number, &program_action, NULL)); }

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
void hk_os_pass_fault(int number, siginfo_t *info, void *context)
{
    bool sent = info->si_code <= 0, ignored = program_action.sa_handler == SIG_IGN;
    if (program_action.sa_handler != SIG_DFL && !ignored)
        call_program(number, info, context);
    else if (!sent)
        hk_os_leave_fault(number);
    else if (!ignored)
        hk_os_default_signal(number, info);
}

/* Advice since Linux 5.18 and 6.13, which older headers do not name. */
enum { DONTNEED_LOCKED = 24, GUARD_INSTALL = 102, GUARD_REMOVE = 103, NO_ADVICE = 0x7fff };
static _Atomic bool xprotects; /* some pages were barred by their protection */

size_t hk_linux_page_size(void)
{
    size_t size = getauxval(AT_PAGESZ);
    return size != 0 ? size : HK_PAGE;
}

/* Returns false under qemu-user, which accepts advice that it does not know, does nothing, and reports success: if advice that does not exist is
 * accepted, only MADV_DONTNEED is believed. Each thread finds the same. */
static bool advice_counts(void *p, size_t size)
{
    enum { UNKNOWN, COUNTS, IGNORED };
    static _Atomic unsigned found = UNKNOWN;
    unsigned now = atomic_load_explicit(&found, memory_order_relaxed);
    if (now == UNKNOWN) {
        now = hk_forward_madvise(p, size, NO_ADVICE) != 0 ? COUNTS : IGNORED;
        atomic_store_explicit(&found, now, memory_order_relaxed);
    }
    return now == COUNTS;
}

bool hk_linux_purge(void *p, size_t size)
{
    int saved_errno = errno, r = hk_forward_madvise(p, size, MADV_DONTNEED);
    if (r != 0 && errno == EINVAL && advice_counts(p, size)) /* mlocked pages */
        r = hk_forward_madvise(p, size, DONTNEED_LOCKED);
    errno = saved_errno;
    return r == 0;
}

/* A guard marker neither splits the mapping nor waits for its lock. The kernel refuses it in locked memory. */
bool hk_linux_bar(void *p, size_t size)
{
    int saved_errno = errno;
    bool barred = advice_counts(p, size) && hk_forward_madvise(p, size, GUARD_INSTALL) == 0;
    if (!barred) {
        atomic_store(&xprotects, true);
        barred = hk_forward_mprotect(p, size, PROT_NONE, -1) == 0 && hk_linux_purge(p, size);
    }
    errno = saved_errno;
    return barred;
}

bool hk_linux_unbar(void *p, size_t size)
{
    int saved_errno = errno;
    (void)hk_forward_madvise(p, size, GUARD_REMOVE);
    bool open = !atomic_load(&xprotects) || hk_forward_mprotect(p, size, PROT_READ | PROT_WRITE, -1) == 0;
    errno = saved_errno;
    return open;
}

#if defined(__aarch64__)
static enum hk_access access_of(const mcontext_t *machine)
{
    enum { WRITE = 1 << 6 };
    const struct esr_context *record = (const void *)machine->__reserved;
    while (record->head.magic != 0 && record->head.magic != ESR_MAGIC && record->head.size >= sizeof record->head)
        record = (const void *)((const char *)record + record->head.size);
    if (record->head.magic != ESR_MAGIC)
        return HK_ACCESS;
    return (record->esr & WRITE) != 0 ? HK_ACCESS_WRITE : HK_ACCESS_READ;
}
#endif

struct hk_fault hk_os_fault_of(const void *context)
{
    const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
    enum { WRITE = 1 << 1 };
    bool writes = (machine->gregs[REG_ERR] & WRITE) != 0;
    return (struct hk_fault){(uintptr_t)machine->gregs[REG_RIP], (uintptr_t)machine->gregs[REG_RBP],
                             (uintptr_t)machine->gregs[REG_RSP], writes ? HK_ACCESS_WRITE : HK_ACCESS_READ};
#elif defined(__aarch64__)
    return (struct hk_fault){machine->pc, machine->regs[29], machine->sp, access_of(machine)};
#else
    (void)machine;
    return (struct hk_fault){0, 0, 0, HK_ACCESS};
#endif
}
