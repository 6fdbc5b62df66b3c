# SPDX-License-Identifier: BSL-1.0
# Toolchain file of the presets musl and windows-clang: Zig's Clang, libc++ and C library of the target POOLED_ZIG_TARGET (package
# ziglang of tools/requirements.txt, or zig in PATH). Programs contain all libraries. Those of musl run on this machine.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES POOLED_ZIG_TARGET)
file(GLOB packages "${CMAKE_CURRENT_LIST_DIR}/../.venv/lib/python3*/site-packages/ziglang")
find_program(POOLED_ZIG NAMES zig PATHS ${packages} REQUIRED)
set(CMAKE_C_COMPILER "${POOLED_ZIG}" cc -target "${POOLED_ZIG_TARGET}")
set(CMAKE_CXX_COMPILER "${POOLED_ZIG}" c++ -target "${POOLED_ZIG_TARGET}")
# Without optimisation, Zig would add UndefinedBehaviorSanitizer, which the preset asan has.
set(CMAKE_C_FLAGS_INIT "-fno-sanitize=undefined")
set(CMAKE_CXX_FLAGS_INIT "-fno-sanitize=undefined")
if(POOLED_ZIG_TARGET MATCHES "windows")
  include("${CMAKE_CURRENT_LIST_DIR}/PooledWine.cmake")
endif()
