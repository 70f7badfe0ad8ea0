# Flags, as interface targets: hakmem_warnings (everything here), hakmem_sanitizer (everything in a sanitizer build),
# hakmem_build (the library's own code).
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
  HK_VERSION="${PROJECT_VERSION}")
# malloc and its reports run on whatever stack a program's thread has, 16 KiB at least (tests/process/small_stack.c).
# Of two files' static variables with one name, the library's one translation unit makes one variable.
if(NOT HAKMEM_SANITIZE AND NOT HAKMEM_DEBUG)
  target_compile_options(hakmem_build INTERFACE -Wframe-larger-than=3584 -Wredundant-decls)
endif()
# Whoever defines malloc must not have the compiler recognise it: "malloc + memset" would become a call of calloc.
set(hakmem_no_builtin)
foreach(name IN ITEMS malloc calloc realloc free aligned_alloc memalign posix_memalign valloc pvalloc)
  list(APPEND hakmem_no_builtin -fno-builtin-${name})
endforeach()
# Sibling calls in -O1 builds too: what malloc ends with finds the return address of malloc's caller.
target_compile_options(hakmem_build INTERFACE
  -foptimize-sibling-calls -fPIC -fvisibility=hidden -fno-semantic-interposition -ftls-model=initial-exec ${hakmem_no_builtin})
