# SPDX-License-Identifier: BSL-1.0
# GoogleTest from its source package, so that it is compiled by the toolchain under test: Debian's
# compiled library is made for libstdc++ and crashes inside a libc++ program.
find_path(POOLED_GTEST_SOURCE_DIR NAMES googletest/src/gtest-all.cc PATH_SUFFIXES src/googletest
          DOC "Directory of the GoogleTest sources")
if(NOT POOLED_GTEST_SOURCE_DIR)
  message(FATAL_ERROR "GoogleTest's sources were not found. Install them (Debian, Ubuntu: apt-get install "
                      "googletest), or pass -DPOOLED_GTEST_SOURCE_DIR=<a googletest checkout>, or configure "
                      "with -DPOOLED_BUILD_TESTS=OFF.")
endif()

enable_language(C)  # needed by GoogleTest's own project()
set(INSTALL_GTEST OFF CACHE INTERNAL "")
set(BUILD_GMOCK OFF CACHE INTERNAL "")
add_subdirectory("${POOLED_GTEST_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL SYSTEM)
include(GoogleTest)

# GCC 12 warns wrongly inside it (-Wrestrict, GCC bug 105651), so its warnings are off. Its speed does not matter: without
# optimisation it compiles in a quarter of the time.
target_compile_options(gtest PRIVATE -w -O0)
target_compile_options(gtest_main PRIVATE -w -O0)
# For a death test that starts its program anew it compares the addresses of two local variables to learn which way the stack grows.
# GCC's AddressSanitizer would put them on the heap, and the process could end without a message; GoogleTest's attribute for that
# is Clang's alone.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(gtest PRIVATE --param=asan-use-after-return=0)
endif()
