/* Tests that the frames of a stack are those of the C library's backtrace(). A table or a frame pointer that leads to a wrong address ends the
 * stack without a crash. A module that was unloaded is forgotten. */
#include "unit/unit.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "prof/stack.h"
#include "support/made_table.h"

enum { DEEP = 40, ROOM = 128, PAGE = 65536, VICTIM = 64 };
#ifdef __clang__
#define KEPT __attribute__((noinline, disable_tail_calls))
#else
#define KEPT __attribute__((noinline, noclone, optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")))
#endif

static struct hk_stack ours;
static void *theirs[ROOM];
static int their_count;

static KEPT void take_both(void *caller)
{
    hk_stack_capture(&ours, caller);
    their_count = backtrace(theirs, ROOM);
}

static void expect_alike(void *caller)
{
    int from = 0;
    while (from < their_count && theirs[from] != caller)
        from++;
    unsigned count = (unsigned)(their_count - from) < HK_STACK_MOST ? (unsigned)(their_count - from) : HK_STACK_MOST;
    assert_int_equal(ours.depth, count);
    assert_memory_equal(ours.frames, theirs + from, count * sizeof(void *));
}

static KEPT void take_here(void)
{
    void *caller = __builtin_return_address(0);
    take_both(caller);
    expect_alike(caller);
}

static KEPT int go_down(int depth)
{
    if (depth > 0)
        return go_down(depth - 1) + 1;
    take_here();
    return 0;
}

UNIT_TEST(as_backtrace)
{
    (void)backtrace(theirs, 1); /* The first backtrace() loads a library. */
    for (int depth = 0; depth < DEEP; depth++)
        assert_int_equal(go_down(depth), depth);
    assert_int_equal(go_down(HK_STACK_MOST), HK_STACK_MOST);
    assert_int_equal(ours.depth, HK_STACK_MOST);
}

static int compare(const void *a, const void *b)
{
    take_here();
    return *(const char *)a - *(const char *)b;
}

static void on_signal(int number)
{
    char letters[] = {(char)number, 'b', 'a'};
    qsort(letters, sizeof letters, 1, compare);
}

UNIT_TEST(through_a_handler)
{
    (void)backtrace(theirs, 1);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    assert_true(ours.depth > 5);
}

static struct hk_os real;
static struct made_table made;
static struct hk_code made_code;
static uintptr_t victim_start;
static size_t victim_size;

/* Finds the code segment of an address as the system does, but without the code of victim(). */
static bool other_code_at(uintptr_t address, struct hk_code *code)
{
    bool found = real.code_at(address, code);
    uintptr_t end = code->start + code->size;
    if (found && victim_start - code->start < code->size) {
        code->start = address < victim_start ? code->start : victim_start + VICTIM;
        code->size = (address < victim_start ? victim_start : end) - code->start;
    }
    return found;
}

static bool code_at(uintptr_t address, struct hk_code *code)
{
    if (address - victim_start >= VICTIM)
        return other_code_at(address, code);
    *code = made_code;
    code->start = victim_start;
    code->size = victim_size;
    return true;
}

static void *callers_code;

/* Captures a stack. The rules for the frame of this function come from the table that the test makes. */
static KEPT __attribute__((aligned(VICTIM))) void victim(void)
{
    callers_code = __builtin_return_address(0);
    hk_stack_capture(&ours, callers_code);
    __asm__ volatile("" ::: "memory");
}

static KEPT __attribute__((aligned(VICTIM))) void call_victim(void)
{
    victim();
    __asm__ volatile("" ::: "memory");
}

/* Begins a table for the code of victim(). The caller adds instructions to the table. */
static void begin_table(void)
{
    real = hk_os;
    hk_os.code_at = code_at;
    victim_start = (uintptr_t)victim;
    victim_size = VICTIM;
    made_usual(&made);
    made_put(&made, 1, 0x0c);
    made_unsigned(&made, HK_REG_FIRST + HK_REG_STACK);
    made_unsigned(&made, 8);
    made_put(&made, 1, 0x05);
    made_unsigned(&made, HK_REG_FIRST + HK_REG_LINK);
    made_unsigned(&made, 1);
    made_function(&made, 1, 4);
    made_number_at(&made, 12, victim_start - (uintptr_t)made.bytes);
    made_number_at(&made, made.used - 5, VICTIM); /* the size of the function */
}

static void run_table(void)
{
    made_code = made_end(&made);
    call_victim();
    hk_os = real;
    assert_true(ours.depth >= 1);
    assert_ptr_equal(ours.frames[0], callers_code);
}

