// Usage: test_public_cxx
// This is public.c, compiled as C++.
#include "public.c"
