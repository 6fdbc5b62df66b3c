# SPDX-License-Identifier: BSL-1.0
# A Debian package: cpack -G DEB in a build directory. It has the headers and the static library; with POOLED_BUILD_LIBRARIES also the
# shared one.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME libpooled-dev)
set(CPACK_PACKAGE_VENDOR "the pooled authors")
set(CPACK_PACKAGE_CONTACT "the pooled authors <pooled@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, libstdc++6")
if(POOLED_BUILD_POOLHEAP)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libdw1, libelf1")
endif()
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++ (>= 12), cmake (>= 3.25)")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# gdb finds the printers automatically.
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/tools/packaging/debian/stage.cmake")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/tools/packaging/debian/conffiles")
include(CPack)
