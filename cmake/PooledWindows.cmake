# SPDX-License-Identifier: BSL-1.0
# Toolchain file of the preset windows: MinGW-w64's GCC with POSIX threads for x86-64, and Wine to run its programs. They contain all
# libraries, because Wine would look for DLLs beside them.
include("${CMAKE_CURRENT_LIST_DIR}/PooledWine.cmake")
set(triple x86_64-w64-mingw32)

find_program(CMAKE_C_COMPILER NAMES "${triple}-gcc-posix" "${triple}-gcc" REQUIRED)
find_program(CMAKE_CXX_COMPILER NAMES "${triple}-g++-posix" "${triple}-g++" REQUIRED)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static")

set(CMAKE_FIND_ROOT_PATH "/usr/${triple}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
# BOTH: GoogleTest's sources and header-only libraries lie in the system's directories.
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
