/* Figures: reads how much memory and time this process has used, for the head of a recording and for the player. No function allocates. */
#ifndef REC_FIGURES_H
#define REC_FIGURES_H

#include "recording.h"
#include <time.h>

struct rec_memory {
    uint64_t peak_kib; /* the most resident memory so far (VmHWM) */
    uint64_t anon_kib; /* resident anonymous memory (RssAnon) */
    uint64_t file_kib; /* resident pages of files and shared memory (RssFile + RssShmem) */
};

struct rec_memory rec_memory_now(void);
/* Reads the page faults and the processor time of the process since its start. */
void rec_usage(uint64_t *faults, uint64_t *cpu_us);
uint64_t rec_clock_ns(clockid_t clock);
uint64_t rec_now_us(void); /* by the monotonic clock */

/* Writes to the head the figures that must be read when the recording begins. */
void rec_figures_first(struct rec_head *head);
/* Writes all other figures to the head, with their present values. */
void rec_figures_look(struct rec_head *head);

#endif
