/* World: the environment of the core under test. For the target `heap` it also sets options and the clock, refuses memory, and checks the
 * statistics. world_fake.c is for the core beside the C library's malloc. world_linked.c is for a process whose malloc is HAKMEM. */
#ifndef TEST_FUZZ_WORLD_H
#define TEST_FUZZ_WORLD_H

#include "unit/fuzz/fuzz.h"

/* world_prepare() is called before the first input, world_reset() before each input. */
void world_prepare(void);
void world_reset(void);

/* Only the target `heap` calls world_begin() and the functions below. world_begin() reads the options with which the input begins. */
void world_begin(struct fuzz_input *in);
void world_pass_ms(uint64_t ms);
/* After world_refuse(), the system refuses memory by a plan. After world_heal(), it refuses nothing. */
void world_refuse(uint8_t plan);
void world_heal(void);
/* Checks that the heap is consistent, and that it counts as many live blocks as the model. No other thread may be in a call. */
void world_check(void);
void world_report(uint8_t form);
/* A forked child calls world_in_child(). Blocks of `gone` threads may be lost in the child. */
void world_in_child(unsigned gone);

#endif
