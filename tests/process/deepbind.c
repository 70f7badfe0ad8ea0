/* Usage: test_deepbind FOLDER drop|keep|alone
 * Tests plugins that are opened with RTLD_DEEPBIND. FOLDER/plugin.so has a RUNPATH of $ORIGIN/deep, where inner.so lies.
 *   drop   HAKMEM drops the flag: plugin and program share one heap, each may free the other's blocks, and the loader sees its real caller
 *   keep   HAKMEM_DEEPBIND=keep: plugins look in themselves and in the C library first, as they do without HAKMEM
 *   alone  the same as keep, in a program whose malloc is not HAKMEM's */
#include "plugin.h"
#include "support/check.h"
#include "support/pattern.h"
#include "support/watchdog.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 3000, ROUNDS = 200, THREADS = 4, MODE = RTLD_NOW | RTLD_DEEPBIND };

int plugin_test_name(void);

int plugin_test_name(void) { return NAME_OF_PROGRAM; }

static const char *folder;

static const char *path_of(const char *name)
{
    static _Thread_local char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const struct plugin *face_of(void *handle)
{
    const struct plugin *face = handle ? dlsym(handle, "plugin") : NULL;
    if (!face) {
        fprintf(stderr, "no plugin: %s\n", dlerror());
        exit(1);
    }
    return face;
}

static bool is_hakmem(const char *file)
{
    const char *slash = strrchr(file, '/');
    return strncmp(slash ? slash + 1 : file, "libc.so", 7) != 0;
}

static size_t size_of(size_t i) { return i % 500 == 499 ? 3000000 : i % 50 == 49 ? 70000 : i % 1000 + 1; }

/* The plugin allocates half of the blocks, and the program allocates the other half. Each of the two frees the blocks of the other. */
static void exchange(const struct plugin *plugin)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = size_of(i);
        char *p = i % 2 ? plugin->give(size) : malloc(size);
        CHECK(p != NULL, "%zu bytes", size);
        pattern_fill(p, size, i);
        p = i % 3 ? p : i % 2 ? realloc(p, size + 5000) : plugin->resize(p, size + 5000);
        CHECK(pattern_holds(p, size, i), "block %zu", i);
        if (i % 2) {
            free(p);
        } else {
            plugin->take(p);
        }
    }
}

static void *exchange_in_thread(void *plugin)
{
    exchange(plugin);
    check_thread_done();
    return NULL;
}

static void blocks_go_both_ways(void)
{
    void *handle = dlopen(path_of("plugin.so"), MODE);
    const struct plugin *plugin = face_of(handle);
    pthread_t thread[THREADS];
    CHECK(plugin->whose_name() == NAME_OF_PROGRAM && is_hakmem(plugin->file_of_free()), "free of %s",
          plugin->file_of_free());
    CHECK(plugin->constructed(), "what the constructor allocated");
    plugin->take_from_library();
    exchange(plugin);
    for (size_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&thread[t], NULL, exchange_in_thread, (void *)(uintptr_t)plugin) == 0, "thread");
    }
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    char *outlives = plugin->give(100);
    CHECK(dlclose(handle) == 0, "%s", dlerror());
    free(outlives);
}

static void opened_and_closed(void)
{
    char *before = malloc(100);
    for (int i = 0; i < ROUNDS; i++) {
        void *handle = dlopen(path_of("plugin.so"), i % 2 ? MODE : RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND);
        const struct plugin *plugin = face_of(handle);
        plugin->take(before);
        before = plugin->give(100);
        CHECK(before && plugin->constructed(), "round %d", i);
        CHECK(dlclose(handle) == 0, "%s", dlerror());
    }
    free(before);
    CHECK(dlopen(path_of("plugin.so"), RTLD_NOLOAD | RTLD_LAZY) == NULL, "dlclose has unloaded it");
}

/* Tests dlmopen. In the program's namespace it must work like dlopen. In a new namespace, the plugin has its own C library and its own heap. */
static void other_ways_to_open(void)
{
    void *(*found)(const char *, int) = NULL;
    void *address = dlsym(RTLD_DEFAULT, "dlopen");
    memcpy(&found, &address, sizeof found);
    void *handle = found(path_of("plugin.so"), MODE);
    exchange(face_of(handle));
    CHECK(dlclose(handle) == 0, "%s", dlerror());

    handle = dlmopen(LM_ID_BASE, path_of("plugin.so"), MODE);
    exchange(face_of(handle));
    CHECK(dlclose(handle) == 0, "%s", dlerror());

    handle = dlmopen(LM_ID_NEWLM, path_of("plugin.so"), MODE);
    const struct plugin *apart = face_of(handle);
    CHECK(!is_hakmem(apart->file_of_free()) && apart->constructed(), "free of %s", apart->file_of_free());
    for (size_t i = 0; i < BLOCKS; i++) {
        apart->take(apart->resize(apart->give(size_of(i)), 2 * size_of(i)));
    }
    CHECK(dlclose(handle) == 0, "%s", dlerror());

    CHECK(dlopen(path_of("no such plugin.so"), MODE) == NULL && strstr(dlerror(), "no such plugin"),
          "an error has its words");
    CHECK(dlopen(NULL, RTLD_LAZY) != NULL && dlopen(NULL, RTLD_LAZY | RTLD_DEEPBIND) != NULL, "the program itself");
}

