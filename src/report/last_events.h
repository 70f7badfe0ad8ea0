/* LastEvents: what the debug rings hold, as lines of text.
 * Threads  any; safe in a signal handler: it takes no lock, allocates nothing, and waits for nobody. */
#ifndef HK_LAST_EVENTS_H
#define HK_LAST_EVENTS_H

void hk_last_events_write(int fd);

#endif
