/* Background: manages the background thread, which purges memory while the program is idle, and writes the reports that become due.
 *
 *   NONE --a malloc or pthread_create finds the heap large enough--> BEING_MADE --the thread runs--> THERE --it has to end--> ENDING --> NONE
 *
 * The thread has to end if the program has only one thread again, or if the system refuses the program a thread. It ends itself if no thread has a
 * tcache. With HAKMEM_BACKGROUND=auto, it exists only while the program has other threads whose creation HAKMEM has seen. With auto, after the
 * program has restricted its system calls, only pthread_create may create the background thread. A malloc may not, because seccomp may kill a process
 * that creates a thread. The same holds after a call of unshare, because the background thread would share the files of the thread that creates it.
 * Owns     This file owns the stage of the background thread, and the flag that says whether a malloc may create the thread.
 * Threads  Any thread may call the functions.
 * Never    The thread is never created in a free (the C library frees under locks that pthread_create takes), in a malloc of the dynamic loader, in a
 *          vfork child, or while HAKMEM holds a lock. The thread never allocates, and blocks all signals. Except to set its name, it makes only
 *          system calls that malloc and pthread_create also make. */
#pragma once

#include <pthread.h>
#include "base/base.h"

/* Resets the state for a process that has no background thread, and no thread except the caller. Called at the start, and in a fork child. */
void hk_background_reset(void);
/* The id of the process that owns the background thread's state. It is set at the start and in a fork child, but not in a vfork child. */
extern int hk_background_home;

/* The type of pthread_create, and HAKMEM's way to the C library's function, which counts no thread. */
typedef int hk_thread_maker(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                            void *argument);
hk_thread_maker hk_thread_make; /* in threads.c */

/* Returns true if the program has more than one thread that is counted (threads.c). Returns false if HAKMEM does not count threads. */
bool hk_thread_count_many(void);

/* Creates the background thread at the end of a slow malloc, if it is wanted. `caller` is the return address of malloc. */
void hk_background_begin_in_malloc(const void *caller, hk_thread_maker *make);
/* Counts a thread that the program is about to create. If the heap is large enough, first creates the background thread. */
void hk_background_begin_with_thread(hk_thread_maker *make);

/* Ends the background thread and waits for its end. Returns false if the process had no background thread. */
bool hk_background_end(void);
/* Subtracts a thread from the count, because it ends or could not be created. If one thread remains, ends the background thread and returns true. */
bool hk_background_thread_ended(void);
/* Called if the system refuses the program a thread. Ends the background thread, and creates none for a minute. Returns false if there was none. */
bool hk_background_give_way(void);

/* Called before the program restricts its system calls or calls unshare. Waits while another thread creates the background thread. */
void hk_background_shut_in(void);
