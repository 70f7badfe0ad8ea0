/* Frees an address in the zero page, such as that of a member of a NULL structure. */
#include "misuse.h"

int main(void)
{
    free(bad(at(0x10)));
    malloc_trim(0);
    return 0;
}
