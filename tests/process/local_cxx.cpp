/* This is a C++ plugin of a C program. dlopen loads the C++ library for this plugin alone (RTLD_LOCAL). */
#include <cstddef>
#include <new>

static int asked;

static void give_up()
{
    if (++asked == 3)
        std::set_new_handler(nullptr);
}

extern "C" int refused_is_thrown(std::size_t size);
extern "C" int handler_is_asked(std::size_t size);
extern "C" int nothrow_is_null(std::size_t size);

int refused_is_thrown(std::size_t size)
{
    try {
        ::operator delete(::operator new(size));
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

int handler_is_asked(std::size_t size)
{
    asked = 0;
    std::set_new_handler(give_up);
    int thrown = refused_is_thrown(size);
    std::set_new_handler(nullptr);
    return thrown ? asked : -1;
}

int nothrow_is_null(std::size_t size) { return ::operator new(size, std::nothrow) == nullptr; }
