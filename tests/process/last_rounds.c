/* Usage: test_last_rounds [LIBRARY]
 * Tests threads that first call malloc in a key's destructor, in any of the four rounds, and threads that end by a bare system call. The heap must
 * grow with the number of threads that are alive at one time, not with the number of all threads. With LIBRARY, dlopen loads HAKMEM after the
 * program created its key, so that HAKMEM's own destructor runs last. */
#include "support/check.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 4, FIRST = 100, THREADS = 1500, AT_ONCE = 8, BARE_EXIT = ROUNDS + 1, MOST_KIB = 2048 };

static void *(*allocate)(size_t size) = malloc;
static void (*release)(void *p) = free;
static pthread_key_t key;
static uintptr_t last_round;

static void use_a_little(void)
{
    char *p = allocate(100);
    CHECK(p != NULL, "malloc of 100 bytes");
    memset(p, 1, 100);
    release(p);
    check_thread_done();
}

static void in_round(void *value)
{
    uintptr_t round = (uintptr_t)value;
    if (round == last_round) {
        use_a_little();
    } else {
        pthread_setspecific(key, (void *)(round + 1));
    }
}

static void *ends(void *unused)
{
    (void)unused;
    if (last_round == BARE_EXIT) {
        use_a_little();
        syscall(SYS_exit, 0);
    }
    pthread_setspecific(key, (void *)1);
    return NULL;
}

static void run_threads(int count)
{
    pthread_t thread[AT_ONCE];
    for (int i = 0; i < count; i += AT_ONCE) {
        for (int j = 0; j < AT_ONCE; j++) {
            CHECK(pthread_create(&thread[j], NULL, ends, NULL) == 0, "thread %d", i + j);
        }
        for (int j = 0; j < AT_ONCE; j++) {
            pthread_join(thread[j], NULL);
        }
    }
}

static void test_round(uintptr_t round)
{
    last_round = round;
    run_threads(FIRST);
    size_t before = procinfo_rss_kib();
    run_threads(THREADS);
    size_t after = procinfo_rss_kib();
    CHECK(after <= before + MOST_KIB + procinfo_of_ended_kib(THREADS), "round %d: %d threads: RSS %zu -> %zu KiB",
          (int)round, THREADS, before, after);
}

static void look_up(void *library, const char *name, void *slot)
{
    void *address = dlsym(library, name);
    CHECK(address != NULL, "%s", name);
    memcpy(slot, &address, sizeof address);
}

int main(int argc, char **argv)
{
    watchdog_start(60, "last rounds");
    procinfo_forbid_huge_pages();
    CHECK(pthread_key_create(&key, in_round) == 0, "key");
    if (argc > 1) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL, "dlopen: %s", dlerror());
        look_up(library, "hak_malloc", &allocate);
        look_up(library, "hak_free", &release);
    }
    for (uintptr_t round = 1; round <= BARE_EXIT; round++) {
        test_round(round);
    }
    return check_report("last rounds");
}
