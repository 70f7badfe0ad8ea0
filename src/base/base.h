/* Base: defines macros and types that all files of HAKMEM use. No code in src/base depends on blocks, slabs or heaps. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef HK_DEBUG
#define HK_DEBUG 0
#endif

#ifndef HK_VERSION
#define HK_VERSION "unknown" /* the build normally defines HK_VERSION */
#endif

/* If HK_OVERRIDE is 1 (default), the library exports malloc and its family. If it is 0, a program can use HAKMEM beside another malloc. */
#ifndef HK_OVERRIDE
#define HK_OVERRIDE 1
#endif

/* HK_TLS_MODEL selects how thread-local storage is accessed. With initial-exec (default), an access takes two instructions, but HAKMEM must be loaded
 * at program start. With dlopen(), HAKMEM needs local-dynamic, because glibc then has little static thread-local storage left, and musl none. */
#ifndef HK_TLS_MODEL
#define HK_TLS_MODEL "initial-exec"
#endif

/* HK_ROOM marks a function that only one folder uses. The unity build (all files in one) makes it static, so that compilers can inline it. */
#ifdef HK_UNITY
#define HK_ROOM static
#else
#define HK_ROOM
#endif

#define HK_EXPORT __attribute__((visibility("default")))
/* HK_REPLACES(type, name, parameters, own) exports the function `own` also as `name`, which is a name of the C library.
 *
 * HK_STANDS_BEFORE begins the definition of a wrapper of a function of the C library. HAKMEM exports the wrapper under the function's name. The
 * export is weak, so that a program may define a function of this name itself.
 *
 * HK_PROCESS(type, own, parameters, name, known) declares `own` for the function that the process uses as `name`. The loader decides whether that
 * function is HAKMEM's or the program's own (cmake/process_malloc.list). If HAKMEM does not export `name`, `own` is the function `known`. */
