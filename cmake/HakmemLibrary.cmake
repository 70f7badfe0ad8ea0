# libhakmem.so and libhakmem.a from the same objects.
file(GLOB hakmem_room_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/*.c)
if(HAKMEM_UNITY)
  set(hakmem_sources ${PROJECT_SOURCE_DIR}/src/hakmem.c)
  set(hakmem_throwing ${hakmem_sources})
else()
  set(hakmem_sources ${hakmem_room_sources})
  set(hakmem_throwing ${hakmem_room_sources})
  list(FILTER hakmem_throwing INCLUDE REGEX "/src/(api|runtime)/")
endif()
# operator new throws: only what a program calls needs tables that let an exception pass.
set_source_files_properties(${hakmem_throwing} PROPERTIES COMPILE_OPTIONS -fexceptions)
if(NOT hakmem_room_sources)
  message(FATAL_ERROR "No source under src/ yet: nothing to build.")
endif()

# base/probe.h looks for it by itself: here it is only said.
find_path(hakmem_sdt_include sys/sdt.h)
if(NOT hakmem_sdt_include)
  message(STATUS "No <sys/sdt.h> (systemtap-sdt-dev): the probes otel_memory:alloc and otel_memory:free are left out.")
endif()

add_library(hakmem_objects OBJECT ${hakmem_sources})
target_link_libraries(hakmem_objects PRIVATE hakmem_build)

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
set_target_properties(hakmem PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
# nodelete: blocks outlive dlclose(), so their allocator does too. Bsymbolic-functions: HAKMEM calls itself, without a PLT.
target_link_options(hakmem PRIVATE -Wl,-z,relro,-z,now,-z,nodelete,-z,noseparate-code,-z,initfirst -Wl,-Bsymbolic-functions)
# But for these: a program may have its own.
target_link_options(hakmem PRIVATE -Wl,--dynamic-list=${CMAKE_CURRENT_LIST_DIR}/process_malloc.list)
set_target_properties(hakmem PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/process_malloc.list)
if(HAKMEM_OVERRIDE)
  # In the shared library only: a static program has but one dlopen, which a definition in the archive would hide from it.
  include(CheckSymbolExists)
  set(CMAKE_REQUIRED_DEFINITIONS -D_GNU_SOURCE)
  check_symbol_exists(RTLD_DEEPBIND dlfcn.h HAKMEM_HAS_DEEPBIND)
  unset(CMAKE_REQUIRED_DEFINITIONS)
  if(HAKMEM_HAS_DEEPBIND)
    target_link_options(hakmem PRIVATE -Wl,--defsym=dlopen=hak_dlopen,--defsym=dlmopen=hak_dlmopen)
  endif()
  target_link_options(hakmem PRIVATE -Wl,--defsym=pthread_create=hak_pthread_create)
  # A program that names no malloc itself (libc and libstdc++ do, for it) gets ours all the same.
  target_link_options(hakmem_static INTERFACE -Wl,-u,malloc)
endif()
target_link_libraries(hakmem_static INTERFACE Threads::Threads)

# The learner by itself, which knows neither heap nor clock.
file(GLOB hakmem_replay_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/learn/*.c ${PROJECT_SOURCE_DIR}/src/policy/*.c)
add_executable(hakmem-replay tools/hakmem_replay.c ${hakmem_replay_sources} src/count/decisions.c src/base/message.c src/os/linux_files.c src/os/os_linux.c src/os/passed.c)
target_link_libraries(hakmem-replay PRIVATE hakmem_build)
