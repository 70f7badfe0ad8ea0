// Usage: test_public_cxx: what public.c says, as C++ sees it.
#include "public.c"
