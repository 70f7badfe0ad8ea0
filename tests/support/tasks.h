/* tasks: reads the kernel's list of the threads of a process without allocating. */
#ifndef TEST_SUPPORT_TASKS_H
#define TEST_SUPPORT_TASKS_H

#include <stdbool.h>
#include <sys/types.h>

struct tasks {
    unsigned threads, ours; /* `ours` counts the threads with the name "hakmem", which only HAKMEM's thread has */
    unsigned long blocked;  /* signals that HAKMEM's thread blocks */
    unsigned long switches; /* context switches of HAKMEM's thread */
    bool waits;             /* our thread sleeps */
    bool asleep;            /* HAKMEM's thread waits for a futex without a timeout */
};

struct tasks tasks_of(pid_t pid); /* 0 means this process */
unsigned tasks_count(void);

/* Returns whether the process has HAKMEM's thread. A thread gets its name a moment after its start. So the function waits while the process has more
 * than `own` threads, but none with the name "hakmem". */
bool tasks_has_ours(unsigned own);

/* Returns whether the process has only the calling thread. The kernel ends a thread a moment after pthread_join, so the function waits. It
 * stops waiting if HAKMEM's thread has slept for some time, because that thread then does not end. */
bool tasks_alone(void);

#endif
