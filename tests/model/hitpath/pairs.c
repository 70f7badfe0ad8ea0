/* Usage: pairs N
 * Calls malloc(64) and free of the same block N times. check_pairs.py counts the instructions. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: pairs N\n");
        return 2;
    }
    for (unsigned long left = strtoul(argv[1], NULL, 10); left != 0; left--) {
        void *block = malloc(64);
        if (block == NULL)
            return 1;
        free(block);
    }
    return 0;
}
