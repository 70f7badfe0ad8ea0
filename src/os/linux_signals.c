/* Installs HAKMEM's signal handlers, and shows the program the actions that they replaced. Some runtimes, such as Java's, pass unexpected faults to
 * the handler that they found at their start. HAKMEM's would take the default action, and the runtime could not report the fault. */
#include <ucontext.h>
#include "os/linux.h"
#include "os/forward.h"

typedef void signal_handler(int number, siginfo_t *info, void *context);

/* Most processes never touch data in this section. The linker places it after all other data, so that it is not on the pages that they touch. */
#define COLD __attribute__((section(".bss.cold")))

static struct caught {
    struct sigaction ours;  /* HAKMEM's last handler of the signal */
    struct sigaction shown; /* the action that HAKMEM shows the program instead of `ours` */
} caught_actions[_NSIG] COLD;
static _Atomic bool xcaught[_NSIG]; /* true if HAKMEM has caught the signal; set before the handler is installed */

static const struct caught *caught_of(int number)
{
    bool found = number > 0 && number < _NSIG && atomic_load_explicit(&xcaught[number], memory_order_acquire);
    return found ? &caught_actions[number] : NULL;
}

static struct sigaction shown_for(int number, const struct sigaction *action)
{
    const struct caught *caught = caught_of(number);
    return caught != NULL && action->sa_sigaction == caught->ours.sa_sigaction ? caught->shown : *action;
}

static bool install(int number, struct caught caught, struct sigaction *former)
{
    caught_actions[number] = caught;
    atomic_store_explicit(&xcaught[number], true, memory_order_release);
    return hk_forward_sigaction(number, &caught.ours, former) == 0;
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

/* Blocks all other signals while the handler runs. If the handler causes a fault, the kernel ends the process, because the signal is blocked. */
bool hk_os_catch_signal(int number, signal_handler *handler)
{
    struct sigaction now, ours = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    int saved_errno = errno;
    (void)sigfillset(&ours.sa_mask);
    bool known = hk_forward_sigaction(number, NULL, &now) == 0, installed = known && now.sa_sigaction == handler;
    if (known && !installed && now.sa_handler == SIG_DFL)
        installed = install(number, (struct caught){.ours = ours, .shown = now}, &now);
    errno = saved_errno;
    return installed;
}

/* Sends the signal to this thread again. The signal is blocked during the handler, so the default action follows when the handler returns. */
void hk_os_default_signal(int number, siginfo_t *info)
{
    struct sigaction none = {.sa_handler = SIG_DFL};
    (void)KEEPING_ERRNO(hk_forward_sigaction(number, &none, NULL));
    (void)KEEPING_ERRNO(syscall(SYS_rt_tgsigqueueinfo, getpid(), (int)syscall(SYS_gettid), number, info));
}

static struct sigaction program_action COLD; /* the action for SIGSEGV that HAKMEM's handler replaced */

/* Returns HAKMEM's action for SIGSEGV. The handler may call the program's handler, and therefore runs with the program's mask and flags. */
static struct sigaction before_programs(signal_handler *handler)
{
    bool handled = program_action.sa_handler != SIG_DFL && program_action.sa_handler != SIG_IGN;
    int flags = SA_SIGINFO | SA_ONSTACK | (program_action.sa_flags & (SA_RESTART | SA_NODEFER));
    struct sigaction ours = {.sa_sigaction = handler, .sa_flags = flags, .sa_mask = program_action.sa_mask};
    if (!handled)
        (void)sigfillset(&ours.sa_mask);
    return ours;
}

/* HAKMEM's handler passes faults to the action in program_action. Another thread may install a new action after this function has read the old one.
 * Therefore the loop repeats until the action that was replaced is the one in program_action. */
bool hk_os_catch_faults(signal_handler *handler)
{
    struct sigaction former;
    int saved_errno = errno;
    bool installed = hk_forward_sigaction(SIGSEGV, NULL, &former) == 0, again = installed && handler != NULL;
    while (again) {
        program_action = former;
        struct sigaction shown = shown_for(SIGSEGV, &former);
        installed = install(SIGSEGV, (struct caught){before_programs(handler), shown}, &former);
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

/* A fault occurs again when HAKMEM's handler returns. A signal that a process has sent does not, so this function sends such a signal again. */
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
#else
    return (struct hk_fault){machine->pc, machine->regs[29], machine->sp, access_of(machine)};
#endif
}
