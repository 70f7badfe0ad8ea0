/* These functions make the text of a report with call stacks, and write it to stderr.
 *
 *   begin --> lines, stacks --> end
 *
 * Owns       This file owns static memory for the report, so that a small stack is enough.
 * Invariant  A process writes one report. Another thread that finds a fault waits up to a second, so that the report is complete.
 * Threads    Any thread or signal handler may begin a report. Only its thread may add to the report. No function takes a lock or calls malloc. */
#pragma once

#include "base/message.h"
#include "prof/stack.h"

/* struct hk_module_place says in which file, at which address in the file, and in which function a code address lies. System calls read this from
 * /proc/self/maps and the ELF file. Neither malloc nor the C library's list of modules is used, because a crashed thread may hold their locks. */
enum { HK_MODULE_PATH = 600, HK_MODULE_NAME = 128 };

struct hk_module_place {
    char path[HK_MODULE_PATH];
    uintptr_t address;             /* address for addr2line */
    char function[HK_MODULE_NAME]; /* name of the function; empty: unknown */
    uintptr_t offset;              /* bytes from the function's start */
};

/* Fills in `place` for a code address. Returns false if no file is mapped at this address. */
bool hk_module_find(uintptr_t code, struct hk_module_place *place);

/* Returns the text of the report, to which the caller may add. If a report was begun before, waits for the end of that report, and returns NULL. */
struct hk_text *hk_fault_text_begin(void);
void hk_fault_text_end(void);

/* Adds the stack of this thread, whose access failed. Callers add it last, because unwinding may crash while another thread unmaps memory. */
void hk_fault_text_access(const struct hk_fault *fault);
/* Writes a report with the stack of this thread, or nothing if the stack is unknown. Leaves out HAKMEM's own frames if HAKMEM is a shared library. */
void hk_fault_text_call(void);
/* Adds a stack under the title `what`. Adds no line if the stack is empty. */
void hk_fault_text_packed(const char *what, const struct hk_packed_stack *packed);
/* Adds the function and the module of a code address to any text, as far as they are known. Any thread may call this function. */
void hk_fault_text_name(struct hk_text *text, uintptr_t code, struct hk_module_place *place);
