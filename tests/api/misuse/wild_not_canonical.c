/* An address that the processor cannot have. */
#include "misuse.h"

int main(void)
{
    free(bad(at(0xdeadbeefdeadbee0)));
    malloc_trim(0);
    return 0;
}
