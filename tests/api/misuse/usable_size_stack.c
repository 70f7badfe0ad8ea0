/* Calls malloc_usable_size for an object on the stack. */
#include "misuse.h"

int main(void)
{
    char local[64];
    return malloc_usable_size(bad(local)) == 0;
}
