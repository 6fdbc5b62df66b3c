# SPDX-License-Identifier: BSL-1.0
# Install rules: headers, libraries, the exported CMake package and pkg-config files.
# The package and the .pc files find everything relative to themselves: the prefix can be moved after installation.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

target_include_directories(pooled_header_only INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/pooled" "${PROJECT_SOURCE_DIR}/compat/include/pooled" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/pooled")

# How debuggers show pools and pointers: docs/debugging.md.
install(FILES "${PROJECT_SOURCE_DIR}/tools/debuggers/pooled_gdb.py" "${PROJECT_SOURCE_DIR}/tools/debuggers/pooled.natvis"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/pooled")

# The source of the module: each project compiles it with its own flags.
set(pooled_module_dir "${CMAKE_INSTALL_DATADIR}/pooled/modules")
install(FILES "${PROJECT_SOURCE_DIR}/modules/pooled.cppm" DESTINATION "${pooled_module_dir}")

set(pooled_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pooled")
list(TRANSFORM pooled_installed PREPEND pooled_ OUTPUT_VARIABLE pooled_targets)
install(TARGETS pooled_header_only pooled_compat ${pooled_targets} EXPORT pooledTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT pooledTargets NAMESPACE pooled:: DESTINATION "${pooled_package_dir}")
if(POOLED_BUILD_LIBRARIES)
  install(TARGETS ${pooled_new_targets} EXPORT pooledTargets
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/pooledConfig.cmake.in" "${PROJECT_BINARY_DIR}/pooledConfig.cmake"
  INSTALL_DESTINATION "${pooled_package_dir}" PATH_VARS pooled_module_dir NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break its users (semver.org, item 4).
write_basic_package_version_file("${PROJECT_BINARY_DIR}/pooledConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/pooledConfig.cmake" "${PROJECT_BINARY_DIR}/pooledConfigVersion.cmake"
        DESTINATION "${pooled_package_dir}")

set(pooled_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
foreach(part IN ITEMS include lib)
  string(TOUPPER "CMAKE_INSTALL_${part}DIR" pooled_dir)
  set(pooled_pc_${part}dir "${${pooled_dir}}")
  if(NOT IS_ABSOLUTE "${pooled_pc_${part}dir}")
    string(PREPEND pooled_pc_${part}dir "\${prefix}/")
  endif()
endforeach()
if(IS_ABSOLUTE "${pooled_pc_dir}")
  set(pooled_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  # From the .pc file's own directory up to the prefix: one ".." a path element.
  string(REGEX REPLACE "[^/]+" ".." pooled_pc_up "${pooled_pc_dir}")
  set(pooled_pc_prefix "\${pcfiledir}/${pooled_pc_up}")
endif()
# pooled: the library that is pooled::pooled. pooled-header-only: the headers alone. pooled-static, pooled-shared.
set(pooled_pc_files pooled pooled-header-only)
foreach(kind IN LISTS pooled_installed)
  string(TOUPPER ${kind} pooled_pc_macro)
  get_target_property(pooled_pc_library pooled_${kind} OUTPUT_NAME)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/pooled-library.pc.in" "${PROJECT_BINARY_DIR}/pooled-${kind}.pc" @ONLY)
  list(APPEND pooled_pc_files pooled-${kind})
endforeach()
if(POOLED_BUILD_LIBRARIES AND pooled_new_targets)
  list(APPEND pooled_pc_files pooled-new)
  if(TARGET pooled_malloc)
    list(APPEND pooled_pc_files pooled-malloc)
  endif()
endif()
foreach(name IN LISTS pooled_pc_files)
  if(EXISTS "${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in")
    configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  endif()
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${pooled_pc_dir}")
endforeach()
