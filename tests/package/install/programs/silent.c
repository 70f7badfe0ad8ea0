/* Calls no function of HAKMEM or malloc, so that only libc allocates. Exits with 0 if malloc comes from libhakmem. */
#define _GNU_SOURCE /* declares dladdr */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    Dl_info owner;
    void *served = dlsym(RTLD_DEFAULT, "malloc");
    if (served == NULL || dladdr(served, &owner) == 0)
        return 1;
    printf("malloc is in %s\n", owner.dli_fname);
    return strstr(owner.dli_fname, argc > 1 ? argv[1] : "libhakmem") == NULL ? 2 : 0;
}
