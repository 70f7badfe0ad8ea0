#include "runtime/attach.h"
#include "runtime/learning.h"

/* Exported: found by its name, or by its first bytes where names were stripped. */
extern const struct hk_attach_door hak_attach;
HK_EXPORT const struct hk_attach_door hak_attach = {
    .magic = "hakmem attach 1",
    .state = &hk_attach_state,
    .gate = &hk_gate,
    .due = &hk_learning_due_ms,
    .classes = hk_classes,
    .watch = &hk_watch,
    .watch_served = offsetof(struct hk_watch, xserved),
    .class_bytes = sizeof(struct hk_class),
};
