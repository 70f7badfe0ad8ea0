/* Names no function of HAKMEM and of malloc: only libc allocates here. Exits 0 if it did so from libhakmem. */
#define _GNU_SOURCE /* dladdr */
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
