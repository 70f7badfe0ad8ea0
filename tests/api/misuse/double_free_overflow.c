/* Frees a small block twice. The bin has no depot, and is flushed because more blocks are freed than the bin can hold. */
#include "misuse.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    enum { BLOCKS = 20000 };
    static void *block[BLOCKS];
    if (argc > 0 && getenv("HAKMEM_DEPOT") == NULL) {
        setenv("HAKMEM_DEPOT", "0", 1);
        execv(argv[0], argv);
        return 2;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = malloc(48);
    }
    void *p = bad(block[100]);
    free(p);
    for (size_t i = 0; i < BLOCKS; i++) {
        free(block[i]);
    }
    return 0;
}
