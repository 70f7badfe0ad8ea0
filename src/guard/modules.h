/* Modules: names a code address: file, address in that file, function. Reads /proc/self/maps and the ELF file by system calls alone:
 * neither the C library's lock of loaded objects, which a crashed thread may hold, nor malloc.
 * Owns       nothing: the caller provides the memory.
 * Threads    any, a signal handler too. */
#ifndef HK_MODULES_H
#define HK_MODULES_H

#include "base/base.h"

enum { HK_MODULE_PATH = 512, HK_MODULE_NAME = 128 };

struct hk_module_place {
    char path[HK_MODULE_PATH];
    uintptr_t address;             /* as addr2line wants it */
    char function[HK_MODULE_NAME]; /* empty: unknown */
    uintptr_t offset;              /* in the function */
};

/* False if no file is mapped at the address. */
bool hk_module_find(uintptr_t code, struct hk_module_place *place);

#endif
