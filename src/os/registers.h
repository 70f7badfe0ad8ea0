/* Registers: lists the registers that a stack walk needs to find the caller of a function. Their numbers are those of unwind tables (DWARF).
 * Invariant  A stack walk keeps an array of HK_REGS registers, which begins with register number HK_REG_FIRST. HK_REG_CODE, HK_REG_STACK and
 *            HK_REG_FRAME are the indexes of the code address, the stack pointer and the frame pointer in the array. HK_REG_LINK is the index of the
 *            register whose rule finds the return address. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

/* HK_REGISTERS_HERE(at) stores the current registers into the array at `at`. HK_SIGNAL_RETURN holds the bytes of the instructions to which a signal
 * handler returns. If a stack walk reaches them, the registers of the interrupted code lie HK_SIGNAL_REGISTERS bytes above the stack pointer.
 * Register i of the array is word number HK_SIGNAL_ORDER[i] there. HK_CALL_ENDS_AT(code) is true if the bytes before `code` are a call instruction.
 * It reads up to HK_CALL_BYTES bytes there. HK_TRAMPOLINE_END holds the instructions after the call in a perf trampoline of CPython 3.12 and 3.13, which
 * has no frame pointer, and whose return address is the second word of the stack. On aarch64 the trampolines have frame pointers, and no code has these bytes. */
#if defined(__x86_64__)
enum { HK_REG_FIRST = 0, HK_REGS = 17, HK_REG_LINK = 16, HK_REG_CODE = 16, HK_REG_STACK = 7, HK_REG_FRAME = 6 };
#define HK_REGISTERS_HERE(at)                                                                                          \
    __asm__ volatile("movq %%rbx, 24(%0)\n\tmovq %%rbp, 48(%0)\n\tmovq %%rsp, 56(%0)\n\tmovq %%r12, 96(%0)\n\t"        \
                     "movq %%r13, 104(%0)\n\tmovq %%r14, 112(%0)\n\tmovq %%r15, 120(%0)\n\t"                           \
                     "leaq 0(%%rip), %%rax\n\tmovq %%rax, 128(%0)"                                                     \
                     :                                                                                                 \
                     : "r"(at)                                                                                         \
                     : "rax", "memory")
#define HK_TRAMPOLINE_END "\x48\x83\xc4\x08\xc3"          /* add $8, %rsp; ret */
#define HK_SIGNAL_RETURN "\x48\xc7\xc0\x0f\0\0\0\x0f\x05" /* mov $15, %rax; syscall */
#define HK_SIGNAL_REGISTERS offsetof(ucontext_t, uc_mcontext.gregs)
#define HK_SIGNAL_ORDER                                                                                                \
    REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, \
        REG_R13, REG_R14, REG_R15, REG_RIP
/* HK_UNSIGNED_CODE removes the signature (pointer authentication) that a processor may have put into the upper bits of a code address. */
#define HK_UNSIGNED_CODE(p) ((void)(p))
enum { HK_CALL_BYTES = 7 };
#define HK_CALLS_INDIRECTLY(code, bytes) ((code)[-(bytes)] == 0xff && ((code)[1 - (bytes)] & 0x38) == 0x10)
#define HK_CALL_ENDS_AT(code)                                                                                          \
    ((code)[-5] == 0xe8 || HK_CALLS_INDIRECTLY(code, 2) || HK_CALLS_INDIRECTLY(code, 3) ||                             \
     HK_CALLS_INDIRECTLY(code, 4) || HK_CALLS_INDIRECTLY(code, 6) || HK_CALLS_INDIRECTLY(code, 7))
#elif defined(__aarch64__)
/* The array holds x19 to x30, the stack pointer, and last the code address, which has no register number of its own. */
enum { HK_REG_FIRST = 19, HK_REGS = 14, HK_REG_LINK = 11, HK_REG_CODE = 13, HK_REG_STACK = 12, HK_REG_FRAME = 10 };
#define HK_REGISTERS_HERE(at)                                                                                          \
    __asm__ volatile("stp x19, x20, [%0]\n\tstp x21, x22, [%0, 16]\n\tstp x23, x24, [%0, 32]\n\t"                      \
                     "stp x25, x26, [%0, 48]\n\tstp x27, x28, [%0, 64]\n\tstp x29, x30, [%0, 80]\n\t"                  \
                     "mov x9, sp\n\tadr x10, .\n\tstp x9, x10, [%0, 96]"                                               \
                     :                                                                                                 \
                     : "r"(at)                                                                                         \
                     : "x9", "x10", "memory")
#define HK_TRAMPOLINE_END "\xff\xff\xff\xff"
#define HK_SIGNAL_RETURN "\x68\x11\x80\xd2\x01\0\0\xd4" /* mov x8, 139; svc 0 */
#define HK_SIGNAL_REGISTERS (sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext.regs[HK_REG_FIRST]))
#define HK_SIGNAL_ORDER 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
#define HK_UNSIGNED_CODE(p)                                                                                            \
    do {                                                                                                               \
        register uintptr_t x30 __asm__("x30") = (p);                                                                   \
        __asm__("hint 7" : "+r"(x30)); /* xpaclri */                                                                   \
        (p) = x30;                                                                                                     \
    } while (0)
enum { HK_CALL_BYTES = 4 };
#define HK_CALL_ENDS_AT(code) (((code)[-1] & 0xfc) == 0x94 || ((code)[-1] == 0xd6 && (code)[-2] == 0x3f)) /* bl, blr */
#endif
