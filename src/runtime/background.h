/* Background: manages the background thread, which purges while the program is idle, and writes the reports that become due.
 *
 *   NONE --the heap is large enough, in a malloc or a pthread_create--> BEING_MADE --the thread runs--> THERE
 *    ^                                                                                                   |
 *    +---- joined <-- ENDING <--the program has one thread again, is refused a thread, or no thread has a cache
 *
 *   With HAKMEM_BACKGROUND=auto, the thread exists only while the program has threads whose creation HAKMEM has seen. A pthread_create of the program
 *   may always create the background thread. A malloc may not create it after the program has restricted its system calls, because seccomp may kill a
 *   process that creates a thread. A malloc may not create it after a call of unshare, because the thread would share the files of its creator.
 *
 * Owns     This file owns the stage of the background thread, and the flag that says whether a malloc may create the thread.
 * Threads  Any thread may call the functions.
 * Never    The thread is never created in a free (the C library frees under locks that pthread_create takes), in a malloc of the dynamic loader, in a
 *          vfork child, or while HAKMEM holds a lock. The thread never allocates, and blocks all signals. Except to set its name, it makes only
 *          system calls that malloc and pthread_create also make. */
#ifndef HK_BACKGROUND_H
#define HK_BACKGROUND_H

#include <pthread.h>

#include "base/base.h"

/* Makes this process the owner of the background thread's state. Called when the library is loaded and in a fork child. */
void hk_background_settle(void);
/* Resets the state for a process that has only the calling thread and no background thread. Called at the start and in a fork child. */
void hk_background_reset(void);
/* Returns the id of the process that owns the background thread's state. In a vfork child, this is the id of the parent. */
int hk_background_home(void);

/* The type of a function that creates a thread of HAKMEM, without counting it as a thread of the program. */
typedef int hk_thread_maker(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *));
hk_thread_maker hk_thread_make; /* in threads.c */

/* Returns true if the program has more than one counted thread (threads.c). Returns false if threads are not counted. */
bool hk_thread_count_many(void);

/* Creates the background thread at the end of a slow malloc, if it is wanted. `caller` is the return address of malloc. */
void hk_background_begin_in_malloc(const void *caller, hk_thread_maker *make);
/* Counts a thread that the program is about to create. Creates the background thread before it, if the heap is large enough. */
void hk_background_begin_with_thread(hk_thread_maker *make);

/* Ends the background thread and waits for its end. Returns false if the process had no background thread. */
bool hk_background_end(void);
/* Subtracts a thread from the count, because it ends or could not be created. If only one thread remains, ends the background thread and returns
 * true. */
bool hk_background_thread_ended(void);
/* Called when the system has refused the program a thread. Ends the background thread, and creates no new one for a minute. Returns false if the
 * process had no background thread. */
bool hk_background_give_way(void);

/* Called before the program restricts its system calls or calls unshare. With HAKMEM_BACKGROUND=auto, only pthread_create may create the background
 * thread from then on. Waits until a creation that has begun is complete. */
void hk_background_shut_in(void);

#endif
