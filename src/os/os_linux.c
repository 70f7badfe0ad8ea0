#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "os/linux.h"
#include "os/os.h"
#include "os/passed.h"

#if defined(__x86_64__)
#include <asm/prctl.h>
#endif

/* Uses passed.h for calls whose C library name HAKMEM exports itself. */
static void *linux_map(size_t size)
{
    void *p;
    KEEPING_ERRNO(p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return p == MAP_FAILED ? NULL : p;
}

/* A thread sanitizer requires memory in the address range that it shadows. */
#if defined(__SANITIZE_THREAD__)
enum { CHOOSES_ADDRESSES = 0 };
#elif defined(__has_feature)
enum { CHOOSES_ADDRESSES = !__has_feature(thread_sanitizer) };
#else
enum { CHOOSES_ADDRESSES = 1 };
#endif

/* Before Linux 4.17 the flag is ignored and the address is a hint. A raw system call: a program's thread sanitizer
 * intercepts mmap and removes addresses outside its own ranges. */
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

static bool linux_unmap(void *p, size_t size)
{
    int r;
    KEEPING_ERRNO(r = munmap(p, size));
    return r == 0;
}

static bool linux_seal(void *p, size_t size)
{
    int r;
    KEEPING_ERRNO(r = hk_passed_mprotect(p, size, PROT_READ, -1));
    return r == 0;
}

static bool linux_unseal(void *p, size_t size)
{
    int r;
    KEEPING_ERRNO(r = hk_passed_mprotect(p, size, PROT_READ | PROT_WRITE, -1));
    return r == 0;
}

static bool linux_remap(void *p, size_t old_size, size_t new_size, void *to)
{
    void *q;
    if (to == NULL)
        KEEPING_ERRNO(q = mremap(p, old_size, new_size, 0));
    else
        KEEPING_ERRNO(q = mremap(p, old_size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
    return q != MAP_FAILED;
}

static bool linux_advise_huge(void *p, size_t size, bool wanted)
{
    int r;
    KEEPING_ERRNO(r = hk_passed_madvise(p, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
    return r == 0;
}

/* MADV_DONTNEED only queues the huge page for a split, which the system performs when memory is short; MADV_FREE splits
 * it at once. */
static void linux_split_huge(void *p, size_t size) { KEEPING_ERRNO((void)hk_passed_madvise(p, size, MADV_FREE)); }

static uint64_t linux_clock_ms(void)
{
    struct timespec now = {0, 0};
    KEEPING_ERRNO((void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now));
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t linux_clock_ns(void)
{
    struct timespec now = {0, 0};
    KEEPING_ERRNO((void)clock_gettime(CLOCK_MONOTONIC, &now));
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void wait_for(_Atomic uint32_t *word, uint32_t expected, struct timespec time)
{
    KEEPING_ERRNO((void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &time, NULL, 0));
}

/* A futex that nobody wakes: a sleep by a system call that sandboxes of threaded programs allow. */
static void sleep_for(struct timespec time)
{
    static _Atomic uint32_t never_woken;
    wait_for(&never_woken, 0, time);
}

static void linux_pause(void) { sleep_for((struct timespec){0, 50000}); }

static struct timespec ms_as_time(uint64_t ms)
{
    return (struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
}

static void linux_rest(uint64_t ms) { sleep_for(ms_as_time(ms)); }

static void linux_futex_wait_for(_Atomic uint32_t *word, uint32_t expected, uint64_t ms)
{
    wait_for(word, expected, ms_as_time(ms));
}

static bool linux_in_loader(const void *code)
{
    uintptr_t base = getauxval(AT_BASE);
    if (base == 0)
        return false;
    const ElfW(Ehdr) *image = (const void *)base;
    const ElfW(Phdr) *segment = (const void *)(base + image->e_phoff);
    for (unsigned i = 0; i < image->e_phnum; i++)
        if (segment[i].p_type == PT_LOAD && (uintptr_t)code - base - segment[i].p_vaddr < segment[i].p_memsz)
            return true;
    return false;
}

/* In a static program, the register is 0 until the start-up code has set up thread-local storage. */
static __attribute__((noinline, cold)) bool has_register_set(void)
{
#if defined(__x86_64__)
    unsigned long pointer = 0;
    KEEPING_ERRNO((void)syscall(SYS_arch_prctl, ARCH_GET_FS, &pointer));
    return pointer != 0;
#else
    return __builtin_thread_pointer() != NULL;
#endif
}

/* The dynamic loader sets up thread-local storage before it runs any other code. */
static bool linux_has_thread_pointer(void) { return getauxval(AT_BASE) != 0 || has_register_set(); }

static void linux_futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    KEEPING_ERRNO((void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0));
}

static void linux_futex_wake(_Atomic uint32_t *word, int count)
{
    KEEPING_ERRNO((void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0));
}

static bool linux_resident(const void *p, size_t size, unsigned char *pages)
{
    int r;
    KEEPING_ERRNO(r = mincore((void *)(uintptr_t)p, size, pages));
    return r == 0;
}

/* The C library learns of the environment in a constructor of its own, which may run after HAKMEM's. */
static char **early_environment;

static bool linux_has_libc(void) { return environ != NULL; }

static void linux_environment_begins(char **variables) { early_environment = variables; }

static char **linux_environment(void)
{
    static char *nothing[] = {NULL};
    char **variables = environ != NULL ? environ : early_environment;
    return getauxval(AT_SECURE) != 0 || variables == NULL ? nothing : variables;
}

static const char *linux_option_text(const char *name)
{
    size_t length = strlen(name);
    for (char **entry = linux_environment(); *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

static uint64_t linux_memory_total(void)
{
    struct sysinfo info;
    int r;
    KEEPING_ERRNO(r = sysinfo(&info));
    return r != 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit;
}

static uint64_t linux_cpus(void)
{
    unsigned long mask[128] = {0};
    uint64_t cpus = 0;
    long bytes;
    KEEPING_ERRNO(bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask));
    for (long word = 0; word < bytes / (long)sizeof mask[0]; word++)
        cpus += (uint64_t)__builtin_popcountl(mask[word]);
    return cpus > 0 ? cpus : 1;
}

static size_t limit_of(struct rlimit limit)
{
    return limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)limit.rlim_cur;
}

static size_t linux_address_limit(void)
{
    struct rlimit limit;
    int r;
    KEEPING_ERRNO(r = getrlimit(RLIMIT_AS, &limit));
    return r != 0 ? SIZE_MAX : limit_of(limit);
}

static size_t linux_data_limit(void)
{
    struct rlimit limit;
    int r;
    KEEPING_ERRNO(r = getrlimit(RLIMIT_DATA, &limit));
    return r != 0 ? SIZE_MAX : limit_of(limit);
}

static bool linux_random(void *bytes, size_t size)
{
    long got;
    KEEPING_ERRNO(got = syscall(SYS_getrandom, bytes, size, 0));
    return got == (long)size;
}

static int linux_process_id(void) { return getpid(); }
static int linux_parent_id(void) { return getppid(); }
/* A folder has a link from itself, from its parent, and from each of its folders: one for each thread. */
static bool linux_has_one_thread(void)
{
    struct stat tasks = {.st_nlink = 0};
    int r;
    KEEPING_ERRNO(r = stat("/proc/self/task", &tasks));
    return r == 0 && tasks.st_nlink == 3;
}

static int linux_thread_id(void) { return (int)syscall(SYS_gettid); }

/* Blocks all other signals during the handler; one that cannot be blocked, such as a fault in the handler, ends the
 * process. */
static bool linux_catch_signal(int number, void (*handler)(int number, siginfo_t *info, void *context))
{
    struct sigaction now, ours = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    int saved_errno = errno;
    (void)sigfillset(&ours.sa_mask);
    bool known = hk_passed_sigaction(number, NULL, &now) == 0, informed = known && (now.sa_flags & SA_SIGINFO) != 0;
    bool caught = informed && now.sa_sigaction == handler;
    if (known && !informed && now.sa_handler == SIG_DFL)
        caught = hk_passed_sigaction(number, &ours, NULL) == 0;
    errno = saved_errno;
    return caught;
}

static uintptr_t linux_program_break(void) { return (uintptr_t)sbrk(0); }

struct hk_os hk_os = {
    .map = linux_map,
    .map_at = linux_map_at,
    .unmap = linux_unmap,
    .seal = linux_seal,
    .unseal = linux_unseal,
    .purge = hk_linux_purge,
    .remap = linux_remap,
    .advise_huge = linux_advise_huge,
    .split_huge = linux_split_huge,
    .clock_ms = linux_clock_ms,
    .clock_ns = linux_clock_ns,
    .pause = linux_pause,
    .rest = linux_rest,
    .in_loader = linux_in_loader,
    .has_libc = linux_has_libc,
    .has_thread_pointer = linux_has_thread_pointer,
    .futex_wait = linux_futex_wait,
    .futex_wait_for = linux_futex_wait_for,
    .futex_wake = linux_futex_wake,
    .write = hk_linux_write,
    .create = hk_linux_create,
    .append = hk_linux_append,
    .close = hk_linux_close,
    .identify = hk_linux_identify,
    .read_file = hk_linux_read_file,
    .open = hk_linux_open,
    .read = hk_linux_read,
    .is_replaceable = hk_linux_is_replaceable,
    .rename = hk_linux_rename,
    .resident = linux_resident,
    .option_text = linux_option_text,
    .environment_begins = linux_environment_begins,
    .environment = linux_environment,
    .memory_total = linux_memory_total,
    .cpus = linux_cpus,
    .address_limit = linux_address_limit,
    .data_limit = linux_data_limit,
    .random = linux_random,
    .process_id = linux_process_id,
    .parent_id = linux_parent_id,
    .catch_signal = linux_catch_signal,
    .default_signal = hk_linux_default_signal,
    .page_size = hk_linux_page_size,
    .bar = hk_linux_bar,
    .unbar = hk_linux_unbar,
    .has_one_thread = linux_has_one_thread,
    .thread_id = linux_thread_id,
    .read_at = hk_linux_read_at,
    .catch_faults = hk_linux_catch_faults,
    .pass_fault = hk_linux_pass_fault,
    .leave_fault = hk_linux_leave_fault,
    .fault_of = hk_linux_fault_of,
    .program_break = linux_program_break,
};

_Atomic size_t hk_xsystem_page;

size_t hk_read_system_page(void)
{
    size_t bytes = hk_os.page_size();
    atomic_store_explicit(&hk_xsystem_page, bytes, memory_order_relaxed);
    return bytes;
}

void *hk_os_map_aligned(size_t size, size_t align)
{
    char *p = hk_os.map(size);
    if (p == NULL || ((uintptr_t)p & (align - 1)) == 0)
        return p;
    hk_os.unmap(p, size);
    size_t page = hk_system_page();
    p = hk_os.map(size + align - page);
    if (p == NULL)
        return NULL;
    size_t before = (size_t)(-(uintptr_t)p & (align - 1));
    char *aligned = p + before;
    size_t after = align - page - before;
    /* An edge that cannot be unmapped (no VMA left for the split) stays as untouched address space. */
    if (before > 0)
        hk_os.unmap(p, before);
    if (after > 0)
        hk_os.unmap(aligned + size, after);
    return aligned;
}
