/* Attach: lets the tool `hakmem` sample a running process. No thread of the process is stopped or woken for it.
 *
 *   1. The tool finds hak_attach in the memory of the process. By process_vm_writev, it writes `xwanted`, shuts the gate, and makes a tick due.
 *   2. The next malloc of any thread misses, and runs the tick. The tick calls hk_attach_look(), which begins to sample.
 *   3. The tool reads the tables of samples by process_vm_readv.
 *
 * Owns     This file owns hak_attach, which is constant, and hk_attach_state, whose memory is not touched before the first attach. The kernel
 *          decides who may attach, as for a debugger: root, and the user of the process if the program is not privileged (AT_SECURE).
 * Threads  The caller of hk_attach_look holds the learner's lock. */
#pragma once

#include "prof/sample.h"
#include "prof/attach_sampling.h"

enum hk_attached { HK_ATTACHED_NOT, HK_ATTACHED, HK_ATTACHED_ENDED, HK_ATTACHED_REFUSED };
#define HK_ATTACH_END UINT64_MAX /* the value of `xwanted` that ends sampling */

/* tools/hakmem/hakmem/attached.py reads this struct from outside. All fields have 64 bits. If their order changes, `magic` must change. */
extern struct hk_attach_state {
    /* The tool writes this field. */
    _Atomic uint64_t xwanted; /* mean bytes between two samples, or HK_ATTACH_END; 0: no request */
    /* The process writes these fields. */
    _Atomic uint64_t xstate; /* enum hk_attached */
    uint64_t every_call;     /* 1 if hooks have sampled each call since the start; `mean` then applies to all sizes */
    uint64_t mean, fine_mean, fine_max, fine_classes, began_ms;
    /* These fields hold the addresses and the layout of the heap profile's tables (prof/sample.h). */
    uint64_t sites, site_count, site_stack, site_lifetimes, lifetimes;
    uint64_t place_count, blocks, records, born, record_site_bits;
} hk_attach_state;

extern const struct hk_attach_door {
    char magic[16];
    struct hk_attach_state *state;
    struct hk_gate *gate;
    _Atomic uint64_t *due;
    const struct hk_class *classes;
    struct hk_attach_sampling *watch;
    uint64_t watch_served, class_bytes; /* offset of xserved in `watch`, and size of a struct hk_class */
} hak_attach;

/* Carries out the request of `hakmem`, if there is one. Each tick calls this function. */
void hk_attach_look(void);
