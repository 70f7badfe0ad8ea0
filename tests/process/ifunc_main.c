/* Usage: test_ifunc
 * Tests blocks that IFUNC resolvers allocated, in the program and in a library. The blocks must be valid in main and in threads. */
#include "early.h"

#include "support/check.h"

#include <pthread.h>
#include <stdlib.h>

extern int in_program(void);
extern void *in_program_blocks[3];
extern int in_library(void);
extern void *in_library_blocks[3];

static void blocks_are_good(void **blocks, const char *where)
{
    char *p = blocks[0];
    char *q = blocks[1];
    char *r = blocks[2];
    CHECK(p && q && r, "the resolver in the %s got no memory", where);
    CHECK(p && p[99] == 5, "in the %s", where);
    CHECK(q && q[4999] == 5 && q[0] == 0, "in the %s", where);
    CHECK(r && r[299999] == 5, "in the %s", where);
    free(p);
    free(r);
    q = realloc(q, 100);
    CHECK(q && q[50] == 0, "in the %s", where);
    free(q);
}

static void *use_heap(void *blocks)
{
    early_allocate(blocks);
    check_thread_done();
    return blocks;
}

int main(void)
{
    static struct early_blocks blocks;
    pthread_t thread;
    CHECK(in_program() == 42, "the program's function");
    CHECK(in_library() == 42, "the library's function");
    blocks_are_good(in_program_blocks, "program");
    CHECK(pthread_create(&thread, NULL, use_heap, &blocks) == 0, "thread");
    pthread_join(thread, NULL);
    blocks_are_good(in_library_blocks, "library");
    CHECK(early_check_and_free(&blocks), "blocks of a thread");
    return check_report("ifunc");
}
