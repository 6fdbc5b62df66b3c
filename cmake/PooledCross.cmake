# SPDX-License-Identifier: BSL-1.0
# Toolchain file of the presets aarch64 and riscv64: Debian's cross compiler of the processor POOLED_CROSS_PROCESSOR, and
# qemu's user-mode emulation to run its programs. POOLED_CROSS_PAGE_BYTES: the page size that programs see; empty for 4096.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES POOLED_CROSS_PROCESSOR POOLED_CROSS_PAGE_BYTES)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${POOLED_CROSS_PROCESSOR}")
set(triple "${POOLED_CROSS_PROCESSOR}-linux-gnu")

# Without a version where there is a default compiler (package g++-<triple>), else that of Debian 12.
foreach(language IN ITEMS C CXX)
  string(REPLACE "C" "gcc" name "${language}")
  string(REPLACE "gccXX" "g++" name "${name}")
  find_program(CMAKE_${language}_COMPILER NAMES "${triple}-${name}" "${triple}-${name}-12" REQUIRED)
endforeach()
find_program(POOLED_QEMU NAMES "qemu-${POOLED_CROSS_PROCESSOR}" REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR "${POOLED_QEMU}" -L "/usr/${triple}")
if(POOLED_CROSS_PAGE_BYTES)
  list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -p "${POOLED_CROSS_PAGE_BYTES}")
endif()

set(CMAKE_FIND_ROOT_PATH "/usr/${triple}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
# BOTH: GoogleTest's sources and header-only libraries lie in the system's directories.
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
