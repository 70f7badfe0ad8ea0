// hakmem.hpp provides HAKMEM for C++ containers. A program that preloads or links HAKMEM has its new and delete served without this header. The
// header is for programs that want HAKMEM only for some containers, or that want to pass the exact size of the block to each free.
//
//   std::vector<int, hakmem::allocator<int>> numbers;
//   std::pmr::map<int, std::pmr::string> names(hakmem::process_resource());
//
//   hakmem::heap tenant("tenant 7", 64 << 20);              // a heap that the program creates (hakmem.h says what holds for it)
//   hakmem::heap_resource resource(tenant);
//   std::pmr::vector<row> rows(&resource);
//   std::vector<int, hakmem::heap_allocator<int>> keys{hakmem::heap_allocator<int>(tenant)};
//
// The following holds for the whole header.
//   Units      Sizes and alignments are in bytes. allocator<T> counts objects of T. An alignment is any power of two.
//   Blocks     The block of any allocator or resource may be freed by any other, or by hak_free(), in any thread. Only blocks of heap_allocator and
//              heap_resource lie in a heap of the program. deallocate() passes the size to HAKMEM, which may check it (docs/FREE.md).
//   Errors     If the system or HAKMEM_LIMIT refuses memory, the new-handler is called and the allocation is tried again, as in operator new. If
//              no handler is set, std::bad_alloc is thrown. If the size of a number of objects overflows, std::bad_array_new_length is thrown, and no
//              handler is called. In a program without exceptions, std::terminate() is called instead. deallocate() never throws. An invalid pointer
//              ends the program with one line on stderr.
//   Threads    Any thread may allocate and free at any time, and the caller needs no lock. But a hakmem::heap object must not be moved, swapped or
//              destroyed while another thread uses it.
//   Moments    Everything may be used before main and after main, also in constructors and destructors of static objects in any order, and in the
//              child of a fork.
//   Signals    Nothing may be used in a signal handler.
//
// The header is for compilers of C++17 and later, with or without exceptions and RTTI. The resources need <memory_resource>, but allocator<T> does
// not. In C++20, containers with an allocator<T> may be used in constant expressions.
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

// Blocks of malloc are aligned to this many bytes.
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

// An allocator for standard containers. Any two of these allocators are equal.
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
    template <class U> constexpr allocator(const allocator<U> &) noexcept {} // NOLINT because containers convert it
    constexpr allocator &operator=(const allocator &) noexcept = default;
    HAK_CONSTEXPR20_ ~allocator() = default;

    // Returns memory for `count` objects, and constructs none of them. If `count` is 0, returns a unique pointer that must be freed.
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

    // Frees memory that allocate(count) of any hakmem::allocator<T> has returned. `count` must be the same.
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

// A heap that the program creates (hakmem.h). After reset() or the destructor of the heap, its blocks are free, and containers in it must not be used
// any more. Destructors of the objects in these containers are called only if the program destroys the containers before.
class heap
{
  public:
    // Throws std::bad_alloc if memory is refused. `name` is copied, and may be null. `limit` is in bytes of physical memory. 0 means no limit.
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
    // Gives up the handle and returns it. The caller must pass it to hak_heap_destroy(). The handle is null if this object was moved from.
    [[nodiscard]] hak_heap_t *release() noexcept
    {
        hak_heap_t *const mine = handle_;
        handle_ = nullptr;
        return mine;
    }
    [[nodiscard]] hak_heap_t *get() const noexcept { return handle_; }

    // Frees all blocks of the heap. No other thread may use the heap during the call.
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

// Returns a block of the heap, or throws std::bad_alloc. Calls no new-handler, because the program itself has set the limit of the heap.
[[nodiscard]] inline void *allocate_in(hak_heap_t *heap, std::size_t size, std::size_t alignment)
{
    void *const block = alignment <= natural_alignment ? hak_heap_malloc(heap, size) : hak_heap_aligned_alloc(heap, alignment, size);
    if (block == nullptr)
        refuse<std::bad_alloc>();
    return block;
}

} // namespace detail

// An allocator for standard containers in a heap. Two allocators are equal if they have the same heap. If a container is moved or swapped, its blocks
// stay in their heap. A copy of a container is made in the heap of the original.
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
    template <class U> heap_allocator(const heap_allocator<U> &other) noexcept : handle_(other.get()) {} // NOLINT because containers convert it

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

// A memory resource that allocates from a heap. Two resources are equal if they have the same heap. Without RTTI, a resource is equal only to itself.
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

// A memory resource that allocates like malloc. Any two of these resources are equal. Without RTTI, a resource is equal only to itself.
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

// The resource is never destroyed, because containers with static storage use it after main.
union lasting_resource {
    memory_resource resource;
    lasting_resource() noexcept : resource() {}
    ~lasting_resource() {}
};

} // namespace detail

// Returns a memory resource that all parts of the program share, and that exists until the process ends.
// std::pmr::set_default_resource(hakmem::process_resource()) makes it the default of std::pmr containers.
[[nodiscard]] inline memory_resource *process_resource() noexcept
{
    static detail::lasting_resource lasting;
    return &lasting.resource;
}

#endif // __cpp_lib_memory_resource

} // namespace hakmem

#undef HAK_CONSTEXPR20_

#endif
