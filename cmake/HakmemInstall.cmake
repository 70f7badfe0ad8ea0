# Says what `make install` installs: libraries, header, pkg-config file, CMake package and launcher. The components become the packages of
# HakmemPackages.cmake: library (programs link to it or run on it), development (programs are built with it), and tools.
include(CMakePackageConfigHelpers)
set(HAKMEM_PRELOAD_DIR ${CMAKE_INSTALL_LIBDIR} CACHE STRING "where the libraries lie that are preloaded only: hardened, record")
option(HAKMEM_TOOL "install the Python tool and the completion of its commands too; else pip does (tools/hakmem)" OFF)
set(HAKMEM_PYTHON_DIR lib/python3/dist-packages CACHE STRING "where HAKMEM_TOOL installs the tool's modules")
set(hakmem_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hakmem)

install(TARGETS hakmem-replay hakmem-play DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
install(TARGETS hakmem hakmem_static EXPORT hakmem-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
if(TARGET hakmem_hardened)
  # This library is only preloaded. No program links to it.
  install(TARGETS hakmem_hardened LIBRARY DESTINATION ${HAKMEM_PRELOAD_DIR} COMPONENT library)
endif()
if(TARGET hakmem_object)
  install(FILES ${hakmem_object} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET hakmem_record)
  install(TARGETS hakmem_record LIBRARY DESTINATION ${HAKMEM_PRELOAD_DIR} COMPONENT tools)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/include/hakmem.h ${PROJECT_SOURCE_DIR}/include/hakmem.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT hakmem-targets NAMESPACE hakmem:: DESTINATION ${hakmem_package_dir} COMPONENT development)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/hakmem-config.cmake.in hakmem-config.cmake
  INSTALL_DESTINATION ${hakmem_package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(hakmem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hakmem-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/hakmem-config-version.cmake
  DESTINATION ${hakmem_package_dir} COMPONENT development)

# The .pc file and the launcher find the library relative to themselves, so that the whole tree may be moved.
file(RELATIVE_PATH hakmem_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/hakmem.pc.in hakmem.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hakmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

file(RELATIVE_PATH hakmem_bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
configure_file(${PROJECT_SOURCE_DIR}/tools/hakmem-run.in hakmem-run @ONLY
  FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/hakmem-run DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
set(hakmem_man ${PROJECT_SOURCE_DIR}/tools/man)
install(FILES ${PROJECT_SOURCE_DIR}/tools/hakmem/man/hakmem.1 ${hakmem_man}/hakmem-run.1 ${hakmem_man}/hakmem-play.1 ${hakmem_man}/hakmem-replay.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
install(FILES ${hakmem_man}/hakmem.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT development)

if(HAKMEM_TOOL)
  # If the tool is in a folder that Python does not search, the first file adds this folder to the search path.
  set(hakmem_path)
  if(NOT HAKMEM_PYTHON_DIR MATCHES "dist-packages|site-packages")
    set(hakmem_path "sys.path.insert(0, \"/usr/${HAKMEM_PYTHON_DIR}\")\n")
  endif()
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/tool/hakmem "#!/usr/bin/python3\nimport sys\n\n${hakmem_path}from hakmem.cli import main\n\nsys.exit(main())\n")
  set(tool_dir ${PROJECT_SOURCE_DIR}/tools/hakmem/hakmem)
  install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/tool/hakmem DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(DIRECTORY ${tool_dir}/ DESTINATION ${HAKMEM_PYTHON_DIR}/hakmem COMPONENT tools
    FILES_MATCHING PATTERN *.py PATTERN *.html PATTERN py.typed PATTERN __pycache__ EXCLUDE)
  # In the source tree these are links to the tables, which exist only once.
  install(FILES ${PROJECT_SOURCE_DIR}/src/policy/options.def ${PROJECT_SOURCE_DIR}/src/policy/profiles.def ${PROJECT_SOURCE_DIR}/src/runtime/layout.def DESTINATION ${HAKMEM_PYTHON_DIR}/hakmem COMPONENT tools)
  set(completion_of_bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions hakmem)
  set(completion_of_zsh ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions _hakmem)
  set(completion_of_fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d hakmem.fish)
  foreach(shell IN ITEMS bash zsh fish)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_SOURCE_DIR}/tools/hakmem PYTHONDONTWRITEBYTECODE=1
      ${PROJECT_SOURCE_DIR}/tools/in_venv.sh -c "from hakmem import completing; print(completing.script('${shell}'))"
      OUTPUT_VARIABLE script RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "HAKMEM_TOOL: the completion of ${shell} cannot be written: tools/setup.sh test installs what the tool needs")
    endif()
    list(GET completion_of_${shell} 0 folder)
    list(GET completion_of_${shell} 1 name)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/tool/${shell}/${name} "${script}")
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tool/${shell}/${name} DESTINATION ${folder} COMPONENT tools)
  endforeach()
endif()
