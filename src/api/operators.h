/* Operators: the functions that a program may replace, above all the forms of operator new and operator delete. hk_operator_ are HAKMEM's forms,
 * process_ the functions that serve the process, whoever's they are.
 * Threads  any. */
#ifndef HK_OPERATORS_H
#define HK_OPERATORS_H

#include "base/base.h"

HK_PROCESS(void *, process_malloc, (size_t size), malloc, hak_malloc)
HK_PROCESS(void *, process_realloc, (void *block, size_t size), realloc, hak_realloc)
HK_PROCESS(void, process_free, (void *block), free, hak_free)

/* These parameters exist because the ABI has them. A form need not read them. */
#define HK_TAG const void *tag __attribute__((unused))
#define HK_ALIGN size_t align __attribute__((unused))
#define FORM(type, form, symbol, parameters)                                                                           \
    type hk_operator_##form parameters;                                                                                \
    HK_PROCESS(type, process_##form, parameters, _##symbol, hk_operator_##form)
#define HK_NEW(form, symbol, parameters, arguments, align, kind, serve) FORM(void *, form, symbol, parameters)
#define HK_DELETE(form, symbol, parameters, serve) FORM(void, form, symbol, parameters)
#include "api/operators.def"
#undef FORM

/* HK_IS_OURS is true if the function that the process uses is HAKMEM's `own`. */
#define HK_IS_OURS(function, own)                                                                                      \
    (__extension__({                                                                                                   \
        __typeof__(&(own)) serves = (function);                                                                        \
        HK_FORGET(serves);                                                                                             \
        serves == (own);                                                                                               \
    }))

/* Marks a function that is reached by its exported name only. A library without malloc does not have these names. */
#define HK_BY_NAME static __attribute__((unused))

#endif
