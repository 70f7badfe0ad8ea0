/* Writes call stacks with the names of functions and modules to stderr, through a buffer in static memory. */
#include "guard/fault_text.h"
#include <string.h>
#include "os/elf_file.h"
#include "os/maps.h"

enum { WAITS = 100, WAIT_MS = 10 };

static struct {
    atomic_flag begun;
    _Atomic bool xdone;
    struct hk_text text;
    struct hk_stack stack;
    struct hk_module_place place;
} told HK_COLD_DATA;

struct hk_text *hk_fault_text_begin(void)
{
    if (!atomic_flag_test_and_set(&told.begun)) {
        hk_text_init(&told.text, HK_STDERR);
        return &told.text;
    }
    for (int i = 0; i < WAITS && !hk_load(told.xdone); i++)
        hk_os.rest(WAIT_MS);
    return NULL;
}

void hk_fault_text_end(void)
{
    hk_text_add(&told.text, "hakmem: `hakmem symbolize` adds files and lines (docs/GUARD.md)\n");
    hk_text_flush(&told.text);
    hk_store(told.xdone, true);
}

void hk_fault_text_name(struct hk_text *text, uintptr_t code, struct hk_module_place *place)
{
    if (!hk_module_find(code, place))
        return;
    if (place->function[0] != 0)
        hk_text_add(text, " %.1000s+0x%zx", place->function, place->offset);
    hk_text_add(text, " (%.1000s+0x%zx)", place->path, place->address);
}

/* Writes the line of a frame. `code` is 1 less than a return address, because the byte before the return address belongs to the call. */
static void add_frame(unsigned number, uintptr_t code)
{
    hk_text_add(&told.text, "    #%u 0x%zx", number, code);
    hk_fault_text_name(&told.text, code, &told.place);
    hk_text_add(&told.text, "\n");
    hk_text_flush(&told.text);
}

static void add_frames(unsigned from)
{
    for (unsigned i = from; i < told.stack.depth; i++)
        add_frame(i, (uintptr_t)told.stack.frames[i] - 1);
}

/* Writes the first frame before the unwinder runs, so that the report has this frame even if the unwinder crashes. */
void hk_fault_text_access(const struct hk_fault *fault)
{
    hk_text_add(&told.text, "  accessed by thread %d:\n", hk_os_thread_id());
    add_frame(0, fault->code);
    hk_stack_capture(&told.stack, (void *)fault->code);
    if (told.stack.depth == 1)
        hk_stack_follow(&told.stack, fault);
    add_frames(1);
}

void hk_fault_text_call(void)
{
    struct hk_code own = {0};
    struct hk_stack *stack = &told.stack;
    if (hk_fault_text_begin() == NULL)
        return;
    hk_stack_capture(stack, __builtin_return_address(0));
    (void)hk_os.code_at((uintptr_t)__builtin_return_address(0), &own);
    bool shared =
        hk_os_program_entry() - own.start >= own.size; /* otherwise, code_at() cannot tell HAKMEM from the program */
    unsigned first = !shared && stack->depth == 1 ? 1 : 0;
    while (shared && first < stack->depth && (uintptr_t)stack->frames[first] - own.start < own.size)
        first++;
    stack->depth -= first;
    if (stack->depth == 0) {
        hk_store(told.xdone, true);
        return;
    }
    memmove(stack->frames, stack->frames + first, stack->depth * sizeof *stack->frames);
    hk_text_add(&told.text, "  found in a call of thread %d:\n", hk_os_thread_id());
    add_frames(0);
    hk_fault_text_end();
}

void hk_fault_text_packed(const char *what, const struct hk_packed_stack *packed)
{
    if (packed->thread == 0)
        return;
    hk_text_add(&told.text, "  %s by thread %d:\n", what, packed->thread);
    hk_stack_unpack(&told.stack, packed);
    add_frames(0);
}

/* Finds the file that is mapped at an address, and the offset in the file. Is not inlined, so that its buffers take stack only during the call. */
static HK_NOINLINE bool find_mapping(uintptr_t code, struct hk_module_place *place)
{
    struct hk_lines lines;
    struct hk_mapping mapping;
    bool found = false;
    hk_lines_open(&lines, "/proc/self/maps");
    while (!found && hk_lines_next(&lines, place->path, sizeof place->path))
        found = hk_mapping_parse(place->path, &mapping) && code - mapping.start < mapping.end - mapping.start;
    if (found)
        hk_os_close(lines.fd);
    if (!found || mapping.path[0] != '/')
        return false;
    place->address = code - mapping.start + mapping.offset;
    memmove(place->path, mapping.path, strlen(mapping.path) + 1);
    return true;
}

bool hk_module_find(uintptr_t code, struct hk_module_place *place)
{
    struct hk_elf_file file;
    place->function[0] = 0;
    if (!find_mapping(code, place))
        return false;
    if (hk_elf_open(&file, place->path)) {
        place->address = hk_elf_address(&file, place->address);
        place->offset = hk_elf_function(&file, place->address, place->function, sizeof place->function);
        hk_os_close(file.fd);
    }
    return true;
}
