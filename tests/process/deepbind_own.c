/* Usage: test_deepbind_own FOLDER
 * Tests libraries that have their own allocator, and plugins that have no allocator, if both are opened with RTLD_DEEPBIND.
 * FOLDER holds operators.so, malloc.so, needs.so (which needs deep/core.so), and plugin.so. The test also runs on the C library alone. */
#include "own_heap.h"
#include "plugin.h"
#include "support/check.h"
#include "support/watchdog.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MODE = RTLD_NOW | RTLD_DEEPBIND, THREADS = 8, BLOCKS = 300 };

int plugin_test_name(void);
int plugin_test_name(void) { return NAME_OF_PROGRAM; }

static const char *folder;

static void *open_it(const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    void *handle = dlopen(path, MODE);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return handle;
}

static void agrees(void *handle, bool shares)
{
    const struct own_heap *own = dlsym(handle, "own_heap");
    void *program_malloc = dlsym(RTLD_DEFAULT, "malloc");
    Dl_info where;
    CHECK(own->forms_agree() && own->library_agrees(), "forms");
    CHECK(dladdr(program_malloc, &where) && (strcmp(own->file_of_give(), where.dli_fname) == 0) == shares,
          "malloc of %s", own->file_of_give());
    for (size_t i = 0; i < BLOCKS && shares; i++) {
        free(own->give(i * 100 + 1));
        own->take(malloc(i * 100 + 1));
    }
}

static void *with_operators(void *unused)
{
    agrees(open_it("operators.so"), true);
    check_thread_done();
    return unused;
}

static void at_once(void)
{
    pthread_t thread[THREADS];
    for (size_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&thread[t], NULL, with_operators, NULL) == 0, "thread");
    for (size_t t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
}

/* Tests needs.so, which finds deep/core.so by its RUNPATH, or uses a copy of core.so that is already loaded. */
static void needed(void)
{
    void *needs = open_it("needs.so");
    agrees(needs, true);
    CHECK(dlclose(needs) == 0, "%s", dlerror());
    void *core = open_it("deep/core.so");
    needs = open_it("needs.so");
    agrees(needs, true);
    agrees(core, true);
    CHECK(dlclose(needs) == 0 && dlclose(core) == 0, "%s", dlerror());
}

static void own_malloc(void)
{
    void *handle = open_it("malloc.so");
    agrees(handle, false);
    CHECK(dlclose(handle) == 0, "%s", dlerror());
}

/* A library that has no allocator must share the program's heap. */
static void plain(void)
{
    void *handle = open_it("plugin.so");
    const struct plugin *plugin = dlsym(handle, "plugin");
    for (size_t i = 0; i < BLOCKS; i++) {
        free(plugin->give(i * 100 + 1));
        plugin->take(malloc(i * 100 + 1));
    }
    plugin->take_from_library();
    CHECK(plugin->constructed() && dlclose(handle) == 0, "plugin");
}

static char bytes[200000];

static ssize_t read_plugin(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/plugin.so", folder);
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, bytes, sizeof bytes);
    close(fd);
    return size;
}

/* Opens a library file that has the first `length` bytes of `bytes`. Each call makes a new file, because the loader reuses a file that it knows. */
static void *open_bytes(ssize_t length)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/changed-XXXXXX", folder);
    int fd = mkstemp(path);
    CHECK(write(fd, bytes, (size_t)length) == length, "write");
    void *handle = dlopen(path, MODE);
    close(fd);
    unlink(path);
    return handle;
}

static void loads(ssize_t size)
{
    void *handle = open_bytes(size);
    CHECK(handle && ((const struct plugin *)dlsym(handle, "plugin"))->constructed(), "%s", dlerror());
    CHECK(dlclose(handle) == 0, "%s", dlerror());
}

/* Tests damaged library files. Section headers may hold anything or be missing because the loader does not read them. */
static void wrong_files(void)
{
    static const uint64_t places[] = {1, sizeof bytes, UINT64_MAX - 100};
    ssize_t size = read_plugin();
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)bytes, good = *header;
    char *sections = bytes + header->e_shoff;
    for (ssize_t length = 0; length < (ssize_t)sizeof good; length += 9)
        CHECK(open_bytes(length) == NULL, "%zd bytes are enough", length);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        header->e_shoff = places[i];
        header->e_shnum = UINT16_MAX;
        loads(size);
        *header = good;
    }
    for (size_t at = 0; at < good.e_shnum * sizeof(Elf64_Shdr); at += 8) {
        char former[8];
        memcpy(former, sections + at, sizeof former);
        memset(sections + at, at % 16 ? 0x7f : 0xff, sizeof former);
        loads(size);
        memcpy(sections + at, former, sizeof former);
    }
    loads((ssize_t)good.e_shoff);
}

int main(int argc, char **argv)
{
    watchdog_start(60, "deepbind_own");
    folder = argc == 2 ? argv[1] : ".";
    wrong_files();
    at_once();
    needed();
    own_malloc();
    plain();
    return check_report("deepbind_own");
}
