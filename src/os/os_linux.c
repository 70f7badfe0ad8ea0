/* Fills the table hk_os with Linux system calls. */
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>
#include "os/linux.h"

#if defined(__x86_64__)
#include <asm/prctl.h>
#endif

/* Calls syscall() instead of functions that HAKMEM itself exports, such as mprotect. Also does so for rare calls, because the loader must look up each
 * C library function that HAKMEM calls by name. */
static void *linux_map(size_t size)
{
    void *p = KEEPING_ERRNO(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return p == MAP_FAILED ? NULL : p;
}

/* HAKMEM does not choose addresses under the thread sanitizer, which accepts only memory in certain address ranges. */
#if defined(__SANITIZE_THREAD__)
enum { CHOOSES_ADDRESSES = 0 };
#elif defined(__has_feature)
enum { CHOOSES_ADDRESSES = !__has_feature(thread_sanitizer) };
#else
enum { CHOOSES_ADDRESSES = 1 };
#endif

/* Before Linux 4.17 the kernel ignores FIXED_NOREPLACE and may choose another address. The system call is raw, because the thread sanitizer
 * intercepts mmap and discards addresses outside its own ranges. */
static enum hk_placed linux_map_at(void *p, size_t size)
{
    enum { FIXED_NOREPLACE = 0x100000 };
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | FIXED_NOREPLACE, saved_errno = errno;
    if (!CHOOSES_ADDRESSES)
        return HK_PLACE_TAKEN;
    void *got = (void *)syscall(SYS_mmap, p, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    bool taken = got != p && (got != MAP_FAILED || errno == EEXIST);
    if (got != p && got != MAP_FAILED)
        (void)munmap(got, size);
    errno = saved_errno;
    return got == p ? HK_PLACED : taken ? HK_PLACE_TAKEN : HK_PLACE_REFUSED;
}

void *hk_os_map_bare(size_t size)
{
    long p = -ENOSYS;
    const long protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = flags;
    register long r8 __asm__("r8") = -1;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(p)
                     : "a"((long)SYS_mmap), "D"(0L), "S"(size), "d"(protection), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_mmap;
    register long x0 __asm__("x0") = 0;
    register long x1 __asm__("x1") = (long)size;
    register long x2 __asm__("x2") = protection;
    register long x3 __asm__("x3") = flags;
    register long x4 __asm__("x4") = -1;
    register long x5 __asm__("x5") = 0;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    p = x0;
#endif
    return p < 0 && p > -HK_PAGE ? NULL : (void *)p;
}

static bool linux_unmap(void *p, size_t size) { return KEEPING_ERRNO(munmap(p, size)) == 0; }
static bool linux_seal(void *p, size_t size) { return KEEPING_ERRNO(syscall(SYS_mprotect, p, size, PROT_READ)) == 0; }

static bool linux_unseal(void *p, size_t size)
{
    return KEEPING_ERRNO(syscall(SYS_mprotect, p, size, PROT_READ | PROT_WRITE)) == 0;
}

/* Since Linux 6.17, the kernel checks a limit such as RLIMIT_AS while `to` is still mapped. The limit can then refuse the move, and `to` stays
 * mapped. Older kernels unmap `to` first. The limit cannot refuse the move then, because `to` is larger than the bytes that the move adds. This
 * function unmaps `to` after a refusal, so that the result is the same on all kernels. */
static bool linux_remap(void *p, size_t old_size, size_t new_size, void *to)
{
    int saved_errno = errno;
    void *q = to == NULL ? mremap(p, old_size, new_size, 0)
                         : mremap(p, old_size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    if (q == MAP_FAILED && to != NULL && errno == ENOMEM)
        (void)munmap(to, new_size);
    errno = saved_errno;
    return q != MAP_FAILED;
}

static void *linux_move(void *p, size_t old_size, size_t new_size)
{
    void *q = KEEPING_ERRNO(mremap(p, old_size, new_size, MREMAP_MAYMOVE));
    return q == MAP_FAILED ? NULL : q;
}

static bool linux_advise_huge(void *p, size_t size, bool wanted)
{
    return KEEPING_ERRNO(syscall(SYS_madvise, p, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE)) == 0;
}

/* Since Linux 6.18, prctl returns 3 if the process gets only the huge pages that it asks for. HAKMEM asks for huge pages, so 3 permits them. */
static bool linux_forbids_huge(void) { return KEEPING_ERRNO(syscall(SYS_prctl, PR_GET_THP_DISABLE, 0, 0, 0, 0)) == 1; }

/* MADV_FREE splits a huge page or folio at once. MADV_DONTNEED would only queue it, and the system would split it when memory is short. */
static void linux_split_huge(void *p, size_t size) { (void)KEEPING_ERRNO(syscall(SYS_madvise, p, size, MADV_FREE)); }

static inline uint64_t read_clock_ns(clockid_t clock)
{
    struct timespec now = {0, 0};
    (void)KEEPING_ERRNO(clock_gettime(clock, &now));
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t linux_clock_ms(void) { return read_clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000; }
static uint64_t linux_clock_ns(void) { return read_clock_ns(CLOCK_MONOTONIC); }

static void wait_for(_Atomic uint32_t *word, uint32_t expected, const struct timespec *time)
{
    (void)KEEPING_ERRNO(syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, time, NULL, 0));
}

static void linux_futex_wait_for(_Atomic uint32_t *word, uint32_t expected, uint64_t ms)
{
    struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    wait_for(word, expected, &time);
}

/* HAKMEM sleeps by waiting for this futex, because seccomp filters of programs with threads always allow futex. */
static _Atomic uint32_t never_woken;
static void linux_rest(uint64_t ms) { linux_futex_wait_for(&never_woken, 0, ms); }
void hk_os_pause(void) { wait_for(&never_woken, 0, &(struct timespec){0, 50000}); }

/* Returns true if thread-local storage is set up. In a static program, the thread register is 0 until the start-up code has set it up. */
static __attribute__((noinline, cold)) bool has_register_set(void)
{
    void *pointer = NULL;
#if defined(__x86_64__)
    (void)KEEPING_ERRNO(syscall(SYS_arch_prctl, ARCH_GET_FS, &pointer));
#else
    pointer = __builtin_thread_pointer();
#endif
    return pointer != NULL;
}

/* A dynamic program needs no check, because the loader sets up thread-local storage before it runs any other code. */
bool hk_os_has_thread_pointer(void) { return getauxval(AT_BASE) != 0 || has_register_set(); }
uintptr_t hk_os_program_entry(void) { return getauxval(AT_ENTRY); }
static void linux_futex_wait(_Atomic uint32_t *word, uint32_t expected) { wait_for(word, expected, NULL); }

static void linux_futex_wake(_Atomic uint32_t *word, int count)
{
    (void)KEEPING_ERRNO(syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0));
}

static bool linux_resident(const void *p, size_t size, unsigned char *pages)
{
    return KEEPING_ERRNO((int)syscall(SYS_mincore, p, size, pages)) == 0;
}

/* Says whether a seccomp filter may be in force. The first query asks prctl, which even the filters of systemd's services allow. */
static _Atomic enum { UNKNOWN, NO_FILTER, FILTER, OWN_FILTER } xfilter;

void hk_os_filter_comes(void) { atomic_store_explicit(&xfilter, OWN_FILTER, memory_order_relaxed); }

static bool linux_unfiltered(void)
{
    if (atomic_load_explicit(&xfilter, memory_order_relaxed) == UNKNOWN) {
        unsigned found = KEEPING_ERRNO(syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0)) == 0 ? NO_FILTER : FILTER;
        unsigned unknown = UNKNOWN;
        atomic_compare_exchange_strong_explicit(&xfilter, &unknown, found, memory_order_relaxed, memory_order_relaxed);
    }
    return atomic_load_explicit(&xfilter, memory_order_relaxed) == NO_FILTER;
}

/* Linux has POPULATE_WRITE since 5.14. MAP_POPULATE is no substitute, because it needs a new mapping, and if that fails, the old one may be gone. A
 * filter of the program's own (OWN_FILTER) may end the process at advice that it does not know. Filters of containers do not look at the advice. */
static bool linux_populate(void *p, size_t size)
{
    enum { POPULATE_WRITE = 23 };
    return atomic_load_explicit(&xfilter, memory_order_relaxed) != OWN_FILTER &&
           KEEPING_ERRNO(syscall(SYS_madvise, p, size, POPULATE_WRITE)) == 0;
}

/* Numbers for madvise() that older headers lack. Linux has DONTNEED_LOCKED since 5.18 and GUARD_* since 6.13. No kernel accepts NO_ADVICE. */
enum { DONTNEED_LOCKED = 24, GUARD_INSTALL = 102, GUARD_REMOVE = 103, NO_ADVICE = 0x7fff };
static _Atomic bool xprotects; /* true if pages were made inaccessible by mprotect, so that unbar must call it too */

static size_t linux_page_size(void) { return getauxval(AT_PAGESZ) != 0 ? getauxval(AT_PAGESZ) : HK_PAGE; }

/* Returns true if the kernel rejects unknown advice. qemu-user accepts such advice without doing anything. Success of a new kind of advice
 * then proves nothing, so HAKMEM does not use new kinds. Several threads may check at the same time, because they get the same result. */
static bool advice_counts(void *p, size_t size)
{
    enum { NOT_TRIED, COUNTS, IGNORED };
    static _Atomic unsigned found = NOT_TRIED;
    unsigned now = atomic_load_explicit(&found, memory_order_relaxed);
    if (now == NOT_TRIED) {
        now = syscall(SYS_madvise, p, size, NO_ADVICE) != 0 ? COUNTS : IGNORED;
        atomic_store_explicit(&found, now, memory_order_relaxed);
    }
    return now == COUNTS;
}

static bool linux_purge(void *p, size_t size)
{
    int saved_errno = errno, r = (int)syscall(SYS_madvise, p, size, MADV_DONTNEED);
    if (r != 0 && errno == EINVAL && advice_counts(p, size)) /* mlock may have locked the pages */
        r = (int)syscall(SYS_madvise, p, size, DONTNEED_LOCKED);
    errno = saved_errno;
    return r == 0;
}

/* Prefers MADV_GUARD_INSTALL to mprotect, because the advice neither splits the mapping nor waits for the lock of the process's mappings. The kernel
 * refuses the advice for locked memory, which therefore needs mprotect. */
static bool linux_bar(void *p, size_t size)
{
    if (KEEPING_ERRNO(advice_counts(p, size) && syscall(SYS_madvise, p, size, GUARD_INSTALL) == 0))
        return true;
    atomic_store(&xprotects, true);
    return KEEPING_ERRNO(syscall(SYS_mprotect, p, size, PROT_NONE)) == 0 && linux_purge(p, size);
}

static bool linux_unbar(void *p, size_t size)
{
    (void)KEEPING_ERRNO(syscall(SYS_madvise, p, size, GUARD_REMOVE));
    return !atomic_load(&xprotects) || linux_unseal(p, size);
}

/* Holds the environment that the loader passed, because the C library sets `environ` in a constructor, which may run after HAKMEM's. */
static char **early_environment HK_EACH_PROCESS_DATA;
HK_EACH_PROCESS void hk_os_environment_begins(char **variables) { early_environment = variables; }

HK_EACH_PROCESS static char **linux_environment(void)
{
    static char *nothing[] = {NULL};
    char **variables = environ != NULL ? environ : early_environment;
    return getauxval(AT_SECURE) != 0 || variables == NULL ? nothing : variables;
}

/* process_madvise() accepts MADV_DONTNEED since Linux 6.13, for the calling process only. PIDFD_SELF stands for this process, and older kernels
 * refuse it. A process that may have a seccomp filter does not try, because a filter may end the process at a system call that is new to it. */
static bool linux_purge_all(const struct hk_os_range *ranges, size_t count)
{
    enum { PROCESS_MADVISE = 440, PIDFD_SELF = -10000 };
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += ranges[i].size;
    return linux_unfiltered() &&
           KEEPING_ERRNO(syscall(PROCESS_MADVISE, PIDFD_SELF, ranges, count, MADV_DONTNEED, 0)) == (long)bytes;
}

static uint64_t linux_memory_total(void)
{
    struct sysinfo info;
    return KEEPING_ERRNO((int)syscall(SYS_sysinfo, &info)) != 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit;
}

static uint64_t linux_cpus(void)
{
    unsigned long mask[128] = {0};
    uint64_t cpus = 0;
    long bytes = KEEPING_ERRNO(syscall(SYS_sched_getaffinity, 0, sizeof mask, mask));
    for (long word = 0; word < bytes / (long)sizeof mask[0]; word++)
        cpus += (uint64_t)__builtin_popcountl(mask[word]);
    return cpus > 0 ? cpus : 1;
}

static size_t limit_of(int resource)
{
    struct rlimit limit;
    bool known = KEEPING_ERRNO((int)syscall(SYS_prlimit64, 0, resource, NULL, &limit)) == 0;
    return !known || limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)limit.rlim_cur;
}