static void put_expression(unsigned instruction, const char *bytes, size_t count)
{
    made_put(&made, 1, instruction);
    if (instruction != 0x0f)
        made_unsigned(&made, HK_REG_FIRST + HK_REG_LINK);
    made_unsigned(&made, count);
    for (size_t i = 0; i < count; i++)
        made_put(&made, 1, (unsigned char)bytes[i]);
}

static void try_address(uintptr_t address)
{
    begin_table();
    made_put(&made, 1, 0x0f);
    size_t at = made.used;
    made_put(&made, 1, 0);
    made_put(&made, 2, 0x2330); /* 0 plus the address */
    made_unsigned(&made, address);
    made.bytes[at] = (unsigned char)(made.used - at - 1);
    run_table();
}

UNIT_TEST(broken_frames)
{
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + PAGE, PAGE, PROT_NONE);
    const uintptr_t addresses[] = {8,
                                   1,
                                   0,
                                   UINTPTR_MAX - 7,
                                   (uintptr_t)1 << 63,
                                   (uintptr_t)pages + PAGE + 16,
                                   (uintptr_t)pages + 3,
                                   (uintptr_t)pages + 64,
                                   (uintptr_t)pages + PAGE};
    for (unsigned i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        try_address(addresses[i]);
}

/* Tests expressions that cannot be evaluated. */
UNIT_TEST(broken_expressions)
{
    static const char *const bytes[] = {"\x06", "\x30\x06", "\x22\x22", "\xff",
                                        "\x23", "\x8f\x10", "\x70",     "\x30\x30\x30\x30\x30\x30\x30\x30\x30"};
    static const unsigned instructions[] = {0x0f, 0x10, 0x16};
    for (unsigned i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        for (unsigned k = 0; k < 3; k++) {
            begin_table();
            put_expression(instructions[k], bytes[i], strlen(bytes[i]));
            run_table();
        }
}

/* Tests expressions that compute CFA = rbp + 16. They are only for x86-64, because on other machines a frame pointer alone does not give the size
 * of a frame. */
UNIT_TEST(expressions)
{
    static const struct {
        const char *bytes;
        size_t count;
    } ways[] = {
        {"\x76\x10", 2},                         /* rbp + 16 */
        {"\x76\x00\x23\x10", 4},                 /* plus a constant */
        {"\x76\x08\x38\x22", 4},                 /* plus */
        {"\x32\x38\x1e\x76\x00\x22", 6},         /* 2 * 8 */
        {"\x31\x34\x24\x76\x00\x22", 6},         /* 1 << 4 */
        {"\x76\x00\x33\x32\x2a\x34\x24\x22", 8}, /* (3 >= 2) << 4 */
        {"\x76\x00\x4f\x40\x1a\x22", 6},         /* 31 & 16 */
        {"\x76\x10\x30\x4f\x23\x21\x24\x22", 8}, /* 0 << 64 */
    };
    if (HK_REG_LINK != 16)
        return;
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        begin_table();
        put_expression(0x0f, ways[i].bytes, ways[i].count);
        made_put(&made, 2, 0x0286); /* rbp at CFA - 16 */
        run_table();
        assert_true(ours.depth > 1);
    }
}

/* The rules for a code address are remembered. They must not be used after another module was loaded at this address. */
UNIT_TEST(kept_rules)
{
    if (HK_REG_LINK != 16)
        return;
    for (unsigned round = 0; round < 3; round++) {
        begin_table();
        made_put(&made, 3, 0x10060c); /* CFA = rbp + 16 */
        made_put(&made, 2, 0x0286);   /* rbp at CFA - 16 */
        if (round == 2)
            made_put(&made, 2, 0x1007); /* no return address */
        victim_size += round == 2;
        run_table();
        assert_int_equal(ours.depth > 1, round < 2);
    }
}

UNIT_TEST(by_frame_pointers)
{
    begin_table();
    made.used = 0; /* There is no table. */
    made_code = (struct hk_code){0, 0, NULL, NULL, NULL};
    call_victim();
    hk_os = real;
    assert_ptr_equal(ours.frames[0], callers_code);
    assert_true(ours.depth > 1);
}

/* Generated code that calls its first argument, and behind it generated code that calls its first argument with its second one. */
#if defined(__x86_64__)
static const unsigned char inner_code[] = "\x55\x48\x89\xe5\xff\xd7\x5d\xc3",
                           trampoline[] = "\x48\x83\xec\x08\xff\xd7\x48\x83\xc4\x08\xc3",
                           outer_code[] = "\x55\x48\x89\xe5\x48\x89\xf8\x48\x89\xf7\xff\xd0\x5d\xc3";
