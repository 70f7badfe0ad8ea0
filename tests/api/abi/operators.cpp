/* Usage: test_abi_operators
 * Tests every operator new and delete of C++17 (also the sized, aligned and array forms), their failure by exception or by nullptr, and
 * the new handler. */
#include "support/check.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {

/* This size is volatile because a compiler that knows the size may remove a pair of new and delete. */
volatile std::size_t impossible = static_cast<std::size_t>(PTRDIFF_MAX);

void good(void *p, std::size_t size, std::size_t alignment)
{
    CHECK(p != nullptr, "new of %zu", size);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0, "new of %zu at %zu gave %p", size, alignment, p);
    CHECK(malloc_usable_size(p) >= size, "new of %zu: usable %zu", size, malloc_usable_size(p));
    std::memset(p, 0x5A, size);
}

void plain_forms(std::size_t size)
{
    void *p = ::operator new(size);
    good(p, size, 16);
    ::operator delete(p);
    p = ::operator new(size);
    good(p, size, 16);
    ::operator delete(p, size);
    p = ::operator new[](size);
    good(p, size, 16);
    ::operator delete[](p);
    p = ::operator new[](size);
    good(p, size, 16);
    ::operator delete[](p, size);
    p = ::operator new(size, std::nothrow);
    good(p, size, 16);
    ::operator delete(p, std::nothrow);
    p = ::operator new[](size, std::nothrow);
    good(p, size, 16);
    ::operator delete[](p, std::nothrow);
    /* As with glibc, free must accept blocks of new, and delete must accept blocks of malloc. */
    std::free(::operator new(size));
    ::operator delete(std::malloc(size));
}

void aligned_forms(std::size_t size, std::size_t alignment)
{
    const auto at = static_cast<std::align_val_t>(alignment);
    void      *p = ::operator new(size, at);
    good(p, size, alignment);
    ::operator delete(p, at);
    p = ::operator new(size, at);
    good(p, size, alignment);
    ::operator delete(p, size, at);
    p = ::operator new[](size, at);
    good(p, size, alignment);
    ::operator delete[](p, at);
    p = ::operator new[](size, at);
    good(p, size, alignment);
    ::operator delete[](p, size, at);
    p = ::operator new(size, at, std::nothrow);
    good(p, size, alignment);
    ::operator delete(p, at, std::nothrow);
    p = ::operator new[](size, at, std::nothrow);
    good(p, size, alignment);
    ::operator delete[](p, at, std::nothrow);
}

void forms()
{
    for (std::size_t size = 0; size <= 70000; size += size < 2100 ? 1 : 509) {
        plain_forms(size);
        for (std::size_t alignment = 1; alignment <= 8192; alignment *= 4) {
            aligned_forms(size, alignment);
        }
    }
    for (std::size_t size = 1 << 16; size <= std::size_t{64} << 20; size *= 2) {
        plain_forms(size);
        aligned_forms(size, 64);
        aligned_forms(size, 2 << 20);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, std::size_t{8});
    ::operator delete(nullptr, std::align_val_t{64});
    ::operator delete(nullptr, std::nothrow);
    void *first = ::operator new(0);
    void *second = ::operator new(0);
    CHECK(first != second, "two blocks of no bytes at %p", first);
    ::operator delete(first);
    ::operator delete(second);
}

