/* Usage: died abort|fault|hollow
 * Makes blocks whose states are known, prints a line "NAME ADDRESS SIZE" for each, and dies. `fault` dies by an access to the block `large`. `hollow`
 * first frees 64 MiB of small blocks and 64 MiB of large ones. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <sys/mman.h>
#include "hakmem.h"

enum { SIZE = 1000, MANY = 300, SMALL = 200, TINY = 64, BURST = 20000, LARGE = 5 << 20, FREED = 64 << 20 };

static void *volatile kept[MANY];

static __attribute__((noinline)) void *make(const char *name, size_t size)
{
    void *block = malloc(size);
    if (block == NULL)
        abort();
    memset(block, 7, size);
    if (name != NULL)
        printf("%s 0x%zx %zu\n", name, (size_t)block, malloc_usable_size(block));
    return block;
}

static void *free_and_end(void *block)
{
    free(block);
    return NULL;
}

static pthread_barrier_t meet;
static void *free_and_stay(void *block)
{
    free(block);
    for (;;)
        pthread_barrier_wait(&meet);
    return NULL;
}

/* Frees all blocks of a slab but one, and moves the free ones from the thread's cache to the slab. */
static void make_free_in_slab(void)
{
    for (int i = 0; i < MANY; i++)
        kept[i] = make(i == MANY / 2 ? "trimmed" : i == MANY / 2 + 1 ? "beside_trimmed" : NULL, SMALL);
    for (int i = 0; i < MANY; i++)
        if (i != MANY / 2 + 1)
            free(kept[i]);
    malloc_trim(0);
}

/* Frees more blocks than a bin holds, so that magazines of the depot take some of them. */
static void make_burst(void)
{
    static void *volatile burst[BURST];
    for (int i = 0; i < BURST; i++)
        burst[i] = make(i == BURST / 2 ? "burst" : NULL, TINY);
    for (int i = 0; i < BURST; i++)
        free(burst[i]);
}

static void *make_and_end(void *unused)
{
    kept[2] = make("of_ended_thread", 2 * SIZE);
    return unused;
}

static void make_heap(void)
{
    hak_heap_t *heap = hak_heap_create("sessions", 0);
    void *live = hak_heap_malloc(heap, SMALL), *freed = hak_heap_malloc(heap, SMALL);
    printf("heap_live 0x%zx %zu\n", (size_t)live, malloc_usable_size(live));
    printf("heap_freed 0x%zx %zu\n", (size_t)freed, malloc_usable_size(freed));
    kept[0] = live;
    free(freed);
}

static void free_much(void)
{
    static void *volatile many[FREED / SIZE], *volatile large[FREED / LARGE];
    for (int i = 0; i < FREED / SIZE; i++)
        many[i] = make(NULL, SIZE);
    for (int i = 0; i < FREED / LARGE; i++)
        large[i] = make(i == 0 ? "large_gone" : NULL, LARGE);
    for (int i = 0; i < FREED / SIZE; i++)
        free(many[i]);
    for (int i = 0; i < FREED / LARGE; i++)
        free(large[i]);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    pthread_barrier_init(&meet, NULL, 2);
    make_free_in_slab();
    make_heap();
    make_burst();
    pthread_create(&thread, NULL, make_and_end, NULL);
    pthread_join(thread, NULL);
    void *live = make("live", SIZE), *freed = make("freed", SIZE);
    void *ended = make("ended_thread", SIZE), *other = make("other_thread", SIZE);
    char *large = make("large", LARGE), *cached = make("large_freed", LARGE / 2);
    pthread_create(&thread, NULL, free_and_end, ended);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, free_and_stay, other);
    pthread_barrier_wait(&meet);
    free(cached);
    free(freed);
    kept[1] = live;
    if (argc > 1 && strcmp(argv[1], "hollow") == 0)
        free_much();
    madvise(large, LARGE, MADV_DONTDUMP);
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "fault") == 0 && mprotect(large, LARGE, PROT_NONE) == 0)
        large[SIZE] = 1;
    abort();
}
