#include "runtime/served.h"

#include "span/page_map.h"

HK_PROCESS(void *, malloc_of_process, (size_t size), malloc, hak_malloc)
HK_PROCESS(void, free_of_process, (void *block), free, hak_free)

/* Decides by a block that the process's malloc returns. */
bool hk_process_is_served(void)
{
    static _Atomic unsigned xanswer;
    enum { NOT_ASKED, YES, NO };
    unsigned answer = hk_load(xanswer);
    if (answer == NOT_ASKED) {
        void *block = HK_WHOEVER(malloc_of_process)(1);
        if (block == NULL)
            return true; /* refused: undecided; the next call tries again */
        answer = hk_page_map_lookup((uintptr_t)block) != 0 ? YES : NO;
        HK_WHOEVER(free_of_process)(block);
        hk_store(xanswer, answer);
    }
    return answer == YES;
}
