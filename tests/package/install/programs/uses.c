/* Exits with 0 if hak_ functions accept a block of malloc, and hak_version() is equal to the argument, which is the version of the package. */
#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    char *block = malloc(1000);
    if (block == NULL || hak_malloc_usable_size(block) < 1000)
        return 1;
    memset(block, 'x', hak_malloc_usable_size(block));
    block = hak_realloc(block, 100000);
    if (block == NULL || block[999] != 'x')
        return 2;
    free(block);
    printf("%s\n", hak_version());
    return argc > 1 && strcmp(argv[1], hak_version()) != 0 ? 3 : 0;
}
