/* RefuseNew: what operator new does if memory is refused: the new handler and std::bad_alloc of the C++ library that the caller uses.
 * That library may be one for the process, one for a module (RTLD_LOCAL), or lie inside the program, hidden or in parts.
 * Threads  any. */
#ifndef HK_REFUSE_NEW_H
#define HK_REFUSE_NEW_H

#include "base/base.h"

typedef void hk_new_handler(void);
/* NULL if there is none. `caller` is the return address of operator new. */
hk_new_handler *hk_current_new_handler(const void *caller);
_Noreturn void hk_throw_bad_alloc(const void *caller);

#endif