/* inner.so can be found only by the RUNPATH of plugin.so, or by the $ORIGIN of plugin.so. */
static void loader_sees_its_caller(void)
{
    static const char *const names[] = {"inner.so", "$ORIGIN/deep/inner.so"};
    static const int modes[] = {RTLD_NOW, MODE};
    void *outer = dlopen(path_of("plugin.so"), RTLD_NOW);
    const struct plugin *plugin = face_of(outer);
    for (size_t i = 0; i < 4; i++) {
        const char *name = names[i / 2];
        void *from_program = dlopen(name, modes[i % 2]);
        __asm__ volatile("" : "+r"(from_program));
        CHECK(from_program == NULL, "the program has no RUNPATH, and lies elsewhere: %s", name);
        void *from_plugin = plugin->open(name, modes[i % 2]);
        CHECK(from_plugin != NULL, "%s, mode 0x%x: %s", name, (unsigned)modes[i % 2], dlerror());
        if (from_plugin) {
            CHECK(face_of(from_plugin)->constructed(), "%s", name);
            CHECK(dlclose(from_plugin) == 0, "%s", dlerror());
        }
    }
    CHECK(dlclose(outer) == 0, "%s", dlerror());
}

/* Opens the plugin in a new namespace. The plugin's dlopen must open libraries in that namespace. */
static void namespaces_stay_apart(void)
{
    void *outer = dlmopen(LM_ID_NEWLM, path_of("plugin.so"), RTLD_NOW);
    const struct plugin *plugin = face_of(outer);
    void *inner = plugin->open("inner.so", MODE);
    Lmid_t of_outer = -1, of_inner = -2;
    CHECK(inner && dlinfo(outer, RTLD_DI_LMID, &of_outer) == 0 && dlinfo(inner, RTLD_DI_LMID, &of_inner) == 0,
          "dlinfo");
    CHECK(of_outer == of_inner && of_outer != LM_ID_BASE, "namespaces %ld, %ld", (long)of_outer, (long)of_inner);
}

static void bound_deeply(void)
{
    void *handle = dlopen(path_of("plugin.so"), MODE);
    const struct plugin *plugin = face_of(handle);
    CHECK(plugin->whose_name() == NAME_OF_PLUGIN, "RTLD_DEEPBIND was dropped");
    CHECK(!is_hakmem(plugin->file_of_free()), "free of %s", plugin->file_of_free());
    CHECK(plugin->constructed(), "what the constructor allocated");
    for (size_t i = 0; i < BLOCKS; i++) {
        plugin->take(plugin->resize(plugin->give(size_of(i)), 2 * size_of(i)));
    }
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        plugin->take_from_library();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "blocks of two allocators were mixed: 0x%x",
          (unsigned)status);
    CHECK(dlclose(handle) == 0, "%s", dlerror());
}

/* the plugin's handle; opened before main by the constructor that follows */
static void *from_constructor;

__attribute__((constructor)) static void early(int argc, char **argv)
{
    folder = argc == 3 ? argv[1] : "?";
    from_constructor = argc == 3 ? dlopen(path_of("plugin.so"), MODE) : NULL;
}

/* Writes a report. Returns the number of RTLD_DEEPBIND flags that HAKMEM has dropped, or -1 if there is no report. */
static long counted(void)
{
    static char text[100000];
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", path_of("report-XXXXXX.json"));
    int fd = mkstemps(path, 5);
    int (*report)(const char *) = NULL;
    void *address = dlsym(RTLD_DEFAULT, "hak_report");
    memcpy(&report, &address, sizeof report);
    CHECK(fd >= 0 && report != NULL && report(path) == 0, "a report in %s", path);
    close(fd);
    fd = open(path, O_RDONLY); /* The report is a new file. */
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    unlink(path);
    text[length > 0 ? length : 0] = 0;
    const char *found = strstr(text, "\"deepbind_dropped\": ");
    return found ? strtol(strchr(found, ' '), NULL, 10) : -1;
}

int main(int argc, char **argv)
{
    watchdog_start(60, "deepbind");
    if (argc != 3) {
        fprintf(stderr, "usage: test_deepbind FOLDER drop|keep|alone\n");
        return 2;
    }
    CHECK(from_constructor && face_of(from_constructor)->constructed(), "opened before main");
    CHECK(dlclose(from_constructor) == 0, "%s", dlerror());
    if (strcmp(argv[2], "drop") == 0) {
        blocks_go_both_ways();
        opened_and_closed();
        other_ways_to_open();
        loader_sees_its_caller();
        CHECK(counted() == 1 + 1 + ROUNDS + 2 + 1 + 1 + 2 + 2, "%ld counted", counted());
    } else {
        bound_deeply();
        loader_sees_its_caller();
        CHECK(counted() == 0, "%ld counted", counted());
    }
    namespaces_stay_apart();
    return check_report("deepbind");
}
