/* Background: the thread that purges while the program is idle, and writes the reports that become due.
 *
 *   NONE --the heap is large enough, in a malloc or a pthread_create--> BEING_MADE --the thread runs--> THERE
 *    ^                                                                                                   |
 *    +---- joined <-- ENDING <--the program has one thread again, is refused a thread, or no thread has a cache
 *
 *   HAKMEM_BACKGROUND=auto: only while the program has other threads whose creation HAKMEM has seen. pthread_create may always create the thread.
 *   malloc may not after the program has restricted its system calls (seccomp may kill a process that creates a thread), or after one of its threads
 *   has called unshare (the background thread would share what its creator has).
 *
 * Owns     the stage of the background thread, and whether it may be created.
 * Threads  any.
 * Never    created in a free (the C library frees under locks that pthread_create takes), in a malloc of the dynamic loader, in a vfork child, or
 *          while HAKMEM holds a lock. The thread never allocates, blocks all signals, and, except to set its name, makes no system call that malloc
 *          and pthread_create do not make. */
#ifndef HK_BACKGROUND_H
#define HK_BACKGROUND_H

#include <pthread.h>

#include "base/base.h"

/* Makes this process the owner of the state. Called when the library is loaded and in a fork child. */
void hk_background_settle(void);
/* Says that the process has no background thread, and counts only the calling thread. Called at the start and in a fork child. */
void hk_background_reset(void);
/* Returns the id of the process that owns the state. In a vfork child, that is the parent. */
int hk_background_home(void);

/* The type of a function that calls pthread_create for a thread of HAKMEM, which is not counted. */
typedef int hk_thread_maker(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *));
hk_thread_maker hk_thread_make; /* in threads.c */

/* Count the program's threads whose creation HAKMEM has seen (threads.c). The count is too high only if a counted thread ended by a bare system
 * call. hk_thread_count_many() returns true if there is more than one, and false also if threads are not counted. */
bool hk_thread_count_many(void);
void hk_thread_count_more(void);
/* Counts one thread less. Returns true if one thread remains. */
bool hk_thread_count_less(void);

/* Creates the thread at the end of a slow malloc, if one is wanted. `caller` is the return address of malloc. */
void hk_background_begin_in_malloc(const void *caller, hk_thread_maker *make);
/* Creates the thread, if it is worth it, before the program creates a thread. */
void hk_background_begin_with_thread(hk_thread_maker *make);

/* Ends the background thread and waits for its end. Returns false if there was none. */
bool hk_background_end(void);
/* Handles the end, or failed creation, of a counted thread. If only one remains, ends the background thread and returns true. */
bool hk_background_thread_ended(void);
/* Ends the background thread and creates none for a minute, because the program was refused a thread. Returns false if there was none. */
bool hk_background_give_way(void);

/* Called before the program restricts its system calls, or one of its threads unshares. From then on, only pthread_create creates the background
 * thread. Waits for a creation that is under way. */
void hk_background_shut_in(void);

#endif
