# Preset coverage: the core counts how often each of its regions runs, as clang divides the code into regions. tests/model/coverage/counters.c
# says where the counts are, and `make coverage` reads them. hakmem_count_coverage(TARGET) builds the files of the core in TARGET with counters.
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
  # The counts of a loop are written at once, because the process may end inside the loop. The counts are atomic because clang computes the count
  # of the code after a return as a difference: lost increments would make it more than 0 even if that code never ran.
  target_compile_options(${target} PRIVATE -fprofile-instr-generate -fprofile-update=atomic -fcoverage-mapping -include ${PROJECT_SOURCE_DIR}/tests/model/coverage/counters.h
    "SHELL:-mllvm -runtime-counter-relocation" "SHELL:-mllvm -do-counter-promotion=false")
endfunction()
