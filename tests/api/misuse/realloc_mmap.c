/* Calls realloc for memory that the program mapped itself. */
#include "misuse.h"

int main(void)
{
    void *p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(realloc(bad(p), 8 * MIB));
    malloc_trim(0);
    return 0;
}
