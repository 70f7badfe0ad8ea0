/* Declares the functions of plugin.c, the plugin of these tests, as its program sees them. */
#ifndef TEST_PROCESS_PLUGIN_H
#define TEST_PROCESS_PLUGIN_H

#include <stddef.h>

struct plugin {
    void *(*give)(size_t size);                /* calls malloc in the plugin */
    void *(*resize)(void *p, size_t size);     /* calls realloc in the plugin */
    void (*take)(void *p);                     /* calls free in the plugin */
    const char *(*file_of_free)(void);         /* returns the file that has the plugin's free */
    int (*whose_name)(void);                   /* calls plugin_test_name(), which is the plugin's or the program's */
    int (*constructed)(void);                  /* returns whether the block of the plugin's constructor is intact */
    void (*take_from_library)(void);           /* frees, in the plugin, a block of the C library */
    void *(*open)(const char *name, int mode); /* calls dlopen in the plugin */
};

enum { NAME_OF_PROGRAM = 1, NAME_OF_PLUGIN = 2 };

#endif
