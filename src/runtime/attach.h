/* Attach: lets the tool `hakmem` sample a running process, and find the heap in a core file. No thread of the process is stopped or woken for it.
 *
 *   1. The tool finds hak_attach in the memory of the process. By /proc/PID/mem, it writes `xwanted`, shuts the gate, and makes a tick due.
 *   2. The next malloc of any thread misses, and runs the tick. The tick calls hk_attach_look(), which begins to sample.
 *   3. The tool reads the tables of samples.
 *
 * Owns     This file owns hak_attach, which is constant, and hk_attach_state, whose memory is not touched before the first attach. The kernel
 *          decides who may attach, as for a debugger: root, and the user of the process if the program is not privileged (AT_SECURE).
 * Threads  The caller of hk_attach_look holds the learner's lock. */
#pragma once

#include "prof/attach_sampling.h"
#include "prof/hooks.h"

enum hk_attached { HK_ATTACHED_NOT, HK_ATTACHED, HK_ATTACHED_ENDED, HK_ATTACHED_REFUSED };
#define HK_ATTACH_END UINT64_MAX /* the value of `xwanted` that ends sampling */

/* tools/hakmem/hakmem/attached.py accesses this struct from outside. If the order of its fields changes, `magic` must change. */
extern struct hk_attach_state {
    _Atomic uint64_t xwanted; /* written by the tool: mean bytes between two samples, or HK_ATTACH_END; 0: no request */
    _Atomic uint64_t xstate;  /* written by the process: enum hk_attached */
} hk_attach_state;

extern const struct hk_attach_door {
    char magic[16];
    struct hk_attach_state *state;
    struct hk_gate *gate;
    _Atomic uint64_t *due;
    const struct hk_class *classes;
    struct hk_attach_sampling *watch;
    const struct hk_hooks *hooks;
    const struct hk_samples *samples;
    const struct hk_window *window;
    const uintptr_t *descriptors, *owners, *heaps; /* say where these tables are */
    uint32_t layout[];                             /* of layout.def */
} hak_attach;

/* Carries out the request of `hakmem`, if there is one. Each tick calls this function. */
void hk_attach_look(void);
