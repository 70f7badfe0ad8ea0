/* Usage: test_static_open PLUGIN
 * Tests a program that is linked fully statically, with libhakmem.a. The program calls the C library's dlopen, not HAKMEM's. A plugin loads its
 * own C library with another heap, and the two heaps must stay apart. */
#include "plugin.h"
#include "hakmem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    void *handle = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
    if (!handle) {
        fprintf(stderr, "dlopen: %s\n", dlerror());
        return 1;
    }
    const struct plugin *plugin = dlsym(handle, "plugin");
    char *ours = strdup("ours");
    if (!plugin || !plugin->constructed() || hak_malloc_usable_size(ours) < sizeof "ours") {
        return 1;
    }
    plugin->take(plugin->resize(plugin->give(100), 100000));
    free(ours);
    return dlclose(handle);
}
