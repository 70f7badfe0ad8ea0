/* tasks: the threads of a process in the kernel's list, read without allocating. */
#ifndef TEST_SUPPORT_TASKS_H
#define TEST_SUPPORT_TASKS_H

#include <stdbool.h>
#include <sys/types.h>

struct tasks {
    unsigned threads, ours; /* ours: called "hakmem" */
    unsigned long blocked;  /* signals, of ours */
    unsigned long switches; /* of context, of ours: how often it has slept or been put aside */
    bool waits;             /* ours sleeps */
    bool asleep;            /* ours waits for a futex, without a timeout */
};

struct tasks tasks_of(pid_t pid); /* 0: this process */
unsigned tasks_count(void);

/* A thread's name comes a moment after it: waits while there is another one than `own` and none has the name. */
bool tasks_has_ours(unsigned own);

/* The kernel ends a thread a moment after pthread_join: waits until the caller is alone, or a thread of ours sleeps, which does not end. */
bool tasks_alone(void);

#endif
