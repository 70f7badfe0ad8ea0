# Builds libhakmem.so and libhakmem.a from the same objects. libhakmem-hardened.so has the same sources and those of src/checked/.
file(GLOB hakmem_room_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/*.c)
set(hakmem_checked_sources ${hakmem_room_sources})
list(FILTER hakmem_checked_sources INCLUDE REGEX "/src/checked/")
list(FILTER hakmem_room_sources EXCLUDE REGEX "/src/checked/")
if(HAKMEM_UNITY)
  # base.h comes first, because it renames functions of system headers. The order of the other files does not matter. Local variables may have the names
  # of static variables of other files. The test core compiles each file alone, and finds variables that are shadowed in one file.
  set(hakmem_sources ${PROJECT_BINARY_DIR}/hakmem.c)
  set(hakmem_unit "#define HK_UNITY 1\n#pragma GCC diagnostic ignored \"-Wshadow\"\n#include \"base/base.h\"\n")
  foreach(source IN LISTS hakmem_room_sources)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/src ${source})
    string(APPEND hakmem_unit "#include \"${name}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT ${hakmem_sources} CONTENT "${hakmem_unit}" @ONLY)
  set(hakmem_throwing ${hakmem_sources})
else()
  set(hakmem_sources ${hakmem_room_sources})
  set(hakmem_throwing ${hakmem_room_sources})
  list(FILTER hakmem_throwing INCLUDE REGEX "/src/(api|runtime)/")
endif()
# operator new throws. Only functions that a program calls need tables that let an exception pass.
set_source_files_properties(${hakmem_throwing} PROPERTIES COMPILE_OPTIONS -fexceptions)
if(NOT hakmem_room_sources)
  message(FATAL_ERROR "No source under src/ yet: nothing to build.")
endif()

# base/probe.h looks for this header itself. This only prints a message if the header is missing.
find_path(hakmem_sdt_include sys/sdt.h)
if(NOT hakmem_sdt_include)
  message(STATUS "No <sys/sdt.h> (systemtap-sdt-dev): the probes otel_memory:alloc and otel_memory:free are left out.")
endif()

add_library(hakmem_objects OBJECT ${hakmem_sources})
target_link_libraries(hakmem_objects PRIVATE hakmem_build)
hakmem_count_coverage(hakmem_objects)
hakmem_coarse_pages(hakmem_objects ${HAKMEM_TEST_PAGE})

add_library(hakmem SHARED)
add_library(hakmem_static STATIC)
add_library(hakmem::hakmem ALIAS hakmem)
add_library(hakmem::hakmem_static ALIAS hakmem_static)
foreach(lib IN ITEMS hakmem hakmem_static)
  target_link_libraries(${lib} PRIVATE $<BUILD_INTERFACE:hakmem_objects> $<BUILD_INTERFACE:hakmem_sanitizer>)
  target_include_directories(${lib} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${lib} PROPERTIES OUTPUT_NAME hakmem LINKER_LANGUAGE C)
endforeach()
set(hakmem_shared hakmem)
if(HAKMEM_OVERRIDE)
  list(APPEND hakmem_shared hakmem_hardened)
  add_library(hakmem_hardened SHARED ${hakmem_sources} ${hakmem_checked_sources})
  target_link_libraries(hakmem_hardened PRIVATE hakmem_build)
  target_compile_definitions(hakmem_hardened PRIVATE HK_HARDENED_LIBRARY=1)
  hakmem_count_coverage(hakmem_hardened)
  hakmem_coarse_pages(hakmem_hardened ${HAKMEM_TEST_PAGE})
  set_target_properties(hakmem_hardened PROPERTIES OUTPUT_NAME hakmem-hardened LINKER_LANGUAGE C)
  # clang forgets the assembler names that base/base.h gives to functions that clang knows.
  target_compile_options(hakmem_hardened PRIVATE
    $<$<C_COMPILER_ID:Clang>:-fno-builtin-memcpy$<SEMICOLON>-fno-builtin-memmove$<SEMICOLON>-fno-builtin-memset>)
  # The compiler must not turn a loop that copies into a call of memcpy.
  set_source_files_properties(${hakmem_checked_sources} PROPERTIES
    COMPILE_OPTIONS "-fno-builtin;$<$<C_COMPILER_ID:GNU>:-fno-tree-loop-distribute-patterns>")
  # dlopen is defined only in the shared libraries, because a static program has only one dlopen, and a definition in the archive would hide it.
  include(CheckSymbolExists)
  set(CMAKE_REQUIRED_DEFINITIONS -D_GNU_SOURCE)
  check_symbol_exists(RTLD_DEEPBIND dlfcn.h HAKMEM_HAS_DEEPBIND)
  unset(CMAKE_REQUIRED_DEFINITIONS)
  # HAKMEM also serves a program that does not call malloc itself, because libc and libstdc++ call it for the program.
  target_link_options(hakmem_static INTERFACE -Wl,-u,malloc)
endif()
foreach(lib IN LISTS hakmem_shared)
  set_target_properties(${lib} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  # nodelete: blocks outlive dlclose(), so their allocator must too. Bsymbolic-functions: HAKMEM calls its own functions without a PLT.
  target_link_options(${lib} PRIVATE -Wl,-z,relro,-z,now,-z,nodelete,-z,noseparate-code,-z,initfirst -Wl,-Bsymbolic-functions)
  # An exception passes through operator new. musl-gcc does not request the header that its unwinder looks for.
  target_link_options(${lib} PRIVATE -Wl,--eh-frame-hdr)
  # Constructors and destructors are listed in arrays. Without the C library's older two functions, no process touches their pages.
  target_link_options(${lib} PRIVATE -Wl,-init=hk_no_function,-fini=hk_no_function)
  # A program may define its own versions of these functions, so calls of them stay dynamic.
  target_link_options(${lib} PRIVATE -Wl,--dynamic-list=${CMAKE_CURRENT_LIST_DIR}/process_malloc.list)
  set_target_properties(${lib} PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/process_malloc.list)
  if(HAKMEM_HAS_DEEPBIND)
    target_link_options(${lib} PRIVATE -Wl,--defsym=dlopen=hak_dlopen,--defsym=dlmopen=hak_dlmopen)
  endif()
  if(HAKMEM_OVERRIDE)
    target_link_options(${lib} PRIVATE -Wl,--defsym=pthread_create=hak_pthread_create)
  endif()
endforeach()
target_link_libraries(hakmem_static INTERFACE Threads::Threads)

# hakmem-replay is the learner alone, which needs neither heap nor clock.
file(GLOB hakmem_replay_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/learn/*.c ${PROJECT_SOURCE_DIR}/src/policy/*.c)
add_executable(hakmem-replay tools/hakmem_replay.c ${hakmem_replay_sources} src/count/decisions.c src/base/message.c src/os/linux_files.c src/os/linux_modules.c src/os/linux_signals.c src/os/os_linux.c src/os/forward.c src/os/maps.c)
target_link_libraries(hakmem-replay PRIVATE hakmem_build)
