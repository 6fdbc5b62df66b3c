# SPDX-License-Identifier: BSL-1.0
# Part of the toolchain files for Windows on x86-64: Wine runs the programs.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
# Debian keeps Wine's own programs out of PATH.
find_program(POOLED_WINE NAMES wine64 wine PATHS /usr/lib/wine REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR "${CMAKE_COMMAND}" -E env WINEDEBUG=-all "${POOLED_WINE}")
