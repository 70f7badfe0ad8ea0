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

/* A code address as file, address in that file, and function. System calls alone read it from /proc/self/maps and the ELF file, without malloc and
 * without the C library's lock of loaded objects, which a crashed thread may hold. Any thread and signal handlers may use it. */
enum { HK_MODULE_PATH = 600, HK_MODULE_NAME = 128 };

struct hk_module_place {
    char path[HK_MODULE_PATH];
    uintptr_t address;             /* address for addr2line */
    char function[HK_MODULE_NAME]; /* name of the function; empty: unknown */
    uintptr_t offset;              /* bytes from the function's start */
};

/* Fills in `place`. Returns false if no file is mapped at the address. */
bool hk_module_find(uintptr_t code, struct hk_module_place *place);

/* Returns true if the caller must write the report. If not, another thread has begun one. */
bool hk_fault_text_begin(void);
void hk_fault_text_end(void);

/* Return the text so far, and memory for a stack. */
struct hk_text *hk_fault_text(void);
struct hk_stack *hk_fault_text_stack(void);

/* Add a line for one frame, or for all frames of the stack beginning with `from`. `code` is 1 less than a return address. */
void hk_fault_text_frame(unsigned number, uintptr_t code);
void hk_fault_text_frames(unsigned from);
/* Adds a stack under a title. Adds nothing if there is no stack. */
void hk_fault_text_packed(const char *what, const struct hk_packed_stack *packed);
/* Adds the function and the module of a code address to any text, as far as they are known. Any thread may call it. */
void hk_fault_text_name(struct hk_text *text, uintptr_t code, struct hk_module_place *place);

#endif
