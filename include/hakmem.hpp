// hakmem.hpp: HAKMEM for C++ containers. A program that preloads or links HAKMEM has its new and delete served without this header; it is for programs
// that want HAKMEM for some containers only, or the exact sizes of blocks told at each free.
//
//   std::vector<int, hakmem::allocator<int>> numbers;
//   std::pmr::map<int, std::pmr::string> names(hakmem::process_resource());
//
//   hakmem::heap tenant("tenant 7", 64 << 20);              // heaps of the program's own (hakmem.h has what holds for them)
//   hakmem::heap_resource resource(tenant);
//   std::pmr::vector<row> rows(&resource);
//   std::vector<int, hakmem::heap_allocator<int>> keys{hakmem::heap_allocator<int>(tenant)};
//
// What holds for all of it
//   Units      sizes and alignments are bytes; allocator<T> counts objects of T. Alignments are powers of two, of any size.
//   Blocks     belong to the heap of the process: what one allocator or resource gave, any other may take back, in any thread, and so may hak_free().
//              deallocate() passes the size and the alignment on (hak_free_sized), which HAKMEM checks where that costs nothing (docs/FREE.md).
//   Errors     a refusal (by the system, by HAKMEM_LIMIT) calls the new-handler, again and again while there is one, then throws std::bad_alloc, as
//              operator new does. A count of objects whose size overflows throws std::bad_array_new_length, and calls no handler. Compiled without
//              exceptions, either ends in std::terminate(). deallocate() never throws; an invalid pointer ends the program with one line on stderr.
//   Threads    any thread may use any of it at any time, without a lock of the caller's. No object here has a state, but for heap, which is moved and
//              destroyed as any object, and what refers to one.
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

// A heap of the program's own: hak_heap_create() to hak_heap_destroy(). What refers to it must not outlive it: destroy containers in it first, or leave
// them, and their blocks, to reset() or the destructor without a destructor of theirs.
class heap
{
  public:
    // std::bad_alloc if memory is refused. `name` is copied and may be null; `limit` is bytes of physical memory, 0: none.
    explicit heap(const char *name = nullptr, std::size_t limit = 0) : handle_(hak_heap_create(name, limit))
    {
        if (handle_ == nullptr)
            detail::refuse<std::bad_alloc>();
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    heap(heap &&other) noexcept : handle_(other.release()) {}
    heap &operator=(heap &&other) noexcept
    {
        heap(static_cast<heap &&>(other)).swap(*this);
        return *this;
    }
    ~heap()
    {
        if (handle_ != nullptr)
            (void)hak_heap_destroy(handle_);
    }

    void swap(heap &other) noexcept
    {
        hak_heap_t *const mine = handle_;
        handle_ = other.handle_;
        other.handle_ = mine;
    }
    // The caller destroys it from here on; null in a heap that was moved from.
    [[nodiscard]] hak_heap_t *release() noexcept
    {
        hak_heap_t *const mine = handle_;
        handle_ = nullptr;
        return mine;
    }
    [[nodiscard]] hak_heap_t *get() const noexcept { return handle_; }

    // Frees all blocks; no other thread may use the heap meanwhile.
    void reset() noexcept { (void)hak_heap_reset(handle_); }
    void set_limit(std::size_t limit) noexcept { (void)hak_heap_set_limit(handle_, limit); }
    [[nodiscard]] hak_heap_stats stats() const noexcept
    {
        hak_heap_stats figures = {};
        (void)hak_heap_get_stats(handle_, &figures, sizeof figures);
        return figures;
    }

  private:
    hak_heap_t *handle_;
};

namespace detail
{

// The limit of a heap is the program's own: no new-handler is called.
[[nodiscard]] inline void *allocate_in(hak_heap_t *heap, std::size_t size, std::size_t alignment)
{
    void *const block = alignment <= natural_alignment ? hak_heap_malloc(heap, size) : hak_heap_aligned_alloc(heap, alignment, size);
    if (block == nullptr)
        refuse<std::bad_alloc>();
    return block;
}

} // namespace detail

// An allocator for standard containers in a heap. Two are equal if their heap is the same. Containers take the heap along where they are moved or
// swapped; copies are made in the heap of the original.
template <class T> class heap_allocator
{
  public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    explicit heap_allocator(const heap &of) noexcept : handle_(of.get()) {}
    explicit heap_allocator(hak_heap_t *of) noexcept : handle_(of) {}
    template <class U> heap_allocator(const heap_allocator<U> &other) noexcept : handle_(other.get()) {} // NOLINT: containers convert it

    [[nodiscard]] T *allocate(size_type count)
    {
        if (count > std::numeric_limits<size_type>::max() / sizeof(T))
            detail::refuse<std::bad_array_new_length>();
        return static_cast<T *>(detail::allocate_in(handle_, count * sizeof(T), alignof(T)));
    }
    void deallocate(T *objects, size_type) noexcept { hak_heap_free(handle_, objects); }
    [[nodiscard]] hak_heap_t *get() const noexcept { return handle_; }

  private:
    hak_heap_t *handle_;
};

template <class T, class U> bool operator==(const heap_allocator<T> &a, const heap_allocator<U> &b) noexcept { return a.get() == b.get(); }
template <class T, class U> bool operator!=(const heap_allocator<T> &a, const heap_allocator<U> &b) noexcept { return a.get() != b.get(); }

#ifdef __cpp_lib_memory_resource

// A heap as a memory resource. Two are equal if their heap is the same; without RTTI, each is equal to itself only.
class heap_resource final : public std::pmr::memory_resource
{
  public:
    explicit heap_resource(const heap &of) noexcept : handle_(of.get()) {}
    explicit heap_resource(hak_heap_t *of) noexcept : handle_(of) {}
    [[nodiscard]] hak_heap_t *get() const noexcept { return handle_; }

  private:
    void *do_allocate(std::size_t size, std::size_t alignment) override { return detail::allocate_in(handle_, size, alignment); }
    void do_deallocate(void *block, std::size_t, std::size_t) noexcept override { hak_heap_free(handle_, block); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#ifdef __cpp_rtti
        const heap_resource *const same = dynamic_cast<const heap_resource *>(&other);
        return same != nullptr && same->handle_ == handle_;
#else
        return this == &other;
#endif
    }

    hak_heap_t *handle_;
};

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
