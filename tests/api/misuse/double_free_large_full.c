/* Blocks of 40 KiB that fill a bin and a depot. The first one is freed again. */
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
