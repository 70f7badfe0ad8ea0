# Preset coverage: the core counts its regions as clang sees them (tests/model/coverage/counters.c says where), `make coverage` reads
# the counts. hakmem_count_coverage(TARGET) builds the files of the core in TARGET so.
set(hakmem_counters ${PROJECT_BINARY_DIR}/counters)

function(hakmem_count_coverage target)
  if(NOT HAKMEM_COVERAGE)
    return()
  endif()
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "HAKMEM_COVERAGE needs clang, this is ${CMAKE_C_COMPILER_ID}.")
  endif()
  file(MAKE_DIRECTORY ${hakmem_counters})
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/model/coverage/counters.c)
  target_compile_definitions(${target} PRIVATE HAKMEM_COUNTERS="${hakmem_counters}")
  # What a loop counts is written at once: the process may end in it. Counts are atomic: what follows a return that is not taken is counted as
  # a difference, which lost increments would make more than 0.
  target_compile_options(${target} PRIVATE -fprofile-instr-generate -fprofile-update=atomic -fcoverage-mapping -include ${PROJECT_SOURCE_DIR}/tests/model/coverage/counters.h
    "SHELL:-mllvm -runtime-counter-relocation" "SHELL:-mllvm -do-counter-promotion=false")
endfunction()
