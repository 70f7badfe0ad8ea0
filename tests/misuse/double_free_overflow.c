/* A small block freed twice; the cache is flushed because more is freed than it can hold. */
#include "misuse.h"

int main(void)
{
    enum { BLOCKS = 600000 }; /* more than a bin and the depot behind it hold */
    static void *block[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = malloc(48);
    }
    void *p = bad(block[100]);
    free(p);
    for (size_t i = 0; i < BLOCKS; i++) {
        free(block[i]);
    }
    return 0;
}
