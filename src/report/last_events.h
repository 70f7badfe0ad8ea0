/* LastEvents: prints the debug rings as lines of text.
 * Threads  any; async-signal-safe: takes no lock, does not allocate, does not wait. */
#ifndef HK_LAST_EVENTS_H
#define HK_LAST_EVENTS_H

void hk_last_events_write(int fd);

#endif
