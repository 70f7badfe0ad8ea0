/* Frees an address where nothing is mapped. */
#include "misuse.h"

int main(void)
{
    free(malloc(1));
    free(bad(at(0x123456789000)));
    malloc_trim(0);
    return 0;
}
