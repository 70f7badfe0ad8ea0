/* plugin: the exports of these tests' plugin (plugin.c), as its program sees them. */
#ifndef TEST_PROCESS_PLUGIN_H
#define TEST_PROCESS_PLUGIN_H

#include <stddef.h>

struct plugin {
    void *(*give)(size_t size);            /* malloc there */
    void *(*resize)(void *p, size_t size); /* realloc there */
    void (*take)(void *p);                 /* free there */
    const char *(*file_of_free)(void);     /* the file that the plugin's free is in */
    int (*whose_name)(void);               /* plugin_test_name() as the plugin finds it: its own, or the program's */
    int (*constructed)(void);              /* the blocks of its constructor are intact */
    void (*take_from_library)(void);       /* frees there blocks that the C library allocated */
    void *(*open)(const char *name, int mode); /* dlopen there */
};

enum { NAME_OF_PROGRAM = 1, NAME_OF_PLUGIN = 2 };

#endif
