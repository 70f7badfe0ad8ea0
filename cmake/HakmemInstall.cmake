# What `make install` lays down: libraries, header, pkg-config file, CMake package, launcher.
include(CMakePackageConfigHelpers)
set(hakmem_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hakmem)

install(TARGETS hakmem-replay hakmem-play DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hakmem hakmem_static EXPORT hakmem-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET hakmem_hardened)
  # Preloaded only: no program links to it.
  install(TARGETS hakmem_hardened LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET hakmem_object)
  install(FILES ${hakmem_object} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET hakmem_record)
  install(TARGETS hakmem_record LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/include/hakmem.h ${PROJECT_SOURCE_DIR}/include/hakmem.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT hakmem-targets NAMESPACE hakmem:: DESTINATION ${hakmem_package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/hakmem-config.cmake.in hakmem-config.cmake
  INSTALL_DESTINATION ${hakmem_package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(hakmem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hakmem-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/hakmem-config-version.cmake
  DESTINATION ${hakmem_package_dir})

# The .pc file and the launcher find the library relative to themselves, so that the whole tree may be moved.
file(RELATIVE_PATH hakmem_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/hakmem.pc.in hakmem.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hakmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

file(RELATIVE_PATH hakmem_bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
configure_file(${PROJECT_SOURCE_DIR}/tools/hakmem-run.in hakmem-run @ONLY
  FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/hakmem-run DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/tools/hakmem/man/hakmem.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
