# Builds for another processor: the tests run under an emulator, with the C library of the cross compiler, and unit tests with Debian's cmocka
# for that processor. Both are fetched where they are missing; tests that cannot run so are named in tests/everywhere/not_emulated.txt.
if(NOT CMAKE_CROSSCOMPILING)
  return()
endif()
set(everywhere ${PROJECT_SOURCE_DIR}/tests/everywhere)
if(NOT HAKMEM_EMULATOR)
  execute_process(COMMAND ${everywhere}/emulator.sh OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(HAKMEM_EMULATOR "${found}" CACHE FILEPATH "what runs programs of the other processor" FORCE)
endif()
if(NOT HAKMEM_EMULATOR)
  message(FATAL_ERROR "There is no emulator for ${CMAKE_SYSTEM_PROCESSOR} (tests/everywhere/emulator.sh says why): -DHAKMEM_TESTS=OFF builds without tests.")
endif()
set(hakmem_emulated ${HAKMEM_EMULATOR} -L ${CMAKE_FIND_ROOT_PATH})

execute_process(COMMAND ${everywhere}/cached.sh cmocka-arm64 bookworm arm64 libcmocka-dev OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE)
find_path(hakmem_cmocka_include cmocka.h PATHS ${root}/usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
find_library(hakmem_cmocka_library cmocka PATHS ${root}/usr/lib/aarch64-linux-gnu NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
