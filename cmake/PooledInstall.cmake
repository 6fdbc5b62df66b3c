# SPDX-License-Identifier: BSL-1.0
# Install rules: headers, the exported CMake package and a pkg-config file.
# None of these depends on the architecture, so the package lives under share/, and both it and the .pc file find the headers
# relative to themselves: the prefix can be moved after installation. Where the compiled libraries are installed, the package
# also names the directory for libraries: a prefix holds those of one architecture.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

target_include_directories(pooled INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/pooled" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/pooled")

# How debuggers show pools and pointers: docs/debugging.md.
install(FILES "${PROJECT_SOURCE_DIR}/tools/debuggers/pooled_gdb.py" "${PROJECT_SOURCE_DIR}/tools/debuggers/pooled.natvis"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/pooled")

# The source of the module: each project compiles it with its own flags.
set(pooled_module_dir "${CMAKE_INSTALL_DATADIR}/pooled/modules")
install(FILES "${PROJECT_SOURCE_DIR}/modules/pooled.cppm" DESTINATION "${pooled_module_dir}")

set(pooled_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/pooled")
install(TARGETS pooled EXPORT pooledTargets)
install(EXPORT pooledTargets NAMESPACE pooled:: DESTINATION "${pooled_package_dir}")
# The compiled libraries depend on the architecture: they and what CMake has to know of them lie under lib/.
set(pooled_library_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pooled")
if(POOLED_BUILD_LIBRARIES)
  install(TARGETS pooled_shared pooled_static ${pooled_new_targets} EXPORT pooledLibraries
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT pooledLibraries NAMESPACE pooled:: DESTINATION "${pooled_library_dir}")
endif()
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/pooledConfig.cmake.in" "${PROJECT_BINARY_DIR}/pooledConfig.cmake"
  INSTALL_DESTINATION "${pooled_package_dir}" PATH_VARS pooled_module_dir pooled_library_dir NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break its users (semver.org, item 4).
write_basic_package_version_file("${PROJECT_BINARY_DIR}/pooledConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/pooledConfig.cmake" "${PROJECT_BINARY_DIR}/pooledConfigVersion.cmake"
        DESTINATION "${pooled_package_dir}")

set(pooled_pc_dir "${CMAKE_INSTALL_DATADIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pooled_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(pooled_pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# Sets pooled_pc_prefix for a .pc file in `directory`.
macro(pooled_find_pc_prefix directory)
  if(IS_ABSOLUTE "${directory}")
    set(pooled_pc_prefix "${CMAKE_INSTALL_PREFIX}")
  else()
    # From the .pc file's own directory up to the prefix: one ".." a path element.
    string(REGEX REPLACE "[^/]+" ".." pooled_pc_up "${directory}")
    set(pooled_pc_prefix "\${pcfiledir}/${pooled_pc_up}")
  endif()
endmacro()
pooled_find_pc_prefix("${pooled_pc_dir}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/pooled.pc.in" "${PROJECT_BINARY_DIR}/pooled.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/pooled.pc" DESTINATION "${pooled_pc_dir}")
if(POOLED_BUILD_LIBRARIES)
  set(pooled_pc_libdir "${CMAKE_INSTALL_LIBDIR}")
  if(NOT IS_ABSOLUTE "${pooled_pc_libdir}")
    set(pooled_pc_libdir "\${prefix}/${pooled_pc_libdir}")
  endif()
  set(pooled_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  pooled_find_pc_prefix("${pooled_pc_dir}")
  foreach(kind IN ITEMS shared static)
    string(TOUPPER ${kind} pooled_pc_macro)
    get_target_property(pooled_pc_library pooled_${kind} OUTPUT_NAME)
    configure_file("${PROJECT_SOURCE_DIR}/cmake/pooled-library.pc.in" "${PROJECT_BINARY_DIR}/pooled-${kind}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/pooled-${kind}.pc" DESTINATION "${pooled_pc_dir}")
  endforeach()
  if(pooled_new_targets)
    configure_file("${PROJECT_SOURCE_DIR}/cmake/pooled-new.pc.in" "${PROJECT_BINARY_DIR}/pooled-new.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/pooled-new.pc" DESTINATION "${pooled_pc_dir}")
  endif()
endif()
