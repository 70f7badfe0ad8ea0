/* Usage: test_dlopen_late LIBRARY
 * Tests HAKMEM as a library that dlopen loads late, into a process with another malloc. The library's hak_ functions must work, also in threads
 * that are older than the library. malloc must stay that of the process. After dlclose the blocks must stay valid because HAKMEM keeps itself
 * loaded. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/watchdog.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 2000, THREADS = 4 };

struct hak {
    void *(*malloc)(size_t size);
    void *(*realloc)(void *p, size_t size);
    void (*free)(void *p);
    size_t (*usable_size)(void *p);
    int (*trim)(size_t keep);
};

static struct hak hak;
static pthread_barrier_t opened;
static pthread_barrier_t closed;

static void look_up(void *library, const char *name, void *slot)
{
    void *address = dlsym(library, name);
    CHECK(address != NULL, "%s", name);
    memcpy(slot, &address, sizeof address);
}

static size_t size_of(size_t i) { return i % 100 == 99 ? 300000 + i : i % 10 == 9 ? 20000 + i : 1 + i; }

static void allocate_all(void **block)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = hak.malloc(size_of(i));
        CHECK(block[i] && hak.usable_size(block[i]) >= size_of(i), "%zu bytes", size_of(i));
        pattern_fill(block[i], size_of(i), i);
        char *own = malloc(100); /* malloc must still be the process's own. */
        CHECK(own != NULL, "the process's own malloc");
        free(own);
    }
}

static void free_all(void **block)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(pattern_holds(block[i], size_of(i), i), "block %zu", i);
        block[i] = i % 3 ? block[i] : hak.realloc(block[i], size_of(i) + 1000);
        CHECK(pattern_holds(block[i], size_of(i), i), "block %zu after realloc", i);
        hak.free(block[i]);
    }
}

static void *older_thread(void *argument)
{
    void **block = calloc(BLOCKS, sizeof *block);
    pthread_barrier_wait(&opened);
    allocate_all(block);
    pthread_barrier_wait(&closed);
    free_all(block);
    free(block);
    check_thread_done();
    return argument;
}

static int with_flags(const char *path, int flags, const char *name)
{
    static void *block[BLOCKS];
    pthread_t thread[THREADS];
    void *from_before = malloc(5000);
    pthread_barrier_init(&opened, NULL, THREADS + 1);
    pthread_barrier_init(&closed, NULL, THREADS + 1);
    for (size_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&thread[t], NULL, older_thread, NULL) == 0, "thread");
    }
    void *library = dlopen(path, flags);
    if (!library) {
        dprintf(STDERR_FILENO, "dlopen: %s\n", dlerror());
        _exit(1);
    }
    look_up(library, "hak_malloc", &hak.malloc);
    look_up(library, "hak_realloc", &hak.realloc);
    look_up(library, "hak_free", &hak.free);
    look_up(library, "hak_malloc_usable_size", &hak.usable_size);
    look_up(library, "hak_malloc_trim", &hak.trim);
    from_before = realloc(from_before, 50000);
    CHECK(from_before != NULL, "a block from before dlopen");
    pthread_barrier_wait(&opened);
    allocate_all(block);
    CHECK(dlclose(library) == 0, "dlclose: %s", dlerror());
    free(from_before);
    pthread_barrier_wait(&closed);
    free_all(block);
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL); /* The end of a thread runs HAKMEM's code although the library was closed. */
    }
    hak.trim(0);
    /* dlopen must return the same library again. */
    void *again = dlopen(path, flags);
    CHECK(again && dlsym(again, "hak_malloc") == *(void **)&hak.malloc, "opened again");
    allocate_all(block);
    free_all(block);
    return check_report(name);
}

int main(int argc, char **argv)
{
    static const struct {
        int flags;
        const char *name;
    } ways[] = {
        {RTLD_NOW | RTLD_LOCAL, "dlopen local"},
        {RTLD_NOW | RTLD_GLOBAL, "dlopen global"},
        {RTLD_LAZY | RTLD_LOCAL, "dlopen lazy"},
#ifdef RTLD_DEEPBIND
        {RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND, "dlopen deepbind"},
#endif
    };
    if (argc != 2) {
        dprintf(STDERR_FILENO, "usage: test_dlopen_late LIBRARY\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            watchdog_start(60, ways[i].name);
            exit(with_flags(argv[1], ways[i].flags, ways[i].name));
        }
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%s: wait status 0x%x", ways[i].name, (unsigned)status);
    }
    return check_report("dlopen late");
}
