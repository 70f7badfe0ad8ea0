/* Frees an address that is invalid for the processor (not canonical). */
#include "misuse.h"

int main(void)
{
    free(bad(at(0xdeadbeefdeadbee0)));
    malloc_trim(0);
    return 0;
}
