/* Counts the program's threads whose creation HAKMEM has seen. */
#include "runtime/thread_count.h"

static _Atomic uint32_t xthreads = 1;

bool hk_thread_count_many(void) { return atomic_load_explicit(&xthreads, memory_order_seq_cst) > 1; }
void hk_thread_count_more(void) { atomic_fetch_add_explicit(&xthreads, 1, memory_order_seq_cst); }
bool hk_thread_count_less(void) { return atomic_fetch_sub_explicit(&xthreads, 1, memory_order_seq_cst) == 2; }
void hk_thread_count_reset(void) { hk_store(xthreads, 1); }
