/* Usage: test_two_copies LIBRARY PLUGIN
 * Tests several copies of HAKMEM in one process, which dlmopen loads. Each namespace has its own C library and its own copy of HAKMEM, which does
 * not know the other
 * copies. PLUGIN is linked with LIBRARY, so all its blocks come from the copy in its namespace. Threads of the program use all copies. */
#include "../../process/plugin.h"
#include "blocks.h"
#include "support/watchdog.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COPIES = 3, THREADS = 4, BLOCKS = 400, ROUNDS = 2 };

struct copy {
    void *(*malloc)(size_t size);
    void *(*realloc)(void *p, size_t size);
    void (*free)(void *p);
    size_t (*usable)(void *p);
    const struct plugin *plugin;
};
static struct copy copy[COPIES];

static void look_up(void *library, const char *name, void *slot)
{
    void *address = dlsym(library, name);
    CHECK(address != NULL, "%s", name);
    memcpy(slot, &address, sizeof address);
}

static void open_copy(struct copy *self, const char *library, const char *plugin)
{
    void *first = dlmopen(LM_ID_NEWLM, plugin, RTLD_NOW);
    Lmid_t space = LM_ID_BASE;
    CHECK(first && dlinfo(first, RTLD_DI_LMID, &space) == 0 && space != LM_ID_BASE, "%s", dlerror());
    void *second = dlmopen(space, library, RTLD_NOW | RTLD_NOLOAD);
    CHECK(second != NULL, "the plugin is linked with the library: %s", dlerror());
    if (!first || !second) {
        exit(check_report("two copies"));
    }
    look_up(second, "hak_malloc", &self->malloc);
    look_up(second, "hak_realloc", &self->realloc);
    look_up(second, "hak_free", &self->free);
    look_up(second, "hak_malloc_usable_size", &self->usable);
    self->plugin = dlsym(first, "plugin");
    CHECK(self->plugin && self->plugin->constructed(), "the plugin of a copy");
}

/* Uses blocks of one copy. Blocks that the copy's plugin allocated belong to the copy, and its hak_ functions must know their size. */
static void use(const struct copy *self, uint64_t seed)
{
    static _Thread_local char *block[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = i % 2 ? self->malloc(blocks_size(i)) : self->plugin->give(blocks_size(i));
        CHECK(block[i] && self->usable(block[i]) >= blocks_size(i), "block %zu", i);
        pattern_fill(block[i], blocks_size(i), seed + i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(pattern_holds(block[i], blocks_size(i), seed + i), "block %zu", i);
        block[i] = i % 3 ? block[i] : i % 2 ? self->plugin->resize(block[i], 9000) : self->realloc(block[i], 9000);
        if (i % 4 < 2) {
            self->free(block[i]);
        } else {
            self->plugin->take(block[i]);
        }
    }
    self->plugin->take_from_library();
}

static void *use_all(void *argument)
{
    static _Thread_local void *mine[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        blocks_allocate(mine, BLOCKS);
        for (size_t c = 0; c < COPIES; c++) {
            use(&copy[c], 1000 * c);
        }
        blocks_free(mine, BLOCKS);
    }
    check_thread_done();
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS];
    watchdog_start(60, "two copies");
    if (argc != 3) {
        fprintf(stderr, "usage: test_two_copies LIBRARY PLUGIN\n");
        return 2;
    }
    for (size_t c = 0; c < COPIES; c++) {
        open_copy(&copy[c], argv[1], argv[2]);
        for (size_t other = 0; other < c; other++) {
            CHECK(copy[c].malloc != copy[other].malloc, "copies %zu and %zu are one", c, other);
        }
    }
    for (size_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&thread[t], NULL, use_all, NULL) == 0, "thread");
    }
    use_all(NULL);
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    pid_t child = fork();
    if (child == 0) {
        watchdog_start(60, "two copies in a child");
        use_all(NULL);
        _exit(check_failures() != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "a child: 0x%x", (unsigned)status);
    return check_report("two copies");
}
