/* Operators: the forms of operator new and delete: HAKMEM's (hk_operator_), and those that serve the process (process_), which the program may
 * have replaced.
 * Threads  any. */
#ifndef HK_OPERATORS_H
#define HK_OPERATORS_H

#include "base/base.h"

/* Parameters that a form need not read. */
#define HK_TAG const void *tag __attribute__((unused))
#define HK_ALIGN size_t align __attribute__((unused))

#define FORM(type, form, symbol, parameters)                                                                           \
    type hk_operator_##form parameters;                                                                                \
    HK_PROCESS(type, process_##form, parameters, _##symbol, hk_operator_##form)
#define HK_NEW(form, symbol, parameters, arguments, align, kind, serve) FORM(void *, form, symbol, parameters)
#define HK_DELETE(form, symbol, parameters, serve) FORM(void, form, symbol, parameters)
#include "api/operators.def"
#undef HK_NEW
#undef HK_DELETE
#undef FORM

#endif
