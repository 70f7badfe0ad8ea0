/* Base: macros and types that every room uses. Nothing in this room knows what an allocator is. */
#ifndef HK_BASE_H
#define HK_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef HK_DEBUG
#define HK_DEBUG 0
#endif

#ifndef HK_VERSION
#define HK_VERSION "unknown" /* the build defines it */
#endif

/* 1 (default): the library also exports malloc and its family. 0: only the hak_ names, beside another malloc. */
#ifndef HK_OVERRIDE
#define HK_OVERRIDE 1
#endif

/* initial-exec (default): two instructions, in a library that is loaded at the start. local-dynamic: for one that is opened later, which
 * finds little room for static thread-local storage in glibc, and none in musl. */
#ifndef HK_TLS_MODEL
#define HK_TLS_MODEL "initial-exec"
#endif

/* HK_ROOM: for the files of one room only. Static in the unity build: the compiler then inlines it as it would a file's own. */
#ifdef HK_UNITY
#define HK_ROOM static
#else
#define HK_ROOM
#endif

#define HK_EXPORT __attribute__((visibility("default")))
/* HK_REPLACES(type, name, parameters, own): exports `own` also under the C library's name. */
#ifdef __clang__
#define HK_SAME_ATTRIBUTES(own)
#else
#define HK_SAME_ATTRIBUTES(own) __attribute__((copy(own)))
#endif
#if HK_OVERRIDE
#define HK_REPLACES(type, name, parameters, own)                                                                       \
    HK_EXPORT type name parameters __attribute__((alias(#own))) HK_SAME_ATTRIBUTES(own);
#else
#define HK_REPLACES(type, name, parameters, own)
#endif
/* The same for a private name of glibc's. musl has functions of such names too: its own, for blocks that never leave it. */
#ifdef __GLIBC__
#define HK_REPLACES_IN_GLIBC HK_REPLACES
#else
#define HK_REPLACES_IN_GLIBC(type, name, parameters, own)
#endif
/* The same for a function that HAKMEM intercepts and forwards to the C library. Weak: a program may define its own. */
#if HK_OVERRIDE
#define HK_STANDS_BEFORE(type, name, parameters, own) HK_EXPORT type name parameters __attribute__((weak, alias(#own)));
#else
#define HK_STANDS_BEFORE(type, name, parameters, own)
#endif

/* 1: libhakmem-hardened.so, which has the room `checked`. What HAKMEM itself copies passes by the checks; gcc's copies of structs too. */
#ifndef HK_HARDENED_LIBRARY
#define HK_HARDENED_LIBRARY 0
#endif
#if HK_HARDENED_LIBRARY
void *memcpy(void *restrict to, const void *restrict from, size_t bytes) __asm__("hk_plain_move");
void *memmove(void *to, const void *from, size_t bytes) __asm__("hk_plain_move");
void *memset(void *to, int value, size_t bytes) __asm__("hk_plain_set");
#endif
/* HK_CHECKED(type, own, parameters, name): declares `own`, which is exported as `name` and not under its own name. */
#define HK_CHECKED(type, own, parameters, name) HK_EXPORT type own parameters __asm__(#name);

/* HK_BY_JUMP return f(x): a tail call; f returns to our caller and sees our return address. gcc before 15 has no such
 * attribute, but makes tail calls where it can (-foptimize-sibling-calls); tests/process/check_jumps.py verifies it. */
#if defined(__has_attribute)
#if __has_attribute(musttail)
#define HK_BY_JUMP __attribute__((musttail))
#endif
#endif
#ifndef HK_BY_JUMP
#define HK_BY_JUMP
#endif

/* HK_WHOEVER(f): the address of a function declared by HK_PROCESS below, loaded without a PLT, which would add a jump. clang merges two
 * declarations of one symbol and would call HAKMEM's definition: HK_FORGET hides the origin of the address. */
#ifdef __clang__
#define HK_NOPLT
#define HK_WHOEVER(f)                                                                                                  \
    (__extension__({                                                                                                   \
        __typeof__(&(f)) whoever = (f);                                                                                \
        HK_FORGET(whoever);                                                                                            \
        whoever;                                                                                                       \
    }))
#else
#define HK_NOPLT __attribute__((noplt))
#define HK_WHOEVER(f) (f)
#endif
/* HK_PROCESS(type, own, parameters, name, known): declares `own` as the symbol `name` that the loader resolves for the process: HAKMEM's or the
 * program's own (cmake/process_malloc.list). Where HAKMEM does not export `name`, `own` is `known`. */
#if HK_OVERRIDE
#define HK_PROCESS(type, own, parameters, name, known) extern type own parameters __asm__(#name) HK_NOPLT;
#else
#define HK_PROCESS(type, own, parameters, name, known) extern type own parameters __asm__(#known);
#endif

/* The product of two 64-bit words. */
__extension__ typedef unsigned __int128 hk_wide;

#define HK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HK_COLD __attribute__((noinline, cold))
/* Zeroed data that few programs touch: placed after all other data, so that touched data shares pages. */
#define HK_COLD_DATA __attribute__((section(".bss.cold")))
/* For a function that reads a word of which other threads may write other bits meanwhile. */
#define HK_READS_SHARED_WORD __attribute__((no_sanitize("thread")))
#define HK_NOINLINE __attribute__((noinline))
#define HK_INLINE static inline __attribute__((always_inline))
#define HK_ALIGNED(n) __attribute__((aligned(n)))
#define HK_CACHE_LINE 64
#define HK_KIB ((size_t)1024)
#define HK_MIB (HK_KIB * 1024)
#define HK_GIB (HK_MIB * 1024)

/* Hides the origin of x from the compiler, which then does not precompute in a register what each use gets for free in
 * its addressing mode. Costs no instruction. */
#define HK_FORGET(x) __asm__ volatile("" : "+r"(x))

/* A word that is written once, early: a plain load, which compilers fold into the instruction that uses it. With HK_READ_NO_EARLIER() after it, it
 * is an acquire load, as every load on x86-64 is; the thread sanitizer needs an atomic. */
#if defined(__SANITIZE_THREAD__)
#define HK_LOAD_SETTLED(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#else
#define HK_LOAD_SETTLED(x) (x)
#endif

/* A fence between accesses of which some are not atomic: a sequence of readings, of which one is believed if nothing changed. The thread
 * sanitizer knows no fences. */
#if defined(__SANITIZE_THREAD__)
#define HK_FENCE(order) ((void)(order))
#else
#define HK_FENCE(order) atomic_thread_fence(order)
#endif

/* A compiler barrier: later reads do not move before it. Costs no instruction. On a processor that reorders reads (aarch64) it orders
 * nothing for other threads: where it stands behind a settled word, a thread that has what the word is about (a block of the window, a
 * cache) has it by a synchronization that came after the word was written (docs/PROOFS.md). */
#define HK_READ_NO_EARLIER() __asm__ volatile("" ::: "memory")

/* HK_PAIRS: one instruction loads or stores two adjacent words, and compilers do not find that by themselves where a branch lies in
 * between. HK_FOR_PAIRS(a, b, c, d) puts fields into the order in which the hit path needs two at a time. HK_NEAR: the address of a
 * variable that is HK_PAGE_ALIGNED takes one instruction instead of two. */
#if defined(__aarch64__)
#define HK_PAIRS 1
#define HK_FOR_PAIRS(a, b, c, d) c a b d
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
#define HK_STORE_PAIR(at, x, y)                                                                                        \
    __asm__("stp %1, %2, %0" : "=" HK_OF_PAIR(*(struct hk_pair *)(void *)(at)) : "r"(x), "r"(y))
#define HK_THREAD_POINTER() ((uintptr_t)__builtin_thread_pointer())
#else
#define HK_PAIRS 0
#define HK_FOR_PAIRS(a, b, c, d) a b c d
#define HK_NEAR_ALIGN HK_CACHE_LINE
#define HK_THREAD_STATE_ALIGN HK_CACHE_LINE
#define HK_NEAR(p, variable) ((p) = &(variable))
#define HK_LOAD_PAIR(x, y, at) ((void)(at), (x) = 0, (y) = 0)
#define HK_STORE_PAIR(at, x, y) ((void)(at), (void)(x), (void)(y))
#define HK_THREAD_POINTER() ((uintptr_t)0)
#endif

/* Two adjacent words, where no branch lies in between: clang finds the pair itself, and an operand of assembly with an offset would cost it
 * an instruction. */
#ifndef HK_LOAD_BOTH
#define HK_LOAD_BOTH(x, y, first, second) ((x) = (__typeof__(x))(first), (y) = (__typeof__(y))(second))
#endif

/* Goes to the label unless n < bound and x != y: one branch, which clang makes two of by itself. */
#ifndef HK_UNLESS_BELOW_AND_UNLIKE
#define HK_UNLESS_BELOW_AND_UNLIKE(n, bound, x, y, label)                                                              \
    do {                                                                                                               \
        if (HK_UNLIKELY(((n) >= (bound)) | ((x) == (y))))                                                              \
            goto label;                                                                                                \
    } while (0)
#endif

/* Addresses of user memory without a hint to the system. aarch64 has larger ones for those who ask for them. */
#if defined(__aarch64__)
#define HK_USER_ADDRESS_BITS 48
#else
#define HK_USER_ADDRESS_BITS 47
#endif

/* The address without the tag that a program may have put into its top byte (top byte ignore, memory tagging), where the processor
 * ignores that byte. */
#if defined(__aarch64__)
#define HK_UNTAGGED(p) ((void *)((uintptr_t)(p)&UINTPTR_MAX >> 8))
#else
#define HK_UNTAGGED(p) (p)
#endif

/* Tells the processor that this is a spin loop. */
#if defined(__x86_64__)
#define HK_SPIN_HINT() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define HK_SPIN_HINT()                                                                                                 \
    __asm__ volatile("isb" ::: "memory") /* yield does nothing on most of them; this takes as long as a pause */
#else
#define HK_SPIN_HINT() ((void)0)
#endif

/* Keeps x in the result register, so that returning it needs no move. */
#if defined(__x86_64__)
#define HK_AS_RESULT(x) __asm__("" : "+a"(x))
#else
#define HK_AS_RESULT(x) ((void)0)
#endif

#define hk_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define hk_load(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define hk_load_acquire(x) atomic_load_explicit(&(x), memory_order_acquire)
#define hk_store(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)
#define hk_store_release(x, v) atomic_store_explicit(&(x), (v), memory_order_release)
#define hk_add(x, v) atomic_fetch_add_explicit(&(x), (v), memory_order_relaxed)
#define hk_sub(x, v) atomic_fetch_sub_explicit(&(x), (v), memory_order_relaxed)

#endif
