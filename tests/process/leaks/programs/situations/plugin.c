/* This program opens a plugin and calls it. The plugin leaks, and the program does not. With a second argument, it closes the plugin at the end. */
#include "../run.h"

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void (*filter)(void) = plugin ? (void (*)(void))dlsym(plugin, "filter") : NULL;
    if (filter == NULL) {
        fprintf(stderr, "no plugin: %s\n", dlerror());
        return 1;
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        filter();
        work(20, 500);
        end_round();
    }
    return argc > 2 ? dlclose(plugin) : 0;
}