static size_t linux_address_limit(void) { return limit_of(RLIMIT_AS); }
size_t hk_os_data_limit(void) { return limit_of(RLIMIT_DATA); }

static bool linux_random(void *bytes, size_t size)
{
    return KEEPING_ERRNO(syscall(SYS_getrandom, bytes, size, 0)) == (long)size;
}

HK_EACH_PROCESS static int linux_process_id(void) { return getpid(); }
int hk_os_parent_id(void) { return (int)syscall(SYS_getppid); }
/* /proc/self/task has 2 links more than the process has threads: one from its parent, its own ".", and ".." in the folder of each thread. */
bool hk_os_has_one_thread(void)
{
    struct stat tasks = {.st_nlink = 0};
    return KEEPING_ERRNO((int)syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &tasks, 0)) == 0 &&
           tasks.st_nlink == 3;
}

/* The headers of old C libraries do not name these commands of membarrier. */
enum { FENCE_ASK = 0, FENCE_PRIVATE = 8, FENCE_REGISTER = 16 };

static long membarrier(int command) { return KEEPING_ERRNO(syscall(SYS_membarrier, command, 0, 0)); }

/* A filter of the program's own may end the process at this call (see linux_populate()). */
static bool linux_can_fence(void)
{
    bool may_ask = atomic_load_explicit(&xfilter, memory_order_relaxed) != OWN_FILTER;
    long commands = may_ask ? membarrier(FENCE_ASK) : 0;
    return commands > 0 && (commands & FENCE_PRIVATE) != 0;
}

