/* Sampled fault: the handler of SIGSEGV. A fault at a sampled block that is freed, or beside one, is reported; then the program's
 * handler or the default action gets the same fault. All other faults are passed on at once.
 *
 *   fault --> in the slots, and a mistake? --> report --> the handler before ours is installed again, the fault recurs
 *                     | no --> that handler is called; or the default action
 *
 * Owns       the handler. A handler that the program installs later replaces it: then faults in the slots are the program's.
 * Threads    watch: any. The handler: any. */
#ifndef HK_SAMPLED_FAULT_H
#define HK_SAMPLED_FAULT_H

#include "base/base.h"

/* Installs the handler, once. */
void hk_sampled_watch(void);

#endif
