/* Defines a function whose IFUNC resolver allocates. The dynamic loader calls the resolver while it relocates. At that time no constructor
 * has run, and the thread's TLS block is not initialized. The file is compiled into the program and into a shared library, with different
 * IFUNC_NAME and IFUNC_BLOCKS. The resolver is as plain as possible, because it must not need later relocations of its own object. */
#include <stdint.h>
#include <stdlib.h>

int IFUNC_NAME(void);
void *IFUNC_BLOCKS[3];

static int chosen(void) { return 42; }

__attribute__((used)) static int (*resolve(void))(void)
{
    char *p = malloc(100);
    char *q = calloc(1, 5000);
    char *r = malloc(300000);
    free(malloc(64));
    if (malloc(SIZE_MAX / 2) != NULL) { /* HAKMEM must refuse this size although errno cannot be set yet. */
        return chosen;
    }
    if (p && q && r) {
        p[99] = q[4999] = r[299999] = 5;
        IFUNC_BLOCKS[0] = p;
        IFUNC_BLOCKS[1] = realloc(q, 9000);
        IFUNC_BLOCKS[2] = r;
    }
    return chosen;
}

int IFUNC_NAME(void) __attribute__((ifunc("resolve")));
