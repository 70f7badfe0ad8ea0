/* Usage: secure   (secure_run.py starts it)
 * Allocates, and prints whether the kernel told this process not to trust its environment (AT_SECURE). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

int main(void)
{
    for (size_t i = 1; i < 3000; i++) {
        void *p = malloc(i * 10);
        if (!p) {
            return 1;
        }
        memset(p, 1, i * 10);
        free(p);
    }
    printf("AT_SECURE %lu\n", getauxval(AT_SECURE));
    return 0;
}
