/* Usage: test_linked...
 * Tests each way of linking HAKMEM (dynamic, static, static-pie, musl). HAKMEM must serve malloc in threads, after fork and at exit, and
 * libc's own allocations. The program uses only C11 and POSIX, so that it compiles with any libc. */
#include "hakmem.h"
#include "support/pattern.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 300, FORKS = 5 };

static int failures;

static void must(int good, const char *what)
{
    if (!good) {
        failures++;
        fprintf(stderr, "linked: %s\n", what);
    }
}

static void *use_heap(void *argument)
{
    void *block[BLOCKS];
    size_t good = 1;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t size = i * (i % 50 == 49 ? 400 : 20) + 1;
            block[i] = i % 2 ? malloc(size) : calloc(1, size);
            good = good && block[i];
            pattern_fill(block[i], size, i);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t size = i * (i % 50 == 49 ? 400 : 20) + 1;
            good = good && pattern_holds(block[i], size, i);
            /* hak_free must accept a block of malloc. If malloc were another allocator's, this hak_free would abort. */
            if (i % 4 == 0) {
                hak_free(block[i]);
            } else {
                free(block[i]);
            }
        }
    }
    return good ? argument : NULL;
}

static void threads_work(const char *where)
{
    pthread_t thread[THREADS];
    for (size_t t = 0; t < THREADS; t++) {
        must(pthread_create(&thread[t], NULL, use_heap, &failures) == 0, where);
    }
    for (size_t t = 0; t < THREADS; t++) {
        void *result = NULL;
        must(pthread_join(thread[t], &result) == 0 && result, where);
    }
}

static void forks_work(void)
{
    for (int i = 0; i < FORKS; i++) {
        void *p = malloc(1000);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(30);
            free(p);
            threads_work("threads of a child");
            exit(failures ? 1 : 0);
        }
        int status = -1;
        must(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a child of fork");
        free(p);
    }
}

static void at_exit(void)
{
    if (!use_heap(&failures)) {
        _exit(9);
    }
}

int main(void)
{
    alarm(60);
    char *copy = strdup("allocated by libc"); /* strdup must use the same heap. */
    must(hak_malloc_usable_size(copy) >= 18, "strdup's block is not HAKMEM's");
    hak_free(copy);
    must(use_heap(&failures) != NULL, "the main thread");
    threads_work("threads");
    forks_work();
    must(atexit(at_exit) == 0, "atexit");
    printf("linked: HAKMEM %s, %d failures\n", hak_version(), failures);
    return failures ? 1 : 0;
}
