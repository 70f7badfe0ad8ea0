# Functions that declare tests.
#
# hakmem_add_c_test(NAME name SOURCES file...      C or C++; the program is build/tests/<folder>/test_<name>
#   [LINK shared|static|internal|preload|none]     default static; internal is static with src/ on the include path; preload is built without
#                                                  HAKMEM and runs with LD_PRELOAD; none uses only glibc
#   [LABELS quick|full|weekly ...]                 default quick; `make check` runs only quick tests, `make test` runs full tests too, and
#                                                  `make test-all` runs all tests
#   [TIMEOUT seconds]                              default 600; only a test that hangs reaches it
#   [COST seconds]                                 duration of the test if it is more than a few seconds; ctest starts the longest tests first
#   [ARGS arg...] [ENV NAME=value...] [LIBRARIES lib...] [OPTIONS compiler flag...]
#   [SANITIZE]     the test is also built and run in the sanitizer and valgrind builds. There HAKMEM does not replace malloc (HK_OVERRIDE=0).
#                  Therefore it may call only hak_ functions or internal ones. These builds leave out all other tests.
#   [ONCE]         the test is about the tree, the tool or the benchmarks, and not about a build of the core: only the release build has it
#   [SHORT]        a full test does everything that this quick test does: `make test` leaves it out if it runs the full tests
#   [TURN]         the test is full, but independent of most changes: `make test` runs a third of these tests, chosen by the commit
#   [SERIAL]       no other test runs at the same time
#   [SKIP code]    this exit code means "cannot run here"; default 77
#   [NO_TEST])     only build the program, because another test runs it
#
# hakmem_add_script_test(NAME name COMMAND command arg... [LABELS ...] [TIMEOUT seconds] [COST seconds] [ENV ...]
#                        [SANITIZE] [ONCE] [SHORT] [TURN] [SERIAL] [SKIP code])

set(hakmem_instrumented OFF)
if(HAKMEM_SANITIZE OR HAKMEM_VALGRIND)
  set(hakmem_instrumented ON)
endif()

# Whether this is the build that has the tests marked ONCE.
set(hakmem_first_build OFF)
if(HAKMEM_UNITY AND HAKMEM_OVERRIDE AND CMAKE_C_COMPILER_ID STREQUAL GNU AND HAKMEM_HAS_GLIBC
   AND NOT (hakmem_instrumented OR hakmem_emulated OR HAKMEM_DEBUG OR HAKMEM_TEST_PAGE OR HAKMEM_COVERAGE))
  set(hakmem_first_build ON)
endif()

set(hakmem_test_launcher ${hakmem_emulated})
if(HAKMEM_VALGRIND)
  find_program(HAKMEM_VALGRIND_PROGRAM valgrind REQUIRED)
  set(hakmem_test_launcher ${HAKMEM_VALGRIND_PROGRAM} -q --error-exitcode=99 --fair-sched=yes --soname-synonyms=somalloc=nouserintercepts)
endif()
if(HAKMEM_SANITIZE STREQUAL "thread" AND EXISTS /proc/sys/vm/mmap_rnd_bits)
  # The TSan of gcc before 14 expects memory at addresses that a kernel does not use if it randomizes more than 28 bits.
  file(READ /proc/sys/vm/mmap_rnd_bits bits)
  if(bits GREATER 28)
    set(hakmem_test_launcher setarch -R)
  endif()
endif()

set(hakmem_test_flags SANITIZE ONCE SHORT TURN SERIAL)
set(hakmem_test_values NAME TIMEOUT COST SKIP)

