/* Request: what the program asks for in one call of malloc, of its family or of operator new, below the hit path.
 * Threads  the calling one: the request lies on its stack. */
#ifndef HK_REQUEST_H
#define HK_REQUEST_H

#include "base/base.h"

/* The family of functions that allocates a block. */
enum hk_kind { HK_KIND_MALLOC, HK_KIND_NEW, HK_KIND_NEW_ARRAY, HK_KINDS };

struct hk_request {
    size_t size;
    size_t align; /* a power of two, at least 16 */
    enum hk_kind kind;
    bool zeroed;  /* set by the allocator: the block reads as zeros */
    void *caller; /* the return address of the exported function */
};

#endif
