/* Usage: test_local_cxx PLUGIN
 * Tests HAKMEM's operator new in a C program. Only a plugin of this program has the C++ library. HAKMEM must find this library by the caller of
 * operator new, call the new handler, and throw std::bad_alloc. */
#include "support/check.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "";
    CHECK(dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv") == NULL, "the program has a C++ library of its own");
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "%s: %s", path, dlerror());
    if (plugin != NULL) {
        int (*thrown)(size_t) = (int (*)(size_t))dlsym(plugin, "refused_is_thrown");
        int (*asked)(size_t) = (int (*)(size_t))dlsym(plugin, "handler_is_asked");
        int (*null)(size_t) = (int (*)(size_t))dlsym(plugin, "nothrow_is_null");
        CHECK(thrown(100) == 0, "a small block was refused");
        CHECK(thrown(SIZE_MAX / 4) == 1, "nothing was thrown");
        CHECK(asked(SIZE_MAX / 4) == 3, "the handler was asked %d times", asked(SIZE_MAX / 4));
        CHECK(null(SIZE_MAX / 4) == 1, "the form that does not throw returned a block");
    }
    return check_report("local_cxx");
}
