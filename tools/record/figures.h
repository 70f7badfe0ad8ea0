/* Figures: a process's own memory and time, from the kernel; for the head of a recording and for the player. No heap. */
#ifndef REC_FIGURES_H
#define REC_FIGURES_H

#include "recording.h"

struct rec_memory {
    uint64_t peak_kib; /* VmHWM */
    uint64_t anon_kib; /* RssAnon */
    uint64_t file_kib; /* RssFile and RssShmem: of files, and what is shared */
};

struct rec_memory rec_memory_now(void);
/* Faults and processor time of the process so far. */
void rec_usage(uint64_t *faults, uint64_t *cpu_us);
uint64_t rec_now_us(void);

void rec_figures_first(struct rec_head *head);
void rec_figures_look(struct rec_head *head);

#endif
