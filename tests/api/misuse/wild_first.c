/* Frees an address where nothing is mapped, before the first malloc of the program. */
#include "misuse.h"

int main(void)
{
    free(bad(at(0x5a5a5a5a5a50)));
    malloc_trim(0);
    return 0;
}
