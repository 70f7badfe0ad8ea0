# HAKMEM for musl, where the system's own C library is glibc: Debian's musl-tools (musl-gcc). On a system whose C library is musl, no
# toolchain file is needed.
set(CMAKE_C_COMPILER musl-gcc)
# There is no C++ library for musl beside it: the tests and benchmarks in C++ are left out.
set(HAKMEM_CXX OFF)

# musl brings no headers of the kernel. They are the same for every C library; glibc's, which lie beside them, must not be found.
set(hakmem_kernel_headers ${CMAKE_BINARY_DIR}/kernel-headers)
if(NOT EXISTS ${hakmem_kernel_headers}/linux)
  file(MAKE_DIRECTORY ${hakmem_kernel_headers})
  file(GLOB hakmem_asm /usr/include/asm /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/asm)
  list(GET hakmem_asm 0 hakmem_asm)
  file(CREATE_LINK /usr/include/linux ${hakmem_kernel_headers}/linux SYMBOLIC)
  file(CREATE_LINK /usr/include/asm-generic ${hakmem_kernel_headers}/asm-generic SYMBOLIC)
  file(CREATE_LINK ${hakmem_asm} ${hakmem_kernel_headers}/asm SYMBOLIC)
endif()
set(CMAKE_C_FLAGS_INIT "-isystem ${hakmem_kernel_headers}")
