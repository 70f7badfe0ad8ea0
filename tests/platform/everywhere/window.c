/* Tests the window of the heap, which depends on the size of the address space. The emulator of the test provides a
 * small address space, as systems with addresses of 39 bits have it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"

enum { BLOCKS = 200000 };
static char *blocks[BLOCKS];

int main(int argc, char **argv)
{
    unsigned bits = argc > 1 ? (unsigned)atoi(argv[1]) : 48;
    uintptr_t highest = 0;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            size_t size = 16 + i % 40 * 16;
            blocks[i] = hak_malloc(size);
            memset(blocks[i], (int)i, size);
            highest = (uintptr_t)blocks[i] > highest ? (uintptr_t)blocks[i] : highest;
        }
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (blocks[i][15 + i % 40 * 16] != (char)i)
                return 1;
            hak_free(blocks[i]);
        }
    }
    char *large = hak_malloc((size_t)64 << 20);
    large[(64 << 20) - 1] = 1;
    hak_free(large);
    (void)printf("highest block %#lx\n", (unsigned long)highest);
    return highest == 0 || highest >> bits != 0;
}
