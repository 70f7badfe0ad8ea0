/* Interposes the C library's functions that change mappings, because HAKMEM must know if the program has changed the mapping of a large block.
 * Interposes _exit and _Exit, which end the process without its destructors, because HAKMEM must still write its reports. */
#include <stdarg.h>
#include "os/forward.h"
#include "runtime/lifecycle.h"

HK_STANDS_BEFORE(int, madvise, (void *p, size_t size, int advice))
{
    if (hk_advice_lasts(advice))
        hk_large_note_modified((uintptr_t)p, size);
    return (int)HK_FORWARD(SYS_madvise, p, size, advice);
}

static int lock_pages(const void *p, size_t size, unsigned flags)
{
    hk_large_note_modified((uintptr_t)p, size);
    return (int)(flags == 0 ? HK_FORWARD(SYS_mlock, p, size) : HK_FORWARD(SYS_mlock2, p, size, flags));
}

HK_STANDS_BEFORE(int, mlock, (const void *p, size_t size)) { return lock_pages(p, size, 0); }
HK_STANDS_BEFORE(int, mlock2, (const void *p, size_t size, unsigned flags)) { return lock_pages(p, size, flags); }

static int protect(void *p, size_t size, int protection, int key)
{
    if (!hk_protection_is_ordinary(protection, key))
        hk_large_note_modified((uintptr_t)p, size);
    return (int)(key == -1 ? HK_FORWARD(SYS_mprotect, p, size, protection)
                           : HK_FORWARD(SYS_pkey_mprotect, p, size, protection, key));
}

HK_STANDS_BEFORE(int, mprotect, (void *p, size_t size, int protection)) { return protect(p, size, protection, -1); }

HK_STANDS_BEFORE(int, pkey_mprotect, (void *p, size_t size, int protection, int key))
{
    return protect(p, size, protection, key);
}

HK_STANDS_BEFORE(long, mbind,
                 (void *p, unsigned long size, int mode, const unsigned long *nodes, unsigned long most,
                  unsigned flags))
{
    hk_large_note_modified((uintptr_t)p, size);
    return HK_FORWARD(SYS_mbind, p, size, mode, nodes, most, flags);
}

HK_STANDS_BEFORE(int, ioctl, (int fd, unsigned long request, ...))
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *), *p;
    va_end(arguments);
    size_t size;
    int result = hk_forward_ioctl(fd, request, argument);
    if (result == 0 && hk_ioctl_watches_faults(request, argument, &p, &size))
        hk_large_note_modified((uintptr_t)p, size);
    return result;
}

static _Noreturn void end_process(int status)
{
    hk_end_at_once();
    for (;;)
        HK_FORWARD(SYS_exit_group, status);
}

HK_STANDS_BEFORE(void, _exit, (int status)) { end_process(status); }
HK_STANDS_BEFORE(void, _Exit, (int status)) { end_process(status); }
