/* Tests pointers with a tag in the top byte, which programs on aarch64 may make (top byte ignore, memory tagging). Each function that takes a block
 * must accept these pointers. Exits with 77 on other processors. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"

#if defined(__aarch64__)
enum { EXPECTED = 1 };
#else
enum { EXPECTED = 0 };
#endif

static void *tagged(void *p, unsigned tag) { return (void *)((uintptr_t)p | (uintptr_t)tag << 56); }

static int failed;
static void expect(int holds, const char *what, size_t size)
{
    if (!holds)
        (void)fprintf(stderr, "tagged: %s of a block of %zu bytes\n", what, size);
    failed |= !holds;
}

static void of_size(size_t size, unsigned tag)
{
    char *block = hak_malloc(size);
    memset(block, 0x5a, size);
    expect(hak_malloc_usable_size(tagged(block, tag)) == hak_malloc_usable_size(block), "usable_size", size);
    block = hak_realloc(tagged(block, tag), size + size / 2 + 1);
    expect(block != NULL && block[0] == 0x5a && block[size - 1] == 0x5a, "realloc", size);
    hak_free(tagged(block, tag));
    char *again = hak_malloc(size + size / 2 + 1);
    expect(size > 32768 || again == block, "free, which gives the block back,", size);
    hak_free(again);
    hak_free_sized(tagged(hak_malloc(size), tag), size);
}

int main(void)
{
    if (!EXPECTED) {
        (void)fprintf(stderr, "tagged: this processor does not ignore the top byte\n");
        return 77;
    }
    for (size_t size = 1; size < (size_t)4 << 20; size += 1 + size / 2)
        for (unsigned tag = 1; tag < 256; tag += 7)
            of_size(size, tag);
    errno = 0;
    return failed;
}
