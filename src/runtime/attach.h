/* Attach: lets the tool `hakmem` sample another process that is running, and read its samples.
 *
 *   the tool finds hak_attach in the process's memory; writes `wanted`, shuts the gate, makes a tick due   (process_vm_writev)
 *   --> the next malloc of any thread misses --> its tick: hk_attach_look --> hk_hooks_watch
 *   the tool reads the tables (process_vm_readv); no thread of the process is stopped or woken
 *
 * Owns       This file owns the door (hk_attach_door), which is constant, and the state (hk_attach_state), whose memory is not touched before the
 *            first attach. The kernel decides who may attach, as for a debugger. Root may attach. The user of the process may attach if the program
 *            is not privileged (AT_SECURE).
 * Threads    The caller of hk_attach_look holds the learner's lock. */
#ifndef HK_ATTACH_H
#define HK_ATTACH_H

#include "prof/sample.h"
#include "prof/attach_sampling.h"

enum hk_attached { HK_ATTACHED_NOT, HK_ATTACHED, HK_ATTACHED_ENDED, HK_ATTACHED_REFUSED };
#define HK_ATTACH_END UINT64_MAX /* value of `wanted` that ends sampling */

/* tools/hakmem/hakmem/attached.py reads this struct. All fields are 64 bits wide. If their order changes, the version in `magic` must change. */
struct hk_attach_state {
    /* The tool writes this field. */
    _Atomic uint64_t xwanted; /* mean bytes between two samples, or HK_ATTACH_END; 0: no request */
    /* The process writes these fields. */
    _Atomic uint64_t xstate; /* enum hk_attached */
    uint64_t every_call;     /* 1: hooks see each call since the start, and `mean` is used for all sizes */
    uint64_t mean, fine_mean, fine_max, fine_classes, began_ms;
    struct hk_samples_where where;
};

struct hk_attach_door {
    char magic[16];
    struct hk_attach_state *state;
    struct hk_gate *gate;
    _Atomic uint64_t *due;
    const struct hk_class *classes;
    struct hk_attach_sampling *watch;
    uint64_t watch_served, class_bytes; /* offset of xserved in `watch`, and bytes of a hk_class */
};

extern struct hk_attach_state hk_attach_state;

/* Does what `hakmem` has requested. Each tick calls this function. */
void hk_attach_look(void);

#endif
