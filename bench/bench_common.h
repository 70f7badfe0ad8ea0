/* Defines the common parts of all benchmarks: arguments, a clock, a random generator, the process's memory figures, and a report as text or as a
 * JSON object.
 *
 * Rule   The harness never calls malloc. Its arrays come from mmap, and its report is formatted in a static buffer. So each call that a
 *        preloaded allocator sees belongs to the work that is measured.
 * Rule   The harness takes the figures before it writes the report. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BENCH_PAGE 4096u

/* ---- failure ---------------------------------------------------------- */

__attribute__((noreturn, cold, noinline, unused, format(printf, 1, 2))) static void bench_die(const char *format, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    dprintf(STDERR_FILENO, "bench: %s\n", line);
    _exit(2);
}

/* ---- arguments -------------------------------------------------------- */

typedef struct bench_args {
    const char *name;
    bool json;
    int count;
    char *value[16];
} bench_args;

static inline bench_args bench_args_read(int argc, char **argv, const char *usage)
{
    bench_args args = {.name = strrchr(argv[0], '/')};
    args.name = args.name ? args.name + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            args.json = true;
        } else if (argv[i][0] == '-' || args.count == 16) {
            dprintf(STDERR_FILENO, "usage: %s [--json] %s\n", args.name, usage);
            _exit(strcmp(argv[i], "--help") == 0 ? 0 : 2);
        } else {
            args.value[args.count++] = argv[i];
        }
    }
    return args;
}

/* Returns the value of a count, for example of 400, 200k or 1M (decimal multiples). */
static inline uint64_t bench_parse_u64(const char *text)
{
    char *end;
    errno = 0;
    uint64_t n = strtoull(text, &end, 10);
    uint64_t unit = *end == 'k' ? 1000u : *end == 'M' ? 1000000u : 1u;
    if (unit != 1)
        end++;
    if (end == text || *end != '\0' || errno != 0 || n > UINT64_MAX / unit)
        bench_die("not a count: '%s'", text);
    return n * unit;
}

static inline uint64_t bench_arg_u64(const bench_args *args, int i, uint64_t fallback)
{
    return i < args->count ? bench_parse_u64(args->value[i]) : fallback;
}

/* Returns the argument as bench_arg_u64() does, but ends the program if the value is not in [low, high]. */
static inline uint64_t bench_arg_in(const bench_args *args, int i, uint64_t fallback, uint64_t low, uint64_t high)
{
    uint64_t n = bench_arg_u64(args, i, fallback);
    if (n < low || n > high)
        bench_die("argument %d must be %llu to %llu", i + 1, (unsigned long long)low, (unsigned long long)high);
    return n;
}

static inline double bench_arg_f64(const bench_args *args, int i, double fallback)
{
    if (i >= args->count)
        return fallback;
    char *end;
    double x = strtod(args->value[i], &end);
    if (end == args->value[i] || *end != '\0' || !(x >= 0 && x <= 1e9))
        bench_die("not a number: '%s'", args->value[i]);
    return x;
}

static inline const char *bench_arg_str(const bench_args *args, int i, const char *fallback)
{
    return i < args->count ? args->value[i] : fallback;
}

/* Searches a table for the row whose first member is this name, and returns the row. Ends the program if no row has this name. */
#define bench_find(what, rows, name) (&(rows)[bench_row_of(what, rows, sizeof(rows), sizeof *(rows), name)])

static inline size_t bench_row_of(const char *what, const void *rows, size_t bytes, size_t row_bytes, const char *name)
{
    for (size_t at = 0; at < bytes; at += row_bytes) {
        if (strcmp(*(const char *const *)((const char *)rows + at), name) == 0)
            return at / row_bytes;
    }
    bench_die("no %s '%s'", what, name);
}

/* ---- threads ----------------------------------------------------------- */

static inline void bench_wait_for(sem_t *event)
{
    while (sem_wait(event) != 0) {}
}

/* Starts a thread. If stack_bytes is 0, the thread has the C library's usual stack. */
static inline pthread_t bench_start_thread(void *(*life)(void *), void *arg, size_t stack_bytes)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    if (stack_bytes != 0)
        pthread_attr_setstacksize(&attr, stack_bytes);
    int error = pthread_create(&thread, &attr, life, arg);
    if (error != 0)
        bench_die("pthread_create: %s", strerror(error));
    pthread_attr_destroy(&attr);
    return thread;
}

/* ---- clock and random numbers ---------------------------------------- */

/* Returns a clock's time in seconds, or -1 if the clock is that of a process that has ended. */
static inline double bench_read_clock(clockid_t clock)
{
    struct timespec t;
    return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec + (double)t.tv_nsec * 1e-9 : -1;
}

