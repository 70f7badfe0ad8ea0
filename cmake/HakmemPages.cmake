# A core for larger pages, tested on a system of 4 KiB: hakmem_coarse_pages(TARGET BYTES) sends the system calls of the core in TARGET to
# tests/pages/coarse_pages.c, which says that a page has BYTES and refuses what is not aligned to that. HAKMEM_TEST_PAGE: the whole build.
set(HAKMEM_TEST_PAGE 0 CACHE STRING "16384 or 65536: build everything for a system with such pages, for tests")

function(hakmem_coarse_pages target bytes)
  if(bytes EQUAL 0)
    return()
  endif()
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/pages/coarse_pages.c)
  target_compile_definitions(${target} PRIVATE COARSE_PAGE=${bytes})
  foreach(call IN ITEMS mmap munmap mremap mincore syscall getauxval)
    target_compile_definitions(${target} PRIVATE ${call}=coarse_${call})
  endforeach()
endfunction()

# The cases of a unit test that are about pages of 4 KiB and fail on the larger ones of this build: tests/everywhere/fine_pages.txt.
function(hakmem_fine_cases variable test)
  set(cases)
  math(EXPR kib "${HAKMEM_TEST_PAGE} / 1024")
  if(kib GREATER 0)
    file(STRINGS ${PROJECT_SOURCE_DIR}/tests/everywhere/fine_pages.txt rows REGEX "^${test} [a-z_0-9]+ ([0-9]+,)*${kib}[, ]")
    foreach(row IN LISTS rows)
      string(REGEX REPLACE "^[^ ]+ ([^ ]+) .*" "\\1" case "${row}")
      list(APPEND cases ${case})
    endforeach()
  endif()
  list(JOIN cases " " cases)
  set(${variable} "${cases}" PARENT_SCOPE)
endfunction()
