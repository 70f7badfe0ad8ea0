/* Frees blocks of 40 KiB, which fill a bin and a depot, and then frees the first of these blocks again. */
#include "misuse.h"

int main(void)
{
    static void *blocks[400];
    for (int i = 0; i < 400; i++)
        blocks[i] = malloc(40 * KIB);
    for (int i = 0; i < 400; i++)
        free(blocks[i]);
    free(bad(blocks[0]));
    return 0;
}
