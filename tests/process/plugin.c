/* This plugin allocates and frees in its constructor, in its destructor, and when its program asks. */
#include "plugin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { BORN = 100 };

int plugin_test_name(void);
extern const struct plugin plugin;

static unsigned char *from_birth;

/* The program has a function with this name too, and RTLD_DEEPBIND decides which of the two is called. The plugin's function is weak because the
 * compiler would otherwise call it directly. */
__attribute__((weak)) int plugin_test_name(void) { return NAME_OF_PLUGIN; }

__attribute__((constructor)) static void begin(void)
{
    free(malloc(100));
    from_birth = malloc(BORN);
    memset(from_birth, BORN, BORN);
}

__attribute__((destructor)) static void end(void)
{
    free(from_birth);
    free(malloc(1000));
}

static void *give(size_t size) { return malloc(size); }

static void *resize(void *p, size_t size) { return realloc(p, size); }

static void take(void *p) { free(p); }

static const char *file_of_free(void)
{
    Dl_info where;
    void *address;
    void (*function)(void *) = free;
    memcpy(&address, &function, sizeof address);
    return dladdr(address, &where) ? where.dli_fname : "?";
}

static int whose_name(void) { return plugin_test_name(); }

static int constructed(void)
{
    from_birth = realloc(from_birth, 50 * BORN);
    return from_birth && from_birth[0] == BORN && memcmp(from_birth, from_birth + 1, BORN - 1) == 0;
}

/* Frees a block of the C library, which calls the program's malloc. */
static void take_from_library(void) { free(strdup("allocated by the C library")); }

/* Calls dlopen from this file. The loader looks for a name without a slash in this file's RUNPATH, and $ORIGIN is this file's folder. */
static void *open_from_here(const char *name, int mode)
{
    void *handle = dlopen(name, mode);
    /* This statement keeps the compiler from making the call a jump. After a jump, dlopen would take the caller of open_from_here() for its own
     * caller. */
    __asm__ volatile("" : "+r"(handle));
    return handle;
}

const struct plugin plugin = {give,          resize, take, file_of_free, whose_name, constructed, take_from_library,
                              open_from_here};