template <typename Call> bool throws_bad_alloc(Call call)
{
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

void failures()
{
    const std::size_t sizes[] = {impossible, impossible + 1, impossible - 100000, SIZE_MAX, SIZE_MAX - 8192};
    for (std::size_t size : sizes) {
        const auto at = std::align_val_t{4096};
        CHECK(throws_bad_alloc([=] { ::operator delete(::operator new(size)); }), "new of %zu", size);
        CHECK(throws_bad_alloc([=] { ::operator delete[](::operator new[](size)); }), "new[] of %zu", size);
        CHECK(::operator new(size, std::nothrow) == nullptr, "nothrow new of %zu", size);
        CHECK(::operator new[](size, std::nothrow) == nullptr, "nothrow new[] of %zu", size);
        if (size > SIZE_MAX - 4096 && !check_on_hakmem()) {
            /* libstdc++'s aligned new rounds this size up, gets 0 by an overflow, and returns a block. */
            continue;
        }
        CHECK(throws_bad_alloc([=] { ::operator delete(::operator new(size, at), at); }), "aligned new of %zu", size);
        CHECK(throws_bad_alloc([=] { ::operator delete[](::operator new[](size, at), at); }), "aligned new[] of %zu", size);
        CHECK(::operator new(size, at, std::nothrow) == nullptr, "nothrow aligned new of %zu", size);
        CHECK(::operator new[](size, at, std::nothrow) == nullptr, "nothrow aligned new[] of %zu", size);
    }
}

int handler_calls;

struct own_exception : std::bad_alloc {
};

void handler_that_gives_up()
{
    if (++handler_calls == 5) {
        throw own_exception();
    }
}

void handler_that_removes_itself()
{
    ++handler_calls;
    if (handler_calls == 3) {
        std::set_new_handler(nullptr);
    }
}

std::size_t wanted;
void handler_that_makes_it_possible()
{
    ++handler_calls;
    /* operator new must retry with the size of its first attempt, although the handler changes `wanted`. */
    wanted = 100;
    if (handler_calls == 4) {
        throw std::bad_alloc();
    }
}

void handlers()
{
    const std::size_t size = impossible;
    const auto        at = std::align_val_t{256};

    handler_calls = 0;
    std::set_new_handler(handler_that_gives_up);
    bool own = false;
    try {
        ::operator delete(::operator new(size));
    } catch (const own_exception &) {
        own = true;
    }
    CHECK(own && handler_calls == 5, "the handler's exception passes, after %d calls", handler_calls);

    handler_calls = 0;
    CHECK(::operator new(size, std::nothrow) == nullptr && handler_calls == 5, "nothrow: %d calls", handler_calls);
    handler_calls = 0;
    CHECK(::operator new[](size, std::nothrow) == nullptr && handler_calls == 5, "nothrow[]: %d calls", handler_calls);
    handler_calls = 0;
    CHECK(throws_bad_alloc([=] { ::operator delete(::operator new(size, at), at); }) && handler_calls == 5,
          "aligned: %d calls", handler_calls);
    handler_calls = 0;
    CHECK(::operator new(size, at, std::nothrow) == nullptr && handler_calls == 5, "aligned nothrow: %d calls", handler_calls);

    handler_calls = 0;
    std::set_new_handler(handler_that_removes_itself);
    CHECK(throws_bad_alloc([=] { ::operator delete(::operator new(size)); }) && handler_calls == 3, "%d calls", handler_calls);
    CHECK(std::get_new_handler() == nullptr, "the handler removed itself");

    handler_calls = 0;
    wanted = size;
    std::set_new_handler(handler_that_makes_it_possible);
    CHECK(throws_bad_alloc([=] { ::operator delete[](::operator new[](wanted)); }) && handler_calls == 4, "%d calls",
          handler_calls);
    std::set_new_handler(nullptr);
}

struct throws_when_built {
    char bytes[200];
    throws_when_built() { throw 17; }
};

struct alignas(128) wide {
    char bytes[128];
};

/* Tests an object whose constructor throws. Its memory must be freed, and the exception must arrive. */
void exceptions()
{
    for (int i = 0; i < 10000; i++) {
        int caught = 0;
        try {
            delete new throws_when_built;
        } catch (int value) {
            caught = value;
        }
        CHECK(caught == 17, "round %d", i);
    }
    std::vector<std::unique_ptr<wide>> wides;
    std::vector<std::string>           strings;
    for (std::size_t i = 0; i < 5000; i++) {
        wides.push_back(std::make_unique<wide>());
        CHECK(reinterpret_cast<std::uintptr_t>(wides.back().get()) % 128 == 0, "wide %zu", i);
        strings.push_back(std::string(i % 300, 'x'));
    }
    for (std::size_t i = 0; i < 5000; i++) {
        CHECK(strings[i].size() == i % 300, "string %zu", i);
    }
}

} // namespace

int main()
{
    forms();
    failures();
    handlers();
    exceptions();
    return check_report("abi operators");
}
