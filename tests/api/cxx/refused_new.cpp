// Usage: test_refused_new
// Tests a refused new in a program that is linked statically with the C++ library. The program does not use the library's own operator new.
// The linker therefore takes no object of the library that throws std::bad_alloc. HAKMEM must call the new handler first, and each throwing
// form must throw.
#include <cstdint>
#include <cstdio>
#include <new>

namespace
{

int failures, handler_calls;
volatile std::size_t huge = SIZE_MAX / 4;

void must(int line, bool good)
{
    if (!good) {
        failures++;
        std::fprintf(stderr, "refused_new.cpp:%d\n", line);
    }
}

void give_up_at_three()
{
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

void *volatile sink;

template <class Work> bool throws(Work work)
{
    try {
        sink = work();
    } catch (const std::bad_alloc &thrown) {
        return thrown.what() != nullptr;
    } catch (...) {
        return false;
    }
    return false;
}

} // namespace

int main()
{
    for (int round = 0; round < 3; round++) {
        must(__LINE__, throws([] { return ::operator new(huge); }));
        must(__LINE__, throws([] { return new char[huge]; }));
        must(__LINE__, throws([] { return ::operator new(huge, std::align_val_t(64)); }));
        must(__LINE__, ::operator new(huge, std::nothrow) == nullptr);
    }
    std::set_new_handler(give_up_at_three);
    must(__LINE__, throws([] { return ::operator new(huge); }) && handler_calls == 3);
    int *one = new int(1);
    must(__LINE__, *one == 1);
    delete one;
    return failures != 0;
}
