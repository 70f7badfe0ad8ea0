/* Calls realloc for an address where nothing is mapped. */
#include "misuse.h"

int main(void)
{
    free(realloc(bad(at(0x123456789000)), 100));
    malloc_trim(0);
    return 0;
}
