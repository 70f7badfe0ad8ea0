/* Usage: plain [BLOCKS]
 * Allocates this number of blocks of mixed sizes, writes to them and frees them, and prints their number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, SIZES = 37, STEP = 48 };

int main(int argc, char **argv)
{
    static char *window[WINDOW];
    long blocks = argc > 1 ? atol(argv[1]) : 1000;
    for (long i = 0; i < blocks; i++) {
        size_t size = (size_t)(1 + i % SIZES) * STEP;
        free(window[i % WINDOW]);
        window[i % WINDOW] = malloc(size);
        memset(window[i % WINDOW], 1, size);
    }
    for (int i = 0; i < WINDOW; i++)
        free(window[i]);
    printf("%ld\n", blocks);
    return 0;
}
