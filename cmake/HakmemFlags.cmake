# Compiler flags as interface targets: hakmem_warnings for everything here, hakmem_sanitizer for everything in a sanitizer build, and hakmem_build
# for the library's own code.
find_package(Threads REQUIRED)

add_library(hakmem_warnings INTERFACE)
target_compile_options(hakmem_warnings INTERFACE
  -Wall -Wextra -Wundef -Wshadow -Wconversion -Wvla
  $<$<BOOL:${HAKMEM_WERROR}>:-Werror>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)

add_library(hakmem_sanitizer INTERFACE)
if(HAKMEM_SANITIZE)
  set(flags -fsanitize=${HAKMEM_SANITIZE} -fno-omit-frame-pointer)
  if(HAKMEM_SANITIZE MATCHES "undefined")
    list(APPEND flags -fno-sanitize-recover=all)
  endif()
  target_compile_options(hakmem_sanitizer INTERFACE ${flags})
  target_link_options(hakmem_sanitizer INTERFACE ${flags})
endif()

add_library(hakmem_build INTERFACE)
target_link_libraries(hakmem_build INTERFACE hakmem_warnings hakmem_sanitizer)
target_include_directories(hakmem_build INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(hakmem_build INTERFACE
  _GNU_SOURCE
  HK_DEBUG=$<BOOL:${HAKMEM_DEBUG}>
  HK_OVERRIDE=$<BOOL:${HAKMEM_OVERRIDE}>
  HK_VERSION="${PROJECT_VERSION}"
  HK_TLS_MODEL="${HAKMEM_TLS_MODEL}")
# -Wframe-larger-than: malloc and its reports run on the stack of any thread, which may have only 16 KiB (tests/process/small_stack.c).
# -Wredundant-decls: if static variables of two files have the same name, the single translation unit of the library merges them into one variable.
if(NOT HAKMEM_SANITIZE AND NOT HAKMEM_DEBUG)
  target_compile_options(hakmem_build INTERFACE -Wframe-larger-than=3584 -Wredundant-decls)
endif()
# The compiler must not recognize malloc in the code that defines it, because it would turn "malloc + memset" into a call of calloc.
set(hakmem_no_builtin)
foreach(name IN ITEMS malloc calloc realloc free aligned_alloc memalign posix_memalign valloc pvalloc)
  list(APPEND hakmem_no_builtin -fno-builtin-${name})
endforeach()
# -fno-lto: the start changes tables that are constants (policy/classes.c). A compiler that sees the whole program may use their first values.
# Builds with -O1 need sibling calls too, because the functions at the end of malloc find the return address of malloc's caller.
target_compile_options(hakmem_build INTERFACE
  -fno-lto -foptimize-sibling-calls -fPIC -fvisibility=hidden -fno-semantic-interposition -ftls-model=${HAKMEM_TLS_MODEL} ${hakmem_no_builtin})
