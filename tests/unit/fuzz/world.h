/* World: what lies around the core: the system, and for the heap's driver options, the clock, a system that refuses, and the books.
 * world_fake.c has it for the core beside the C library's malloc; world_linked.c, where HAKMEM is the malloc of the process. */
#ifndef TEST_FUZZ_WORLD_H
#define TEST_FUZZ_WORLD_H

#include "unit/fuzz/fuzz.h"

/* Before the first input; before each. */
void world_prepare(void);
void world_reset(void);

/* The rest is for the heap's driver. Takes the options that the input begins with. */
void world_begin(struct fuzz_input *in);
void world_pass_ms(uint64_t ms);
/* The system refuses memory from here on, by a plan; and refuses none. */
void world_refuse(uint8_t plan);
void world_heal(void);
/* The heap is in order, and counts as many live blocks as the model. No other thread is in a call. */
void world_check(void);
/* Writes a report in one of its forms. */
void world_report(uint8_t form);
/* In a forked child: blocks of `gone` threads may be lost. */
void world_in_child(unsigned gone);

#endif
