/* Guard pages: makes ranges of the heap fault when they are touched.
 * Owns       This file owns the switches, which say whether guard pages are in force.
 * Threads    The switches are written once, at the start of HAKMEM. Only the holder of a range calls the functions for it. */
#ifndef HK_GUARD_PAGES_H
#define HK_GUARD_PAGES_H

#include "base/base.h"
#include "os/os.h"

extern struct hk_guard_pages {
    bool on;              /* guards free spans and the ends of slabs */
    bool around_metadata; /* guards both ends of each region of metadata */
} hk_guard_pages;

/* Makes a range fault when it is touched, and returns its pages to the system. Returns false if the system refuses. */
HK_INLINE bool hk_guard_range(uintptr_t address, size_t size) { return hk_os.bar((void *)address, size); }
/* Makes a range accessible again. The range then reads as zeros. */
HK_INLINE bool hk_unguard_range(uintptr_t address, size_t size) { return hk_os.unbar((void *)address, size); }

#endif
