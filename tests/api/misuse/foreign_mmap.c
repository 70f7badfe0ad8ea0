/* Frees memory that the program mapped itself. */
#include "misuse.h"

int main(void)
{
    free(bad(mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
    malloc_trim(0);
    return 0;
}
