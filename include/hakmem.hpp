// hakmem.hpp: HAKMEM for C++ containers. A program that preloads or links HAKMEM has its new and delete served without this header; it is for programs
// that want HAKMEM for some containers only, or the exact sizes of blocks told at each free.
//
//   std::vector<int, hakmem::allocator<int>> numbers;
//   std::pmr::map<int, std::pmr::string> names(hakmem::process_resource());
//
// What holds for all of it
//   Units      sizes and alignments are bytes; allocator<T> counts objects of T. Alignments are powers of two, of any size.
//   Blocks     belong to the heap of the process: what one allocator or resource gave, any other may take back, in any thread, and so may hak_free().
//              deallocate() passes the size and the alignment on (hak_free_sized), which HAKMEM checks where that costs nothing (docs/FREE.md).
//   Errors     a refusal (by the system, by HAKMEM_LIMIT) calls the new-handler, again and again while there is one, then throws std::bad_alloc, as
//              operator new does. A count of objects whose size overflows throws std::bad_array_new_length, and calls no handler. Compiled without
//              exceptions, either ends in std::terminate(). deallocate() never throws; an invalid pointer ends the program with one line on stderr.
//   Threads    any thread may use any of it at any time, without a lock of the caller's. No object here has a state.
//   Moments    before main and after it, also from constructors and destructors of static objects in any order; in the child of a fork.
//   Signals    not from a signal handler.
//
// Compilers: C++17 on, with or without exceptions and RTTI. The resource needs <memory_resource>; allocator<T> does not. In C++20 containers with an
// allocator<T> may live in constant expressions.
#ifndef HAKMEM_HPP
#define HAKMEM_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "hakmem.hpp needs C++17"
#endif

#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

#include <hakmem.h>

#if defined(__cpp_lib_is_constant_evaluated) && defined(__cpp_lib_constexpr_dynamic_alloc)
#define HAK_CONSTEXPR20_ constexpr
#else
#define HAK_CONSTEXPR20_
#endif

namespace hakmem
{

namespace detail
{

template <class Exception> [[noreturn]] inline void refuse()
{
#ifdef __cpp_exceptions
    throw Exception();
#else
    std::terminate();
#endif
}

// Blocks of malloc are aligned to so much.
inline constexpr std::size_t natural_alignment = 16;

[[nodiscard]] inline void *attempt(std::size_t size, std::size_t alignment) noexcept
{
    return alignment <= natural_alignment ? hak_malloc(size) : hak_aligned_alloc(alignment, size);
}

[[nodiscard]] inline void *allocate(std::size_t size, std::size_t alignment)
{
    for (;;) {
        if (void *const block = attempt(size, alignment))
            return block;
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr)
            refuse<std::bad_alloc>();
        handler();
    }
}

inline void deallocate(void *block, std::size_t size, std::size_t alignment) noexcept
{
    if (alignment <= natural_alignment)
        hak_free_sized(block, size);
    else
        hak_free_aligned_sized(block, alignment, size);
}

} // namespace detail

// An allocator for standard containers. All are equal, of whatever T.
template <class T> class allocator
{
  public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_move_assignment = std::true_type;
    using is_always_equal = std::true_type;

    constexpr allocator() noexcept = default;
    constexpr allocator(const allocator &) noexcept = default;
    template <class U> constexpr allocator(const allocator<U> &) noexcept {} // NOLINT: containers convert it
    constexpr allocator &operator=(const allocator &) noexcept = default;
    HAK_CONSTEXPR20_ ~allocator() = default;

    // Memory for `count` objects, none of them constructed. 0 gives a unique pointer that has to be freed.
    [[nodiscard]] HAK_CONSTEXPR20_ T *allocate(size_type count)
    {
#if defined(__cpp_lib_is_constant_evaluated) && defined(__cpp_lib_constexpr_dynamic_alloc)
        if (std::is_constant_evaluated())
            return std::allocator<T>().allocate(count);
#endif
        if (count > std::numeric_limits<size_type>::max() / sizeof(T))
            detail::refuse<std::bad_array_new_length>();
        return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
    }

    // `objects` is from allocate(count) of any hakmem::allocator<T>, with the same count.
    HAK_CONSTEXPR20_ void deallocate(T *objects, size_type count) noexcept
    {
#if defined(__cpp_lib_is_constant_evaluated) && defined(__cpp_lib_constexpr_dynamic_alloc)
        if (std::is_constant_evaluated())
            return std::allocator<T>().deallocate(objects, count);
#endif
        detail::deallocate(objects, count * sizeof(T), alignof(T));
    }
};

template <class T, class U> constexpr bool operator==(const allocator<T> &, const allocator<U> &) noexcept { return true; }
template <class T, class U> constexpr bool operator!=(const allocator<T> &, const allocator<U> &) noexcept { return false; }

#ifdef __cpp_lib_memory_resource

// The heap of the process as a memory resource. Every two of them are equal; without RTTI, each is equal to itself only.
class memory_resource final : public std::pmr::memory_resource
{
  public:
    memory_resource() = default;

  private:
    void *do_allocate(std::size_t size, std::size_t alignment) override { return detail::allocate(size, alignment); }

    void do_deallocate(void *block, std::size_t size, std::size_t alignment) noexcept override
    {
        detail::deallocate(block, size, alignment);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#ifdef __cpp_rtti
        return this == &other || dynamic_cast<const memory_resource *>(&other) != nullptr;
#else
        return this == &other;
#endif
    }
};

namespace detail
{

// Never destroyed: containers of static storage use it after main.
union lasting_resource {
    memory_resource resource;
    lasting_resource() noexcept : resource() {}
    ~lasting_resource() {}
};

} // namespace detail

// The one that needs no object of the caller's: the same in each translation unit, until the process ends.
// std::pmr::set_default_resource(hakmem::process_resource()) makes it the default.
[[nodiscard]] inline memory_resource *process_resource() noexcept
{
    static detail::lasting_resource lasting;
    return &lasting.resource;
}

#endif // __cpp_lib_memory_resource

} // namespace hakmem

#undef HAK_CONSTEXPR20_

#endif
