/* Usage: test_small_stack
 * Tests that all reports can run in a thread with the smallest stack, of which the C library uses a part. This stack has 16 KiB, but on aarch64
 * glibc refuses less than 128 KiB. A stack that is filled with a known byte shows how much of it each report uses. HAKMEM_HEAP_PROFILE and
 * HAKMEM_TRACE_RING must be set. */
#include "support/check.h"
#include "support/watchdog.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__aarch64__)
enum { SMALL = 128 * 1024 };
#else
enum { SMALL = 16384 };
#endif
enum { PAINTED = 128 * 1024, PAINT = 0xa5, DEEPEST = 6 * 1024 };

static int (*report_to)(const char *path);
static int (*profile_to)(const char *path);
static FILE *null_stream;
static int status;

static void nothing(void) {}

static void text(void) { status = report_to("/dev/null"); }

static char json_file[] = "/tmp/hakmem_small_stack_XXXXXX.json", metrics_file[] = "/tmp/hakmem_small_stack_XXXXXX.prom";

static void json(void) { status = report_to(json_file); }

static void metrics(void) { status = report_to(metrics_file); }

static void profile(void) { status = profile_to("/dev/null"); }

static void info(void) { status = malloc_info(0, null_stream); }

static void info2(void) { status = mallinfo2().arena == 0; }

static void trim(void) { malloc_trim(0); }

static void refusal(void) { status = malloc((size_t)1 << 46) != NULL; }

static void events(void) { raise(SIGUSR2); }

static const struct call {
    const char *name;
    void (*run)(void);
    bool c_library_too; /* true: the call also runs functions of the C library, so its depth is not checked */
} calls[] = {
    {"nothing", nothing, false}, {"malloc_stats", malloc_stats, false}, {"text", text, false},
    {"json", json, false},       {"metrics", metrics, false},           {"heap profile", profile, false},
    {"refusal", refusal, false}, {"mallinfo2", info2, false},           {"trim", trim, false},
    {"malloc_info", info, true}, {"last events", events, true},
};
enum { CALLS = sizeof calls / sizeof calls[0] };

static void *run(void *call)
{
    ((const struct call *)call)->run();
    return NULL;
}

static void run_on(const struct call *call, void *stack, size_t size)
{
    pthread_attr_t how;
    pthread_t thread;
    pthread_attr_init(&how);
    CHECK((stack ? pthread_attr_setstack(&how, stack, size) : pthread_attr_setstacksize(&how, size)) == 0,
          "stack of %zu", size);
    CHECK(pthread_create(&thread, &how, run, (void *)call) == 0, "%s: no thread", call->name);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&how);
    CHECK(status == 0, "%s: status %d", call->name, status);
    status = 0;
}

static size_t depth_of(const struct call *call, unsigned char *stack)
{
    size_t untouched = 0;
    memset(stack, PAINT, PAINTED);
    run_on(call, stack, PAINTED);
    while (untouched < PAINTED && stack[untouched] == PAINT) {
        untouched++;
    }
    return PAINTED - untouched;
}

static void look_up(const char *name, void *slot)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    CHECK(address != NULL, "%s", name);
    memcpy(slot, &address, sizeof address);
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* This report appears only once in a process. */
        for (int i = 0; i < CALLS; i++) {
            if (strcmp(calls[i].name, argv[1]) == 0) {
                run_on(&calls[i], NULL, SMALL);
            }
        }
        return check_report(argv[1]);
    }
    watchdog_start(60, "small stack");
    CHECK(mkstemps(json_file, 5) >= 0 && mkstemps(metrics_file, 5) >= 0, "no file");
    look_up("hak_report", &report_to);
    look_up("hak_heap_profile", &profile_to);
    null_stream = fopen("/dev/null", "w");
    setvbuf(null_stream, NULL, _IONBF, 0);
    unsigned char *stack = mmap(NULL, PAINTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t idle = 0;
    for (int i = 0; i < CALLS; i++) {
        size_t depth = depth_of(&calls[i], stack);
        idle = i == 0 || depth < idle ? depth : idle; /* the first thread also looks up names */
        printf("%-14s %5zu bytes deeper than a thread that does nothing\n", calls[i].name, depth - idle);
        CHECK(calls[i].c_library_too || depth - idle <= DEEPEST, "%s: %zu bytes", calls[i].name, depth - idle);
        fflush(stdout);
        if (calls[i].run != refusal) {
            run_on(&calls[i], NULL, SMALL);
        }
    }
    unlink(json_file);
    unlink(metrics_file);
    return check_report("small stack");
}
