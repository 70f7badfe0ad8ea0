#include "os/passed.h"

#include <dlfcn.h>
#include <linux/ioctl.h>
#include <linux/userfaultfd.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Names that older headers lack. */
enum {
    ADVICE_COLD = 20,
    ADVICE_PAGEOUT = 21,
    ADVICE_POPULATE_READ = 22,
    ADVICE_POPULATE_WRITE = 23,
    ADVICE_DONTNEED_LOCKED = 24,
    ADVICE_COLLAPSE = 25,
    ADVICE_GUARD_REMOVE = 103,
};

int hk_passed_madvise(void *p, size_t size, int advice) { return (int)syscall(SYS_madvise, p, size, advice); }

int hk_passed_mlock(const void *p, size_t size, unsigned flags)
{
    return (int)(flags == 0 ? syscall(SYS_mlock, p, size) : syscall(SYS_mlock2, p, size, flags));
}

int hk_passed_mprotect(void *p, size_t size, int protection, int key)
{
    return (int)(key == -1 ? syscall(SYS_mprotect, p, size, protection)
                           : syscall(SYS_pkey_mprotect, p, size, protection, key));
}

long hk_passed_mbind(void *p, unsigned long size, int mode, const unsigned long *nodes, unsigned long most,
                     unsigned flags)
{
    return syscall(SYS_mbind, p, size, mode, nodes, most, flags);
}

/* Weak: a static program does not have it. */
extern void *dlsym(void *restrict handle, const char *restrict name) __attribute__((weak));

typedef int ioctl_call(int fd, unsigned long request, ...);

static ioctl_call *next_ioctl(void)
{
    static _Atomic(ioctl_call *) found;
    ioctl_call *next = atomic_load_explicit(&found, memory_order_relaxed);
    if (next == NULL && dlsym != NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
        atomic_store_explicit(&found, next, memory_order_relaxed);
    }
    return next;
}

int hk_passed_ioctl(int fd, unsigned long request, void *argument)
{
    ioctl_call *next = next_ioctl();
    return next != NULL ? next(fd, request, argument) : (int)syscall(SYS_ioctl, fd, request, argument);
}

int hk_passed_prctl(int option, const unsigned long arguments[4])
{
    return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

int hk_passed_unshare(int flags) { return (int)syscall(SYS_unshare, flags); }

bool hk_prctl_shuts_in(int option) { return option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP; }

/* MADV_HUGEPAGE changes speed, not semantics, and programs such as NumPy request it for each block: treating it as
 * lasting would cost these blocks their resident pages. */
bool hk_advice_lasts(int advice)
{
    switch (advice) {
    case MADV_NORMAL:
    case MADV_WILLNEED:
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_DOFORK:
    case MADV_UNMERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_DODUMP:
    case MADV_KEEPONFORK:
    case ADVICE_COLD:
    case ADVICE_PAGEOUT:
    case ADVICE_POPULATE_READ:
    case ADVICE_POPULATE_WRITE:
    case ADVICE_DONTNEED_LOCKED:
    case ADVICE_COLLAPSE:
    case ADVICE_GUARD_REMOVE: return false;
    default: return true;
    }
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