#if HK_OVERRIDE
#define HK_REPLACES(type, name, parameters, own)                                                                       \
    HK_EXPORT type name parameters __attribute__((alias(#own))) HK_SAME_ATTRIBUTES(own);
#define HK_STANDS_BEFORE(type, name, parameters)                                                                       \
    HK_EXPORT type hk_before_##name parameters __asm__(#name) __attribute__((weak));                                   \
    type hk_before_##name parameters
#define HK_PROCESS(type, own, parameters, name, known) extern type own parameters __asm__(#name) HK_NOPLT;
#else
#define HK_REPLACES(type, name, parameters, own)
#define HK_STANDS_BEFORE(type, name, parameters) static __attribute__((unused)) type hk_before_##name parameters
#define HK_PROCESS(type, own, parameters, name, known) extern type own parameters __asm__(#known);
#endif
/* HK_REPLACES_IN_GLIBC exports a function under a private name of glibc. With musl it does nothing, because musl uses some of these names itself. */
#ifdef __GLIBC__
#define HK_REPLACES_IN_GLIBC HK_REPLACES
#else
#define HK_REPLACES_IN_GLIBC(type, name, parameters, own)
#endif

/* HK_HARDENED_LIBRARY is 1 in libhakmem-hardened.so, which exports checked memory functions (src/checked). HAKMEM's own calls must not be checked.
 * These declarations therefore rename the functions that HAKMEM calls. The calls that gcc generates to copy structs also use the new names. */
#ifndef HK_HARDENED_LIBRARY
#define HK_HARDENED_LIBRARY 0
#endif
#if HK_HARDENED_LIBRARY
void *memcpy(void *restrict to, const void *restrict from, size_t bytes) __asm__("hk_plain_move");
void *memmove(void *to, const void *from, size_t bytes) __asm__("hk_plain_move");
void *memset(void *to, int value, size_t bytes) __asm__("hk_plain_set");
#endif
/* HK_CHECKED(type, name, parameters) begins the definition of a function that the library exports as `name`, and that HAKMEM itself does not call. */
#define HK_CHECKED(type, name, parameters)                                                                             \
    HK_EXPORT type hk_checked_##name parameters __asm__(#name);                                                        \
    type hk_checked_##name parameters
#define HK_IN_LIST(...) __VA_ARGS__ /* removes the parentheses of a list: (HK_IN_LIST (a, b), c) is (a, b, c) */

/* `HK_BY_JUMP return f(x);` compiles the call of f to a jump, so that HK_CALLER has the same value in f as in this function. gcc before 15 has no
 * attribute musttail, but its optimization of sibling calls also makes jumps of these calls. tests/process/check_jumps.py verifies the jumps. */
/* Marks an object to which no code refers. Linkers that remove unused sections (--gc-sections, as in Rust) must keep the object. */
#if __has_attribute(retain)
#define HK_RETAIN __attribute__((used, retain))
#else
#define HK_RETAIN __attribute__((used))
#endif
#if __has_attribute(musttail)
#define HK_BY_JUMP __attribute__((musttail))
#else
#define HK_BY_JUMP
#endif

/* HK_ADDRESS_OF(f) is the address of the function f. HK_FORGET hides from compilers that this address belongs to f. Otherwise clang would merge two
 * declarations of one symbol and call HAKMEM's function, and compilers would assume that two symbols have different addresses. HK_WHOEVER(f) is the
 * address of a function that HK_PROCESS declares. The address is loaded directly, because the PLT would add a jump. */
#define HK_ADDRESS_OF(f)                                                                                               \
    (__extension__({                                                                                                   \
        __typeof__(&(f)) of_unknown_origin = (f);                                                                      \
        HK_FORGET(of_unknown_origin);                                                                                  \
        of_unknown_origin;                                                                                             \
    }))
#ifdef __clang__
#define HK_SAME_ATTRIBUTES(own)
#define HK_NOPLT
#define HK_WHOEVER(f) HK_ADDRESS_OF(f)
#else
#define HK_SAME_ATTRIBUTES(own) __attribute__((copy(own)))
#define HK_NOPLT __attribute__((noplt))
#define HK_WHOEVER(f) (f)
#endif

/* An integer of this type can hold the product of two 64-bit words. */
__extension__ typedef unsigned __int128 hk_wide;

#define HK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HK_COLD __attribute__((noinline, cold))
/* HK_COLD_DATA marks zeroed data that few programs touch. The linker places it after all other data, so that programs touch fewer pages of data. */
#define HK_COLD_DATA __attribute__((section(".bss.cold")))
/* HK_READS_SHARED_WORD makes the thread sanitizer ignore a function that reads a word while other threads write other bits of the word. */
#define HK_READS_SHARED_WORD __attribute__((no_sanitize("thread")))
#define HK_NOINLINE __attribute__((noinline))
#define HK_INLINE static inline __attribute__((always_inline))
#define HK_ALIGNED(n) __attribute__((aligned(n)))
#define HK_CACHE_LINE 64
#define HK_KIB ((size_t)1024)
#define HK_MIB (HK_KIB * 1024)
#define HK_GIB (HK_MIB * 1024)

/* HK_FORGET hides from the compiler how x was computed. Otherwise it would spend instructions on sums that a memory access computes for free. */
#define HK_FORGET(x) __asm__ volatile("" : "+r"(x))

/* HK_LOAD_SETTLED reads a word that is written only once, early in the program. The load is plain, so that compilers fold it into the instruction
 * that uses the word. On x86-64, HK_READ_NO_EARLIER() after the load makes the load an acquire load. The thread sanitizer needs an atomic load.
 *
 * HK_FENCE is a memory fence for data that is partly not atomic. As with a seqlock, a reader uses the words that it has read only if no writer has
 * changed one of them during the read. The thread sanitizer does not support fences, so its build has none. */
#if defined(__SANITIZE_THREAD__)
#define HK_LOAD_SETTLED(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define HK_FENCE(order) ((void)(order))
#else
#define HK_LOAD_SETTLED(x) (x)
#define HK_FENCE(order) atomic_thread_fence(order)
#endif

/* HK_READ_NO_EARLIER keeps the compiler from moving later reads to an earlier place, and costs no instruction. On aarch64, the processor may still
 * reorder the reads. Such a reordering does no harm after the read of a settled word. A thread gets a tcache, or a block in the window
 * (span/page_map.h), only by a synchronization that comes after the write of the settled word (docs/PROOFS.md). */
#define HK_READ_NO_EARLIER() __asm__ volatile("" ::: "memory")

/* HK_PAIRS is 1 if one instruction can load two adjacent words. Such an instruction needs assembly, because compilers do not combine two loads with a
 * branch between them. HK_NEAR sets p to the address of a variable. One instruction is enough, because the variable is aligned to HK_NEAR_ALIGN. */
/* HK_USER_ADDRESS_BITS is the number of bits in addresses that the system chooses. On aarch64, a program may request longer addresses. */
/* HK_UNTAGGED removes the tag (memory tagging) that a program may have put into the top byte of an address, if the processor ignores that byte. */
/* HK_SPIN_HINT tells the processor that the calling thread waits in a loop. On aarch64, the hint is isb, because yield does nothing on most
 * processors. isb takes as long as pause on x86. HK_AS_RESULT keeps x in the register of a function's result, so that returning x needs no move. */
#if defined(__aarch64__)
#define HK_USER_ADDRESS_BITS 48
#define HK_UNTAGGED(p) ((void *)((uintptr_t)(p)&UINTPTR_MAX >> 8))
#define HK_SPIN_HINT() __asm__ volatile("isb" ::: "memory")
#define HK_AS_RESULT(x) ((void)0)
#define HK_PAIRS 1
#define HK_NEAR_ALIGN 4096
#define HK_THREAD_STATE_ALIGN 2048
#define HK_NEAR(p, variable) __asm__("adrp %0, %1" : "=r"(p) : "S"(&(variable)))
#ifdef __clang__
#define HK_OF_PAIR "Q"
#define HK_UNLESS_BELOW_AND_UNLIKE(n, bound, x, y, label)                                                              \
    __asm__ goto("cmp %0, %1\n\tccmp %2, %3, #4, lo\n\tb.eq %l4" : : "r"(n), "I"(bound), "r"(x), "r"(y) : "cc" : label)
#else
#define HK_OF_PAIR "Ump"
#define HK_LOAD_BOTH(x, y, first, second) HK_LOAD_PAIR(x, y, &(first))
#endif
struct hk_pair {
    uint64_t first, second;
} __attribute__((may_alias));
#define HK_LOAD_PAIR(x, y, at)                                                                                         \
    __asm__("ldp %0, %1, %2" : "=r"(x), "=r"(y) : HK_OF_PAIR(*(const struct hk_pair *)(const void *)(at)))
#define HK_THREAD_POINTER() ((uintptr_t)__builtin_thread_pointer())
#else
#define HK_USER_ADDRESS_BITS 47
#define HK_UNTAGGED(p) (p)
#define HK_SPIN_HINT() __builtin_ia32_pause()
#define HK_AS_RESULT(x) __asm__("" : "+a"(x))
#define HK_PAIRS 0
#define HK_NEAR_ALIGN HK_CACHE_LINE
#define HK_THREAD_STATE_ALIGN HK_CACHE_LINE
#define HK_NEAR(p, variable) ((p) = &(variable))
#define HK_LOAD_PAIR(x, y, at) ((void)(at), (x) = 0, (y) = 0)
#define HK_THREAD_POINTER() ((uintptr_t)0)
#endif

/* HK_LOAD_BOTH loads two adjacent words without a branch between the loads. This version is plain C. clang combines the two loads itself, and would
 * need one more instruction for an assembly operand with an offset. */
#ifndef HK_LOAD_BOTH
#define HK_LOAD_BOTH(x, y, first, second) ((x) = (__typeof__(x))(first), (y) = (__typeof__(y))(second))
#endif

/* HK_UNLESS_BELOW_AND_UNLIKE jumps to the label if n >= bound or x == y. On aarch64, clang would compile this C code to two branches. */
#ifndef HK_UNLESS_BELOW_AND_UNLIKE
#define HK_UNLESS_BELOW_AND_UNLIKE(n, bound, x, y, label)                                                              \
    do {                                                                                                               \
        if (HK_UNLIKELY(((n) >= (bound)) | ((x) == (y))))                                                              \
            goto label;                                                                                                \
    } while (0)
#endif

#define hk_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define hk_load(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define hk_load_acquire(x) atomic_load_explicit(&(x), memory_order_acquire)
#define hk_store(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)
#define hk_store_release(x, v) atomic_store_explicit(&(x), (v), memory_order_release)
#define hk_add(x, v) atomic_fetch_add_explicit(&(x), (v), memory_order_relaxed)
#define hk_sub(x, v) atomic_fetch_sub_explicit(&(x), (v), memory_order_relaxed)
/* Stores v if x equals *expected. Otherwise sets *expected to x without an order, and returns false. */
#define hk_replace(x, expected, v, order)                                                                              \
    atomic_compare_exchange_strong_explicit(&(x), (expected), (v), (order), memory_order_relaxed)