static inline double bench_now(void) { return bench_read_clock(CLOCK_MONOTONIC); }

static inline void bench_sleep(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

/* A xorshift64* generator, which needs a nanosecond for a number, and gives the same sequence on all machines. */
typedef struct bench_rng {
    uint64_t state;
} bench_rng;

static inline bench_rng bench_rng_seed(uint64_t seed)
{
    /* splitmix64's finalizer is used because similar seeds must not give similar sequences */
    uint64_t z = seed + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (bench_rng){z ? z : 1};
}

static inline uint64_t bench_rng_next(bench_rng *rng)
{
    uint64_t x = rng->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    rng->state = x;
    return x * 0x2545F4914F6CDD1Du;
}

/* Return a number below n. The functions use different halves of `r`, so one `r` gives two independent choices. They avoid slow divisions. */
static inline uint64_t bench_pick_high(uint64_t r, uint64_t n) { return ((r >> 32) * n) >> 32; }
static inline uint64_t bench_pick_low(uint64_t r, uint64_t n) { return ((r & 0xFFFFFFFFu) * n) >> 32; }

/* ---- memory ----------------------------------------------------------- */

/* Returns memory for the harness. The memory does not come from the allocator under test. */
static inline void *bench_map(size_t bytes)
{
    void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        bench_die("mmap of %zu bytes: %s", bytes, strerror(errno));
    return p;
}

/* Returns the block. Ends the program if `block` is NULL. */
static inline void *bench_expect(void *block, size_t size)
{
    if (__builtin_expect(block == NULL, 0))
        bench_die("the allocator returned NULL for %zu bytes", size);
    return block;
}

/* Allocates a block, and writes its first byte, because any program writes to its blocks. */
static inline void *bench_alloc(size_t size)
{
    char *p = bench_expect(malloc(size), size);
    *(volatile char *)p = (char)size;
    return p;
}

/* Returns the block. Ends the program if `block` is NULL, or if its first or last byte is not zero. */
static inline char *bench_expect_zero(char *block, size_t size)
{
    bench_expect(block, size);
    if (block[0] != 0 || block[size - 1] != 0)
        bench_die("a block of %zu bytes is not zero", size);
    return block;
}

static inline void bench_touch_pages(void *block, size_t size)
{
    volatile char *p = block;
    for (size_t i = 0; i < size; i += BENCH_PAGE)
        p[i] = (char)i;
}

/* Reads a file of /proc whose text the kernel returns in one read(). If the file cannot be opened, the text is empty. */
static inline void bench_read_file(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, capacity - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    close(fd);
}

/* Returns the number on the line "FIELD: number kB" of a file of /proc, or 0 if the file has no such line. */
static inline uint64_t bench_proc_kib(const char *path, const char *field)
{
    char text[8192], begin[64];
    bench_read_file(path, text, sizeof text);
    snprintf(begin, sizeof begin, "\n%s:", field); /* skips the first line, which has no number in these files */
    const char *line = strstr(text, begin);
    return line != NULL ? strtoull(line + strlen(begin), NULL, 10) : 0;
}

/* Returns the RSS from smaps_rollup, which is exact, because the kernel walks the page tables. VmRSS is read only if smaps_rollup is missing.
 * VmRSS lags by up to 64 pages for each thread. This is too much for a process of 1.5 MiB. */
static inline uint64_t bench_rss_kib(void)
{
    uint64_t exact = bench_proc_kib("/proc/self/smaps_rollup", "Rss");
    return exact ? exact : bench_proc_kib("/proc/self/status", "VmRSS");
}

/* Returns the RSS less exactly than bench_rss_kib(), but fast enough for samples while other threads run. */
static inline uint64_t bench_rss_now_kib(void)
{
    char text[128];
    bench_read_file("/proc/self/statm", text, sizeof text);
    const char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) * (BENCH_PAGE / 1024) : 0;
}

static inline uint64_t bench_faults(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_minflt + (uint64_t)u.ru_majflt;
}

/* ---- the measured interval ------------------------------------------- */

/* Wall time is the main figure. The processor time of all threads is also reported, because wall time is not repeatable on a busy machine. */
typedef struct bench_span {
    double seconds, cpu_seconds;
    uint64_t faults;
} bench_span;

static inline bench_span bench_read_clocks(void)
{
    bench_span now = {.faults = bench_faults()};
    now.cpu_seconds = bench_read_clock(CLOCK_PROCESS_CPUTIME_ID);
    now.seconds = bench_now(); /* is read last, because it is the main figure */
    return now;
}

static inline bench_span bench_start(void)
{
    bench_read_clocks(); /* the first call takes the page faults of its code and stack, so that the second call takes none */
    return bench_read_clocks();
}