enum { OUTER_CALL = 10, OUTER_CALL_END = 12 };
#elif defined(__aarch64__)
static const unsigned char inner_code[] = "\xfd\x7b\xbf\xa9\xfd\x03\0\x91\0\0\x3f\xd6\xfd\x7b\xc1\xa8\xc0\x03\x5f\xd6",
                           outer_code[] = "\xfd\x7b\xbf\xa9\xfd\x03\0\x91\xe2\x03\0\xaa\xe0\x03\x01\xaa\x40\0\x3f\xd6"
                                          "\xfd\x7b\xc1\xa8\xc0\x03\x5f\xd6";
#define trampoline inner_code
enum { OUTER_CALL = 16, OUTER_CALL_END = 20 };
#else
static const unsigned char inner_code[1], trampoline[1], outer_code[1];
enum { OUTER_CALL, OUTER_CALL_END };
#endif
static unsigned char *generated;
static bool erases_call;

static void look_from_generated_code(void)
{
    if (erases_call)
        memset(generated + PAGE / 2 + OUTER_CALL, 0, OUTER_CALL_END - OUTER_CALL);
    hk_stack_capture(&ours, __builtin_return_address(0));
}

static void walk_through(const unsigned char *inner, size_t size)
{
    if (sizeof outer_code == 1)
        return;
    generated = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(generated, MAP_FAILED);
    memcpy(generated, inner, size);
    memcpy(generated + PAGE / 2, outer_code, sizeof outer_code);
    __builtin___clear_cache((char *)generated, (char *)generated + PAGE);
    void (*outer)(void *, void (*)(void)) = (void (*)(void *, void (*)(void)))(uintptr_t)(generated + PAGE / 2);
    outer(generated, look_from_generated_code);
    assert_in_range((uintptr_t)ours.frames[0], (uintptr_t)generated, (uintptr_t)generated + PAGE / 2 - 1);
    if (!erases_call) {
        assert_ptr_equal(ours.frames[1], generated + PAGE / 2 + OUTER_CALL_END);
        assert_true(ours.depth > 3);
    } else
        assert_int_equal(ours.depth, 1);
    munmap(generated, PAGE);
}

/* A walk passes generated code by its frame pointers, but only if a call ends where the return address points. */
UNIT_TEST(through_generated_code)
{
    for (int erases = 0; erases < 2; erases++) {
        erases_call = erases != 0;
        walk_through(inner_code, sizeof inner_code);
    }
    erases_call = false;
}

/* A perf trampoline of CPython 3.12 has no frame pointer, so that the frame pointer leads beyond the trampoline's caller. */
UNIT_TEST(through_a_trampoline) { walk_through(trampoline, sizeof trampoline); }

static bool nothing_readable(uintptr_t address) { return (void)address, false; }

UNIT_TEST(nothing_readable_at_all)
{
    hk_os.readable = nothing_readable;
    call_victim();
    assert_int_equal(ours.depth, 1);
    assert_ptr_equal(ours.frames[0], callers_code);
}

/* Tests modules that are loaded after the first look at the loader's list, and are then unloaded and loaded again. */
UNIT_TEST(modules_come_and_go)
{
    struct hk_code code;
    assert_true(hk_os.code_at((uintptr_t)go_down, &code));
    assert_true((uintptr_t)go_down - code.start < code.size && code.table != NULL);
    assert_false(hk_os.code_at((uintptr_t)&made, &code)); /* `made` is data. */
    assert_false(hk_os.code_at(8, &code));
    for (int round = 0; round < 3; round++) {
        void *module = dlopen("libutil.so.1", RTLD_NOW | RTLD_LOCAL),
             *resolver = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
        if (resolver == NULL)
            break;
        uintptr_t inside = (uintptr_t)dlsym(resolver, "ns_name_pton");
        if (inside == 0)
            inside = (uintptr_t)dlsym(resolver, "__dn_comp");
        assert_true(inside == 0 || hk_os.code_at(inside, &code));
        dlclose(resolver);
        if (module != NULL)
            dlclose(module);
        (void)hk_os.code_at(inside, &code); /* Either answer is right because the module may still be loaded. */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_backtrace),         cmocka_unit_test(through_a_handler),
        cmocka_unit_test(broken_frames),        cmocka_unit_test(broken_expressions),
        cmocka_unit_test(expressions),          cmocka_unit_test(kept_rules),
        cmocka_unit_test(by_frame_pointers),    cmocka_unit_test(through_generated_code),
        cmocka_unit_test(through_a_trampoline), cmocka_unit_test(nothing_readable_at_all),
        cmocka_unit_test(modules_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
