/* Tests that copies before main are right, even before the library is relocated. Also tests programs that bind to the memcpy before glibc 2.14, which
 * copied overlapping ranges like memmove. HAKMEM must serve and check them too. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

int early_number(void);
extern int early_bytes, early_length, early_overlap, early_constructed;

#if defined(__x86_64__)
__asm__(".symver old_memcpy, memcpy@GLIBC_2.2.5");
void *old_memcpy(void *to, const void *from, size_t n);

static void old_version(void)
{
    int status;
    char *block = malloc(4096);
    for (int i = 0; i < 4096; i++)
        block[i] = (char)i;
    CHECK(old_memcpy(block + 1, block, 4095) == block + 1 && block[4095] == (char)4094 && block[300] == (char)299,
          "overlapping");
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        old_memcpy(block + 1, block, 4096);
        _exit(0);
    }
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "one byte too many: %x", (unsigned)status);
    free(block);
}
#else
static void old_version(void) {}
#endif

int main(void)
{
    CHECK(early_number() == 42, "the resolver's choice");
    CHECK(early_bytes == 64 && early_overlap == 1, "copies in the resolver: %d bytes, overlap %d", early_bytes,
          early_overlap);
    CHECK(early_length == 4, "text in the resolver: %d", early_length);
    CHECK(early_constructed == 64, "a copy in a constructor: %d", early_constructed);
    old_version();
    return check_report("checked_early");
}
