/* Fault text: the memory and the text of a report with call stacks on stderr.
 *
 *   begin --> lines, stacks --> end
 *
 * Owns       the memory of the report, so that a small stack is enough; whether a report has been written.
 * Invariant  a process writes one report. Another thread that makes a mistake waits for up to a second, because its end would cut the report off.
 * Threads    begin: any, a signal handler too. The rest: the one whose begin returned true. No lock is taken, and malloc is not called. */
#ifndef HK_FAULT_TEXT_H
#define HK_FAULT_TEXT_H

#include "base/message.h"
#include "prof/stack.h"

/* A code address as file, address in that file, and function. It is read from /proc/self/maps and the ELF file by system calls alone, without malloc
 * and without the C library's lock of loaded objects, which a crashed thread may hold. Any thread, a signal handler too. */
enum { HK_MODULE_PATH = 600, HK_MODULE_NAME = 128 };

struct hk_module_place {
    char path[HK_MODULE_PATH];
    uintptr_t address;             /* as addr2line wants it */
    char function[HK_MODULE_NAME]; /* empty: unknown */
    uintptr_t offset;              /* in the function */
};

/* False if no file is mapped at the address. */
bool hk_module_find(uintptr_t code, struct hk_module_place *place);

/* True if the caller writes the report. */
bool hk_fault_text_begin(void);
void hk_fault_text_end(void);

/* The text so far, and memory for a stack. */
struct hk_text *hk_fault_text(void);
struct hk_stack *hk_fault_text_stack(void);

/* Adds a line for a frame: the code address, which is 1 less than a return address; and for all frames of the stack from one on. */
void hk_fault_text_frame(unsigned number, uintptr_t code);
void hk_fault_text_frames(unsigned from);
/* Adds a stack under a title; nothing if there is none. */
void hk_fault_text_packed(const char *what, const struct hk_packed_stack *packed);
/* Adds the name of a code address to any text: function and module, as far as they are known. Any thread. */
void hk_fault_text_name(struct hk_text *text, uintptr_t code, struct hk_module_place *place);

#endif
