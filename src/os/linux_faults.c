/* Purges and bars pages, and says what a fault was. */
#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "os/linux.h"
#include "os/forward.h"

/* Since Linux 5.18 and 6.13; older headers do not name them. */
enum { DONTNEED_LOCKED = 24, GUARD_INSTALL = 102, GUARD_REMOVE = 103, NO_ADVICE = 0x7fff };

static _Atomic bool xprotects; /* some pages were barred by their protection */

size_t hk_linux_page_size(void)
{
    size_t size = getauxval(AT_PAGESZ);
    return size != 0 ? size : HK_PAGE;
}

static bool set_access(void *p, size_t size, int protection)
{
    return hk_forward_mprotect(p, size, protection, -1) == 0;
}

/* qemu-user accepts advice that it does not know, does nothing, and reports success. Where advice that does not exist is accepted, only
 * MADV_DONTNEED is believed. Each thread finds alike. */
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
    int saved_errno = errno;
    int r = hk_forward_madvise(p, size, MADV_DONTNEED);
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
        barred = set_access(p, size, PROT_NONE) && hk_linux_purge(p, size);
    }
    errno = saved_errno;
    return barred;
}

bool hk_linux_unbar(void *p, size_t size)
{
    int saved_errno = errno;
    (void)hk_forward_madvise(p, size, GUARD_REMOVE);
    bool open = !atomic_load(&xprotects) || set_access(p, size, PROT_READ | PROT_WRITE);
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

struct hk_fault hk_linux_fault_of(const void *context)
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