/* Registers the process only when the first fence is needed, because the registration may take milliseconds if several threads run. */
static bool linux_fence_threads(void)
{
    return membarrier(FENCE_PRIVATE) == 0 || (membarrier(FENCE_REGISTER) == 0 && membarrier(FENCE_PRIVATE) == 0);
}

size_t hk_os_leave_out_of_core(uintptr_t start, size_t size)
{
    return KEEPING_ERRNO(syscall(SYS_madvise, start, size, MADV_DONTDUMP)) == 0 ? size : 0;
}

int hk_os_thread_id(void) { return (int)syscall(SYS_gettid); }
static uintptr_t linux_program_break(void) { return (uintptr_t)syscall(SYS_brk, 0); }

struct hk_os hk_os = {
#define HERE(name) .name = linux_##name
#define IN_FILES(name) .name = hk_linux_##name /* defined in linux_files.c and linux_modules.c */
    HERE(map),           HERE(map_at),       HERE(unmap),          HERE(seal),          HERE(unseal),
    HERE(remap),         HERE(move),         HERE(advise_huge),    HERE(clock_ms),      HERE(clock_ns),
    HERE(rest),          HERE(futex_wait),   HERE(futex_wait_for), HERE(futex_wake),    HERE(resident),
    HERE(environment),   HERE(memory_total), HERE(cpus),           HERE(address_limit), HERE(random),
    HERE(process_id),    HERE(can_fence),    HERE(fence_threads),  HERE(program_break), HERE(unfiltered),
    HERE(populate),      HERE(forbids_huge), HERE(purge_all),      HERE(purge),         HERE(page_size),
    HERE(bar),           HERE(unbar),        IN_FILES(code_at),    IN_FILES(readable),  IN_FILES(write),
    IN_FILES(read_file), IN_FILES(open),     IN_FILES(read),       HERE(split_huge)};

