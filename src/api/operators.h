/* Declares functions that a program may replace, which are mainly the forms of operator new and operator delete. HAKMEM's forms have names that begin
 * with hk_operator_. A name that begins with process_ stands for the function that the process uses, HAKMEM's or the program's.
 * Threads  Any thread may call these functions. */
#pragma once

#include "hakmem.h"
#include "runtime/lifecycle.h"

HK_PROCESS(void *, process_realloc, (void *block, size_t size), realloc, hak_realloc)

/* Returns true if the process uses HAKMEM's malloc. May wrongly return false in a program that is not position independent and takes malloc's
 * address, because this address then lies in the program. malloc_usable_size() of an invalid pointer then returns 0 instead of ending the program. */
HK_INLINE bool hk_malloc_is_ours(void) { return HK_IS_OURS(process_malloc, hak_malloc); }

/* HAKMEM's forms of the operators may ignore these parameters. */
#define HK_TAG const void *tag __attribute__((unused))
#define HK_ALIGN size_t align __attribute__((unused))
#define FORM(type, form, symbol, parameters)                                                                           \
    type hk_operator_##form parameters;                                                                                \
    HK_PROCESS(type, process_##form, parameters, _##symbol, hk_operator_##form)
#define HK_NEW(form, symbol, parameters, arguments, align, kind, serve) FORM(void *, form, symbol, parameters)
#define HK_DELETE(form, symbol, parameters, serve) FORM(void, form, symbol, parameters)
#include "api/operators.def"
#undef FORM

/* Begins the definition of a function that is exported as `name`. The function is unused in a build without malloc, which has no such exports. */
#define HK_BY_NAME(type, own, parameters, name)                                                                        \
    static __attribute__((unused)) type own parameters;                                                                \
    HK_REPLACES(type, name, parameters, own)                                                                           \
    static __attribute__((unused)) type own parameters
