/* This plugin filters pictures. It keeps a copy of each picture that it filters. */
#include <stdlib.h>
#include <string.h>

enum { PICTURE = 800 };

static void *volatile last;

static __attribute__((noinline)) void *copy_picture(void) { return memset(malloc(PICTURE), 'c', PICTURE); /* LEAK */ }

void filter(void);
void filter(void)
{
    void *scratch = malloc(2 * PICTURE);
    last = copy_picture();
    free(scratch);
}