_Atomic size_t hk_xsystem_page;

size_t hk_read_system_page(void)
{
    size_t bytes = hk_os.page_size();
    atomic_store_explicit(&hk_xsystem_page, bytes, memory_order_relaxed);
    return bytes;
}

void *hk_os_map_led(size_t size, size_t align, size_t lead)
{
    size_t page = hk_system_page();
    char *p = hk_os.map(size + align - page);
    if (p == NULL)
        return NULL;
    size_t before = (size_t)(-((uintptr_t)p + lead) & (align - 1));
    char *led = p + before;
    size_t after = align - page - before;
    /* The system refuses to unmap an edge if the process has too many mappings. The edge stays mapped then, but nothing touches it. */
    if (before > 0)
        hk_os.unmap(p, before);
    if (after > 0)
        hk_os.unmap(led + size, after);
    return led;
}

void *hk_os_map_aligned(size_t size, size_t align)
{
    char *p = hk_os.map(size);
    size_t over = (uintptr_t)p & (align - 1);
    if (p == NULL || over == 0)
        return p;
    /* Extends the mapping downward if possible. The addresses below it are often free, because the system places new mappings below older ones. */
    if (hk_os.map_at(p - over, over) == HK_PLACED) {
        hk_os.unmap(p - over + size, over);
        return p - over;
    }
    hk_os.unmap(p, size);
    return hk_os_map_led(size, align, 0);
}
