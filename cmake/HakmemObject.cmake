# Builds hakmem.o, the whole library as one object file, for `cc program.c hakmem.o`. The linker takes an object file always, but it takes files out
# of an archive only if they are needed at that position. Only the public names stay visible, so no other name can collide with one of the program.
if(NOT HAKMEM_OVERRIDE OR HAKMEM_SANITIZE OR HAKMEM_COVERAGE)
  return()
endif()
set(hakmem_object ${CMAKE_CURRENT_BINARY_DIR}/hakmem.o)
add_custom_command(OUTPUT ${hakmem_object} VERBATIM COMMAND_EXPAND_LISTS DEPENDS hakmem_objects $<TARGET_OBJECTS:hakmem_objects>
  COMMAND ${CMAKE_LINKER} -r -o ${hakmem_object} $<TARGET_OBJECTS:hakmem_objects>
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${hakmem_object})
add_custom_target(hakmem_object ALL DEPENDS ${hakmem_object})
