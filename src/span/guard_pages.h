/* Guard pages: ranges of the heap that fault when they are touched.
 * Owns       whether they are in force.
 * Threads    the switches: written at the start. The functions: the holder of the range. */
#ifndef HK_GUARD_PAGES_H
#define HK_GUARD_PAGES_H

#include "base/base.h"
#include "os/os.h"

extern struct hk_guard_pages {
    bool on;              /* free spans and the ends of slabs */
    bool around_metadata; /* both ends of each region of metadata */
} hk_guard_pages;

/* The range faults from here on, and its pages are returned to the system. False if the system refuses. */
HK_INLINE bool hk_guard_range(uintptr_t address, size_t size) { return hk_os.bar((void *)address, size); }
/* The range reads as zeros and can be written. */
HK_INLINE bool hk_unguard_range(uintptr_t address, size_t size) { return hk_os.unbar((void *)address, size); }

#endif
