/* Figures: reads the memory and the time of this process from the kernel, for the head of a recording and for the player. It never allocates. */
#ifndef REC_FIGURES_H
#define REC_FIGURES_H

#include "recording.h"

struct rec_memory {
    uint64_t peak_kib; /* VmHWM */
    uint64_t anon_kib; /* RssAnon */
    uint64_t file_kib; /* RssFile + RssShmem */
};

struct rec_memory rec_memory_now(void);
/* Reads the page faults and the processor time of the process so far. */
void rec_usage(uint64_t *faults, uint64_t *cpu_us);
uint64_t rec_now_us(void);

/* Writes the figures from the start of the recording to the head. */
void rec_figures_first(struct rec_head *head);
/* Updates all other figures of the head. */
void rec_figures_look(struct rec_head *head);

#endif
