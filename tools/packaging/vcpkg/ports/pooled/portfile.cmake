# SPDX-License-Identifier: BSL-1.0
# Overlay port of the checkout it lies in: vcpkg install pooled --overlay-ports=<checkout>/tools/packaging/vcpkg/ports
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES libraries POOLED_BUILD_LIBRARIES poolheap POOLED_BUILD_POOLHEAP)
if("poolheap" IN_LIST FEATURES)
  vcpkg_find_acquire_program(PKGCONFIG)
  list(APPEND features "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}")
  if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    list(APPEND features -DPKG_CONFIG_ARGN=--static)
  endif()
endif()
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../../.." ABSOLUTE)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DPOOLED_BUILD_TESTS=OFF -DPOOLED_BUILD_BENCH=OFF -DPOOLED_BUILD_EXAMPLES=OFF -DPOOLED_INSTALL=ON
          ${features})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/pooled)
vcpkg_fixup_pkgconfig()
if("poolheap" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES poolheap AUTO_CLEAN)
endif()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
     "${CURRENT_PACKAGES_DIR}/share/licenses")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
