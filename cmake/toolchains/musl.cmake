# Toolchain file that builds HAKMEM for musl on a system whose C library is glibc. It uses Debian's musl-tools (musl-gcc). A system whose C library
# is musl needs no toolchain file.
set(CMAKE_C_COMPILER musl-gcc)
# musl-tools has no C++ library, so the tests and benchmarks in C++ are left out.
set(HAKMEM_CXX OFF)

# musl has no kernel headers. They are the same for every C library. The compiler must not find the headers of glibc, which are in the same folder.
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