static inline bench_span bench_stop(bench_span start)
{
    bench_span now = bench_read_clocks();
    return (bench_span){now.seconds - start.seconds, now.cpu_seconds - start.cpu_seconds, now.faults - start.faults};
}

static inline bench_span bench_add(bench_span a, bench_span b)
{
    return (bench_span){a.seconds + b.seconds, a.cpu_seconds + b.cpu_seconds, a.faults + b.faults};
}

/* ---- the report ------------------------------------------------------- */

/* All calls that the program made to the allocator, including those of the warm-up. The runner compares them with the number of calls that
 * HAKMEM reports. */
typedef struct bench_calls {
    uint64_t mallocs, frees, reallocs;
} bench_calls;

typedef struct bench_report {
    bool json;
    size_t used;
    char text[16384];
} bench_report;

__attribute__((format(printf, 2, 3))) static inline void bench_say(bench_report *r, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(r->text + r->used, sizeof r->text - r->used, format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof r->text - r->used)
        bench_die("report too long");
    r->used += (size_t)n;
}

static inline void bench_key(bench_report *r, const char *key)
{
    if (r->json)
        bench_say(r, "%s\"%s\": ", r->used ? ", " : "{", key);
    else
        bench_say(r, "%-24s ", key);
}

static inline void bench_put_u64(bench_report *r, const char *key, uint64_t value)
{
    bench_key(r, key);
    bench_say(r, r->json ? "%llu" : "%llu\n", (unsigned long long)value);
}

static inline void bench_put_f64(bench_report *r, const char *key, double value)
{
    bench_key(r, key);
    bench_say(r, r->json ? "%.6g" : "%.6g\n", value);
}

/* Writes a figure of one part of the benchmark. A part is a phase or a pattern. */
static inline void bench_put_part(bench_report *r, const char *figure, const char *part, double value)
{
    char key[64];
    snprintf(key, sizeof key, "%s_%s", figure, part);
    bench_put_f64(r, key, value);
}

static inline void bench_put_str(bench_report *r, const char *key, const char *value)
{
    bench_key(r, key);
    bench_say(r, r->json ? "\"" : "");
    for (const char *c = value; *c; c++) {
        bool escape = r->json && (*c == '"' || *c == '\\');
        bench_say(r, escape ? "\\%c" : "%c", *c);
    }
    bench_say(r, r->json ? "\"" : "\n");
}

/* Begins the report, and takes the memory figures first, because formatting could change them. */
static inline bench_report *bench_report_begin(const bench_args *args)
{
    static bench_report report;
    uint64_t faults = bench_faults(), rss = bench_rss_kib(), peak = bench_proc_kib("/proc/self/status", "VmHWM");
    report.json = args->json;
    bench_put_str(&report, "bench", args->name);
    bench_put_u64(&report, "rss_kib", rss);
    bench_put_u64(&report, "peak_rss_kib", peak > rss ? peak : rss);
    bench_put_u64(&report, "page_faults", faults);
    return &report;
}

/* Completes and prints the report. The report names the library that malloc comes from, because a preload may fail without a message.
 * Returns the program's exit status. */
static inline int bench_report_end(bench_report *r, bench_span span, uint64_t ops, bench_calls calls)
{
    double n = ops ? (double)ops : 1;
    if (span.seconds != 0) { /* is 0 if the program has no timed loop */
        bench_put_u64(r, "ops", ops);
        bench_put_f64(r, "seconds", span.seconds);
        bench_put_f64(r, "mops_per_s", n / span.seconds * 1e-6);
        bench_put_f64(r, "ns_per_op", span.seconds / n * 1e9);
        bench_put_f64(r, "cpu_ns_per_op", span.cpu_seconds / n * 1e9);
        bench_put_u64(r, "steady_faults", span.faults);
        bench_put_f64(r, "steady_faults_per_op", (double)span.faults / n);
    }
    bench_put_u64(r, "calls_malloc", calls.mallocs);
    bench_put_u64(r, "calls_free", calls.frees);
    bench_put_u64(r, "calls_realloc", calls.reallocs);
    Dl_info info;
    void *entry = dlsym(RTLD_DEFAULT, "malloc");
    bool found = entry != NULL && dladdr(entry, &info) != 0 && info.dli_fname != NULL;
    bench_put_str(r, "malloc_from", found ? info.dli_fname : "?");
    bench_say(r, r->json ? "}\n" : "");
    for (size_t done = 0; done < r->used;) {
        ssize_t written = write(STDOUT_FILENO, r->text + done, r->used - done);
        if (written < 0 && errno != EINTR)
            bench_die("write: %s", strerror(errno));
        done += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

#endif
