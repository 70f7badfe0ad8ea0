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
