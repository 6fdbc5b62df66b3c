# SPDX-License-Identifier: BSL-1.0
# Builds the Debian package, installs it into a separate root, builds and runs a program with it, and removes it.
# -Dbuild= the configured project; -Dwork= where to work; -Dproject= the program; -Dcompiler= -Dflags= -Dversion=
file(REMOVE_RECURSE "${work}")
set(root "${work}/root")
file(MAKE_DIRECTORY "${root}/var/lib/dpkg/updates" "${root}/var/lib/dpkg/info")
file(TOUCH "${root}/var/lib/dpkg/status")

execute_process(COMMAND "${CMAKE_CPACK_COMMAND}" --config "${build}/CPackConfig.cmake" -G DEB -B "${work}" OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB package "${work}/libpooled-dev_${version}*_*.deb")
set(dpkg dpkg --root=${root} --force-not-root --force-script-chrootless --log=${work}/dpkg.log)
# The packages that it depends on are not in that root.
execute_process(COMMAND ${dpkg} --force-depends --install "${package}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

execute_process(COMMAND "${CMAKE_COMMAND}" -S "${project}" -B "${work}/consumer" -G Ninja "-DCMAKE_CXX_COMPILER=${compiler}"
                        "-DCMAKE_CXX_FLAGS=${flags}" "-DCMAKE_PREFIX_PATH=${root}/usr" "-Dexpected_version=${version}"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}/consumer" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${work}/consumer/consumer" COMMAND_ERROR_IS_FATAL ANY)

# gdb's start-up file names printers that exist.
file(READ "${root}/etc/gdb/gdbinit.d/pooled.py" startup)
string(REGEX MATCH "\"(/usr/[^\"]+)\"" found "${startup}")
if(NOT found OR NOT EXISTS "${root}${CMAKE_MATCH_1}")
  message(FATAL_ERROR "gdb would not find the printers:\n${startup}")
endif()

execute_process(COMMAND ${dpkg} --purge libpooled-dev OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE left "${root}/usr/*" "${root}/etc/*")
if(left)
  message(FATAL_ERROR "files stay after the package was removed:\n${left}")
endif()
