/* Lets other threads free blocks. These threads stay alive until the program lets them end. Until then, the freed blocks wait in the threads'
 * outboxes. */
#ifndef TEST_MISUSE_REMOTE_H
#define TEST_MISUSE_REMOTE_H

#include "misuse.h"

enum { MOST_FREERS = 4 };

static struct {
    pthread_t threads[MOST_FREERS];
    int count;
    pthread_barrier_t freed, may_end[MOST_FREERS];
    void *block;
} freers;

__attribute__((noinline)) static void free_elsewhere(void *p)
{
    free(p);
    /* This statement keeps the call from becoming a jump, so that free_elsewhere() has a frame. */
    __asm__ volatile("" ::: "memory");
}

static void *free_and_stay(void *number)
{
    free_elsewhere(freers.block);
    pthread_barrier_wait(&freers.freed);
    pthread_barrier_wait(&freers.may_end[(intptr_t)number]);
    return NULL;
}

static inline void freed_by_another(void *p)
{
    intptr_t number = freers.count++;
    freers.block = p;
    pthread_barrier_init(&freers.freed, NULL, 2);
    pthread_barrier_init(&freers.may_end[number], NULL, 2);
    pthread_create(&freers.threads[number], NULL, free_and_stay, (void *)number);
    pthread_barrier_wait(&freers.freed);
}

static inline void let_them_end(void)
{
    for (int i = 0; i < freers.count; i++) {
        pthread_barrier_wait(&freers.may_end[i]);
        pthread_join(freers.threads[i], NULL);
    }
}

#endif