# Gives a test the properties that its declaration asks for. The declaration is in the variables T_... of the caller.
function(hakmem_test_properties)
  if(NOT T_LABELS)
    set(T_LABELS quick)
    if(T_TURN)
      set(T_LABELS full)
    endif()
  endif()
  foreach(kind IN ITEMS SHORT TURN)
    if(T_${kind})
      string(TOLOWER ${kind} label)
      list(APPEND T_LABELS ${label})
    endif()
  endforeach()
  if(NOT T_COST)
    set(T_COST 2)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 600)
  endif()
  if(NOT DEFINED T_SKIP)
    set(T_SKIP 77)
  endif()
  if(hakmem_emulated)
    math(EXPR T_TIMEOUT "${T_TIMEOUT} * 5")
    list(APPEND T_ENV TEST_SLOWDOWN=20)
  endif()
  set_tests_properties(${T_NAME} PROPERTIES
    LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT} ENVIRONMENT "${T_ENV}" SKIP_RETURN_CODE ${T_SKIP}
    # The longest tests start first, because a long test that starts last leaves the other core idle.
    COST ${T_COST}
    # If the loader cannot preload HAKMEM, it only warns. The test would then test glibc.
    FAIL_REGULAR_EXPRESSION "cannot be preloaded")
  if(T_SERIAL)
    set_tests_properties(${T_NAME} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

function(hakmem_link_test target link)
  if(link STREQUAL "shared")
    target_link_libraries(${target} PRIVATE hakmem)
  elseif(link STREQUAL "static")
    target_link_libraries(${target} PRIVATE hakmem_static)
  elseif(link STREQUAL "internal")
    target_link_libraries(${target} PRIVATE hakmem_static)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(${target} PRIVATE
      HK_DEBUG=$<BOOL:${HAKMEM_DEBUG}> HK_OVERRIDE=$<BOOL:${HAKMEM_OVERRIDE}> HK_VERSION="${PROJECT_VERSION}")
  elseif(link STREQUAL "preload" OR link STREQUAL "none")
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  else()
    message(FATAL_ERROR "${target}: LINK is shared, static, internal, preload or none, not '${link}'.")
  endif()
endfunction()

function(hakmem_add_c_test)
  cmake_parse_arguments(T "${hakmem_test_flags};NO_TEST" "${hakmem_test_values};LINK" "SOURCES;LABELS;ARGS;ENV;LIBRARIES;OPTIONS" ${ARGN})
  if(T_UNPARSED_ARGUMENTS OR NOT T_NAME OR NOT T_SOURCES)
    message(FATAL_ERROR "hakmem_add_c_test: needs NAME and SOURCES; not understood: '${T_UNPARSED_ARGUMENTS}'.")
  endif()
  if((hakmem_instrumented AND NOT T_SANITIZE) OR (T_ONCE AND NOT hakmem_first_build))
    return()
  endif()
  if(NOT T_LINK)
    set(T_LINK static)
  endif()
  set(target test_${T_NAME})
  add_executable(${target} ${T_SOURCES})
  # -fno-builtin is needed because a compiler that knows malloc removes the calls that the test is about.
  target_compile_options(${target} PRIVATE -fno-builtin ${T_OPTIONS})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE $<$<BOOL:${HAKMEM_TEST_PAGE}>:TEST_PAGE=${HAKMEM_TEST_PAGE}>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE hakmem_warnings hakmem_sanitizer Threads::Threads ${CMAKE_DL_LIBS} ${T_LIBRARIES})
  hakmem_link_test(${target} ${T_LINK})
  if(T_NO_TEST)
    return()
  endif()
  if(T_LINK STREQUAL "preload")
    add_dependencies(${target} hakmem)
    list(APPEND T_ENV LD_PRELOAD=$<TARGET_FILE:hakmem>)
  endif()
  add_test(NAME ${T_NAME} COMMAND ${hakmem_test_launcher} $<TARGET_FILE:${target}> ${T_ARGS})
  hakmem_test_properties()
endfunction()

function(hakmem_add_script_test)
  cmake_parse_arguments(T "${hakmem_test_flags}" "${hakmem_test_values}" "COMMAND;LABELS;ENV" ${ARGN})
  if(T_UNPARSED_ARGUMENTS OR NOT T_NAME OR NOT T_COMMAND)
    message(FATAL_ERROR "hakmem_add_script_test: needs NAME and COMMAND; not understood: '${T_UNPARSED_ARGUMENTS}'.")
  endif()
  if((hakmem_instrumented AND NOT T_SANITIZE) OR (T_ONCE AND NOT hakmem_first_build))
    return()
  endif()
  # A script starts programs of this system directly, so it cannot run under an emulator. It gets a label that no command runs.
  if(hakmem_emulated AND T_COMMAND MATCHES "^[$]<TARGET_FILE:")
    set(T_COMMAND ${hakmem_emulated} ${T_COMMAND})
  elseif(hakmem_emulated AND NOT "${T_COMMAND}" MATCHES "^${HAKMEM_EMULATOR};.*[$]<TARGET_FILE:")
    set(T_LABELS not_emulated)
  endif()
  add_test(NAME ${T_NAME} COMMAND ${T_COMMAND} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  hakmem_test_properties()
endfunction()
