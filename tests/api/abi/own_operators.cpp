/* Tests programs that replace some of the operators, most often only plain new and delete. All other forms must call the replaced ones, as the
 * standard requires. The build makes one program for each set: OWN_BASIC, OWN_ARRAY, OWN_ALIGNED. */
#include "support/check.h"

#include <cstdint>
#include <cstdlib>
#include <new>

#ifndef __clang__
/* Programs that define only some forms cause this warning. */
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif

namespace {

constexpr std::size_t HEAD = 64;
constexpr std::uint64_t MAGIC = 0x6f776e206e6577;

/* The head of a block says which operator new made the block. The matching operator delete must free the block. */
struct Head {
    volatile std::uint64_t magic;
    volatile char          kind;
};

long made[3], deleted[3];
bool refuses;

Head *head_of(void *p) { return reinterpret_cast<Head *>(static_cast<char *>(p) - HEAD); }

[[maybe_unused]] void *make(std::size_t size, std::size_t align, char kind)
{
    if (refuses) {
        throw std::bad_alloc();
    }
    std::size_t room = (HEAD + size + align - 1) / align * align;
    char       *whole = static_cast<char *>(std::aligned_alloc(align < HEAD ? HEAD : align, room + align));
    char       *p = whole + (align < HEAD ? HEAD : align);
    head_of(p)->magic = MAGIC;
    head_of(p)->kind = kind;
    made[static_cast<int>(kind)]++;
    return p;
}

[[maybe_unused]] void drop(void *p, std::size_t align, char kind)
{
    if (p == nullptr) {
        return;
    }
    CHECK(head_of(p)->magic == MAGIC && head_of(p)->kind == kind, "not made by new of kind %d", kind);
    head_of(p)->magic = 0;
    deleted[static_cast<int>(kind)]++;
    std::free(static_cast<char *>(p) - (align < HEAD ? HEAD : align));
}

} // namespace

#ifdef OWN_BASIC
void *operator new(std::size_t size) { return make(size, 16, 0); }
void  operator delete(void *p) noexcept { drop(p, 16, 0); }
#endif
#ifdef OWN_ARRAY
void *operator new[](std::size_t size) { return make(size, 16, 1); }
void  operator delete[](void *p) noexcept { drop(p, 16, 1); }
#endif
#ifdef OWN_ALIGNED
void *operator new(std::size_t size, std::align_val_t align) { return make(size, static_cast<std::size_t>(align), 2); }
void  operator delete(void *p, std::align_val_t align) noexcept { drop(p, static_cast<std::size_t>(align), 2); }
#endif

namespace {

enum { TIMES = 1000 };

const auto ALIGN = static_cast<std::align_val_t>(128);

void delete_plainly(void *const p[8])
{
    for (int i = 0; i < 2; i++) {
        operator delete(p[i]);
        operator delete[](p[2 + i]);
        operator delete(p[4 + i], ALIGN);
        operator delete[](p[6 + i], ALIGN);
    }
}

void delete_with_size(void *const p[8], std::size_t size)
{
    for (int i = 0; i < 2; i++) {
        operator delete(p[i], size);
        operator delete[](p[2 + i], size);
        operator delete(p[4 + i], size, ALIGN);
        operator delete[](p[6 + i], size, ALIGN);
    }
}

void delete_with_tag(void *const p[8])
{
    for (int i = 0; i < 2; i++) {
        operator delete(p[i], std::nothrow);
        operator delete[](p[2 + i], std::nothrow);
        operator delete(p[4 + i], ALIGN, std::nothrow);
        operator delete[](p[6 + i], ALIGN, std::nothrow);
    }
}

/* Uses each form of new with each matching form of delete. It calls the operators by name, so that the compiler does not remove them. */
void each_form(std::size_t size)
{
    for (int way = 0; way < 3; way++) {
        void *p[8] = {operator new(size),          operator new(size, std::nothrow),
                      operator new[](size),        operator new[](size, std::nothrow),
                      operator new(size, ALIGN),   operator new(size, ALIGN, std::nothrow),
                      operator new[](size, ALIGN), operator new[](size, ALIGN, std::nothrow)};
        for (int i = 0; i < 8; i++) {
            CHECK(p[i] != nullptr && reinterpret_cast<std::uintptr_t>(p[i]) % (i < 4 ? 16 : 128) == 0, "form %d", i);
        }
        if (way == 0) {
            delete_plainly(p);
        } else if (way == 1) {
            delete_with_size(p, size);
        } else {
            delete_with_tag(p);
        }
    }
}

void check_counts()
{
#ifdef OWN_BASIC
    CHECK(made[0] > 0, "operator new was not called");
#endif
#ifdef OWN_ARRAY
    CHECK(made[1] == 6 * 2 * TIMES, "operator new[] was called %ld times", made[1]);
#endif
#ifdef OWN_ALIGNED
    CHECK(made[2] == 12 * 2 * TIMES, "operator new with an alignment was called %ld times", made[2]);
#endif
    for (int kind = 0; kind < 3; kind++) {
        CHECK(made[kind] == deleted[kind], "kind %d: %ld made, %ld deleted", kind, made[kind], deleted[kind]);
    }
}

/* Tests an operator of the program that throws. The forms that must not throw must return NULL then. */
void test_refusal()
{
#ifdef OWN_BASIC
    refuses = true;
    CHECK(operator new(10, std::nothrow) == nullptr && operator new[](10, std::nothrow) == nullptr, "no NULL");
    refuses = false;
#endif
}

} // namespace

int main()
{
    for (int i = 0; i < TIMES; i++) {
        each_form(static_cast<std::size_t>(i));
        each_form(static_cast<std::size_t>(i) * 100);
    }
    check_counts();
    test_refusal();
    return check_report("own operators");
}
