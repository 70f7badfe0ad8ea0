/* Forwards the program's intercepted calls, such as madvise and sigaction, to the system. */
#include "os/forward.h"
#include <dlfcn.h>
#include <linux/ioctl.h>
#include <linux/userfaultfd.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* These are the numbers of MADV_COLD, MADV_COLLAPSE and MADV_GUARD_REMOVE, which older headers do not name. */
enum { ADVICE_COLD = 20, ADVICE_COLLAPSE = 25, ADVICE_GUARD_REMOVE = 103 };

/* dlsym is weak, because a static program does not have it. */
#pragma weak dlsym

void *hk_forward_symbol(const char *name) { return dlsym != NULL ? dlsym(RTLD_DEFAULT, name) : NULL; }
void *hk_forward_next(const char *name) { return dlsym != NULL ? dlsym(RTLD_NEXT, name) : NULL; }

void *hk_forward_next_once(const char *name, _Atomic(void *) *found)
{
    void *next = atomic_load_explicit(found, memory_order_relaxed);
    if (next == NULL) {
        next = hk_forward_next(name);
        atomic_store_explicit(found, next, memory_order_relaxed);
    }
    return next;
}

typedef int ioctl_call(int fd, unsigned long request, ...); /* the type of the request differs between C libraries */
int hk_forward_ioctl(int fd, unsigned long request, void *argument)
{
    static _Atomic(void *) found;
    ioctl_call *next = (ioctl_call *)hk_forward_next_once("ioctl", &found);
    return next != NULL ? next(fd, request, argument) : (int)syscall(SYS_ioctl, fd, request, argument);
}

/* In a static program, no definition follows HAKMEM's sigaction. Then HAKMEM calls __sigaction, which a static program with glibc always contains. */
extern int __sigaction(int number, const struct sigaction *action, struct sigaction *former) __attribute__((weak));

#ifndef __GLIBC__
/* Holds a signal action as the kernel expects it. A static program with musl contains the library's sigaction only if other code calls it. Otherwise
 * HAKMEM calls the kernel itself. On x86-64, the kernel requires `restorer`, the code that returns from a handler. The kernel of aarch64 does
 * not use `restorer`. `handler` also holds handlers with SA_SIGINFO (three parameters), because sigaction keeps both types in a union. */
struct kernel_action {
    void (*handler)(int number);
    unsigned long flags;
#ifdef SA_RESTORER
    void (*restorer)(void);
#endif
    uint64_t mask;
};

#if defined(__x86_64__)
/* Returns from a signal handler. Debuggers and unwinders recognize these instructions by their bytes, so no other encoding may be used. */
void hk_signal_return(void) __attribute__((visibility("hidden")));
__asm__(".text\n\t.hidden hk_signal_return\n\t.globl hk_signal_return\n\t.type hk_signal_return, @function\n"
        "hk_signal_return:\n\tmovq $15, %rax\n\tsyscall\n\t.size hk_signal_return, .-hk_signal_return");
enum { KERNEL_RESTORER = 0x04000000 };
#endif

static int kernel_sigaction(int number, const struct sigaction *action, struct sigaction *former)
{
    struct kernel_action wanted = {.flags = 0}, had = {.flags = 0};
    if (action != NULL) {
        wanted.handler = action->sa_handler;
        wanted.flags = (unsigned long)(unsigned)action->sa_flags;
        memcpy(&wanted.mask, &action->sa_mask, sizeof wanted.mask);
#if defined(__x86_64__)
        wanted.flags |= KERNEL_RESTORER;
        wanted.restorer = hk_signal_return;
#endif
    }
    long failed = syscall(SYS_rt_sigaction, number, action != NULL ? &wanted : NULL, &had, sizeof wanted.mask);
    if (failed == 0 && former != NULL) {
        *former = (struct sigaction){.sa_handler = had.handler, .sa_flags = (int)had.flags};
        memcpy(&former->sa_mask, &had.mask, sizeof had.mask);
    }
    return (int)failed;
}
#endif

int hk_forward_sigaction(int number, const struct sigaction *action, struct sigaction *former)
{
    static _Atomic(void *) found;
    __typeof__(sigaction) *next = (__typeof__(next))hk_forward_next_once("sigaction", &found);
#ifndef __GLIBC__
    if (next == NULL && __sigaction == NULL)
        return kernel_sigaction(number, action, former);
#endif
    return (next != NULL ? next : __sigaction)(number, action, former);
}

sighandler_t hk_forward_signal(int number, sighandler_t handler)
{
    static _Atomic(void *) found;
    __typeof__(signal) *next = (__typeof__(next))hk_forward_next_once("signal", &found);
    if (next != NULL)
        return next(number, handler);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, former;
    return hk_forward_sigaction(number, &action, &former) == 0 ? former.sa_handler : SIG_ERR;
}

bool hk_prctl_shuts_in(int option) { return option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP; }

/* MADV_HUGEPAGE does not count as a lasting change, because it only affects speed. Programs such as NumPy request it for each block. HAKMEM unmaps
 * freed blocks with a lasting change, so NumPy's blocks would lose their resident pages at each free. */
bool hk_advice_lasts(int advice)
{
    static const uint8_t passing[] = {MADV_NORMAL,      MADV_WILLNEED,   MADV_DONTNEED,      MADV_FREE,
                                      MADV_REMOVE,      MADV_DOFORK,     MADV_DODUMP,        MADV_HUGEPAGE,
                                      MADV_UNMERGEABLE, MADV_KEEPONFORK, ADVICE_GUARD_REMOVE};
    bool lasts = advice < ADVICE_COLD || advice > ADVICE_COLLAPSE;
    for (size_t i = 0; i < sizeof passing; i++)
        lasts &= advice != passing[i];
    return lasts;
}

bool hk_protection_is_ordinary(int protection, int key)
{
    return protection == (PROT_READ | PROT_WRITE) && (key == -1 || key == 0);
}

bool hk_ioctl_watches_faults(unsigned long request, const void *argument, void **p, size_t *size)
{
    if ((unsigned)request != (unsigned)UFFDIO_REGISTER)
        return false;
    const struct uffdio_register *requested = argument;
    *p = (void *)(unsigned long)requested->range.start;
    *size = requested->range.len;
    return true;
}
