# Builds the programs behind `hakmem record` and `hakmem replay`: libhakmem-record.so, which is preloaded before any allocator, and hakmem-play, which
# runs on any allocator. See docs/RECORDING.md. Neither is a part of the allocator.
set(hakmem_record_dir ${PROJECT_SOURCE_DIR}/tools/record)

add_library(hakmem_recording STATIC ${hakmem_record_dir}/reader.c ${hakmem_record_dir}/book.c ${hakmem_record_dir}/plan.c
  ${hakmem_record_dir}/figures.c)
target_compile_definitions(hakmem_recording PRIVATE _GNU_SOURCE)
target_include_directories(hakmem_recording PUBLIC ${hakmem_record_dir})
target_link_libraries(hakmem_recording PRIVATE hakmem_warnings hakmem_sanitizer)

# -fno-builtin is needed because the compiler knows malloc, and would remove a block that only the plan uses.
add_executable(hakmem-play ${hakmem_record_dir}/play.c ${hakmem_record_dir}/player.c ${hakmem_record_dir}/progress.c)
target_compile_definitions(hakmem-play PRIVATE _GNU_SOURCE)
target_compile_options(hakmem-play PRIVATE -fno-builtin)
target_link_libraries(hakmem-play PRIVATE hakmem_recording hakmem_warnings hakmem_sanitizer Threads::Threads ${CMAKE_DL_LIBS})

include(CheckSymbolExists)
set(CMAKE_REQUIRED_DEFINITIONS -D_GNU_SOURCE)
check_symbol_exists(strerrordesc_np string.h HAKMEM_HAS_STRERRORDESC)
check_symbol_exists(__GLIBC__ features.h HAKMEM_HAS_GLIBC)
if(NOT HAKMEM_OVERRIDE OR NOT HAKMEM_HAS_GLIBC)
  return() # a sanitizer has its own malloc, and the library is only for glibc
endif()
add_library(hakmem_record SHARED ${hakmem_record_dir}/calls.c ${hakmem_record_dir}/log.c ${hakmem_record_dir}/next.c
  ${hakmem_record_dir}/figures.c)
set_target_properties(hakmem_record PROPERTIES OUTPUT_NAME hakmem-record LINKER_LANGUAGE C)
target_compile_definitions(hakmem_record PRIVATE _GNU_SOURCE $<$<BOOL:${HAKMEM_HAS_STRERRORDESC}>:HAKRECORD_NAMES_ERRORS>)
# -fexceptions is needed because bad_alloc passes through the operators.
target_compile_options(hakmem_record PRIVATE -fexceptions -fvisibility=hidden -ftls-model=initial-exec -fno-builtin)
target_link_libraries(hakmem_record PRIVATE hakmem_warnings)
target_link_options(hakmem_record PRIVATE -Wl,-z,relro,-z,now,-z,nodelete,-z,initfirst)
hakmem_coarse_pages(hakmem_record ${HAKMEM_TEST_PAGE})
