/* Holds the switches of guard pages. */
#include "span/guard_pages.h"

struct hk_guard_pages hk_guard_pages;
