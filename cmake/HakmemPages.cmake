# Builds a core for larger pages that is tested on a system with pages of 4 KiB. hakmem_coarse_pages(TARGET BYTES) sends the system calls of the core
# in TARGET to tests/platform/pages/coarse_pages.c. That file says that a page has BYTES, and it refuses addresses and sizes that are not aligned to
# this size. HAKMEM_TEST_PAGE does this for the whole build.
set(HAKMEM_TEST_PAGE 0 CACHE STRING "16384 or 65536: build everything for a system with such pages, for tests")

function(hakmem_coarse_pages target bytes)
  if(bytes EQUAL 0)
    return()
  endif()
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/platform/pages/coarse_pages.c)
  target_compile_definitions(${target} PRIVATE COARSE_PAGE=${bytes})
  foreach(call IN ITEMS mmap munmap mremap mincore syscall getauxval)
    target_compile_definitions(${target} PRIVATE ${call}=coarse_${call})
  endforeach()
endfunction()

# Sets VARIABLE to the cases of a unit test that fail on the larger pages of this build or under an emulator. The lists in tests/platform/everywhere
# give the reasons.
function(hakmem_cases_that_fail variable test)
  set(cases)
  math(EXPR kib "${HAKMEM_TEST_PAGE} / 1024")
  set(rows)
  if(kib GREATER 0)
    file(STRINGS ${PROJECT_SOURCE_DIR}/tests/platform/everywhere/fine_pages.txt rows REGEX "^${test} [a-z_0-9]+ ([0-9]+,)*${kib}[, ]")
  elseif(hakmem_emulated)
    file(STRINGS ${PROJECT_SOURCE_DIR}/tests/platform/everywhere/not_emulated.txt rows REGEX "^${test}/")
  endif()
  foreach(row IN LISTS rows)
    string(REGEX REPLACE "^[a-z_0-9]+[/ ]([a-z_0-9]+) .*" "\\1" case "${row}")
    list(APPEND cases ${case})
  endforeach()
  list(JOIN cases " " cases)
  set(${variable} "${cases}" PARENT_SCOPE)
endfunction()
