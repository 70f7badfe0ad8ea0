/* Background: the thread that gives memory back while the program does nothing, and writes the reports that were asked for meanwhile.
 *
 *   none --a heap worth it: a malloc, or a thread of the program's is made--> being made --it has its name--> there
 *    ^                                                                                                        |
 *    +-- gone, and joined <-- ending --the program has one thread again, or wants its place; no thread has a cache --+
 *
 *   HAKMEM_BACKGROUND=auto: only beside threads of the program's own that HAKMEM saw made. Where the program makes a thread it may make
 *   one; elsewhere not, once the program has asked the system to shut it in (another thread may be what its filter kills it for), or a thread
 *   not to share all with the others (it would share it with who it makes).
 *
 * Owns     whether there is one, and whether it may be made.
 * Threads  any.
 * Never    begins in a free (the C library frees under locks that the making of a thread takes), in a malloc of the dynamic
 *          loader's, in a vfork child, or while HAKMEM holds a lock. It never allocates, gets no signal, and calls nothing that a
 *          malloc or the making of a thread does not call, but for its name. */
#ifndef HK_BACKGROUND_H
#define HK_BACKGROUND_H

#include <pthread.h>

#include "base/base.h"

/* In this process there is none yet: at the start, and in a fork child. */
void hk_background_reset(void);

/* The C library's pthread_create, or whoever's stands before it, for a thread that is not the program's. */
typedef int hk_thread_maker(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *));

/* One is wished for, and this is the end of a malloc that took long: `caller` is whose code called it. */
void hk_background_begin_in_malloc(const void *caller, hk_thread_maker *make);
/* The program is about to make a thread. */
void hk_background_begin_with_thread(hk_thread_maker *make);

/* The program has one thread again: when this returns, there is none of HAKMEM's. False if there was none. */
bool hk_background_end(void);
/* A thread that was counted has ended, or was not made after all: where that leaves one, the same. */
void hk_background_thread_ended(void);
/* The program is refused another thread: the same, and none is made for a while. */
bool hk_background_give_way(void);

/* The program is about to shut itself in, or one of its threads to part with the others. None is made from now on but where the program
 * makes threads; who was about to make one has done so when this returns. */
void hk_background_shut_in(void);

#endif
