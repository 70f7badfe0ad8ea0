/* tasks: reads the kernel's list of the threads of a process without allocating. */
#ifndef TEST_SUPPORT_TASKS_H
#define TEST_SUPPORT_TASKS_H

#include <stdbool.h>
#include <sys/types.h>

struct tasks {
    unsigned threads, ours; /* ours: threads with the name "hakmem" */
    unsigned long blocked;  /* signals that our thread blocks */
    unsigned long switches; /* context switches of our thread */
    bool waits;             /* our thread sleeps */
    bool asleep;            /* our thread waits for a futex without a timeout */
};

struct tasks tasks_of(pid_t pid); /* 0 means this process */
unsigned tasks_count(void);

/* Returns whether a thread has our name. A thread gets its name a moment after its start, so this waits while the process has more threads than `own`
 * and none of them has the name. */
bool tasks_has_ours(unsigned own);

/* Returns whether the caller is alone, or only our thread is beside it and sleeps, because that thread does not end. The kernel ends a thread a
 * moment after pthread_join, so this waits for one of the two. */
bool tasks_alone(void);

#endif
