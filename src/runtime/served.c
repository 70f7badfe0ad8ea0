/* Finds out whether the process's malloc is that of this copy of HAKMEM, or that of another copy. */
#include "runtime/served.h"

#include <dlfcn.h>

#include "guard/sampled.h"
#include "hakmem.h"
#include "os/os.h"

#pragma weak dlsym

HK_PROCESS(void *, malloc_of_process, (size_t size), malloc, hak_malloc)
HK_PROCESS(void, free_of_process, (void *block), free, hak_free)

static _Atomic bool xasking;

int hk_answer_who_serves(void) { return hk_load(xasking) ? 0 : HK_MALLOPT_HAKMEM; }

HK_EACH_PROCESS bool hk_process_is_served_by_another(void)
{
    int (*mallopt_of_process)(int, int) = NULL;
    void *(*known)(size_t) = malloc_of_process;
    HK_FORGET(known);
    if (known == hak_malloc || dlsym == NULL)
        return false;
    *(void **)&mallopt_of_process = dlsym(RTLD_DEFAULT, "mallopt");
    hk_store(xasking, true);
    bool answered = mallopt_of_process != NULL && mallopt_of_process(HK_MALLOPT_WHO_SERVES, 0) == HK_MALLOPT_HAKMEM;
    hk_store(xasking, false);
    return answered;
}

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
        answer = hk_page_map_lookup((uintptr_t)block) != 0 || hk_sampled_has(block) ? YES : NO;
        HK_WHOEVER(free_of_process)(block);
        hk_store(xanswer, answer);
    }
    return answer == YES;
}
