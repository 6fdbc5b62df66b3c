# SPDX-License-Identifier: BSL-1.0
# Uses the library as a Meson subproject, by the archive and the wrap that `make package` writes.
# -Dsource= the project; -Dwork= where to work; -Dcompiler= -Dflags= -Dversion= -Dmeson= -Dpython=
file(REMOVE_RECURSE "${work}")
execute_process(COMMAND "${python}" "${source}/tools/package.py" --archive-only --output "${work}/package" COMMAND_ERROR_IS_FATAL ANY)
file(COPY "${source}/test/consumer/main.cpp" "${source}/test/consumer/meson/meson.build" DESTINATION "${work}/project")
file(COPY "${work}/package/pooled.wrap" DESTINATION "${work}/project/subprojects")
file(COPY "${work}/package/pooled-${version}.tar.gz" DESTINATION "${work}/project/subprojects/packagefiles")

set(ENV{CXX} "${compiler}")
set(ENV{CXXFLAGS} "${flags}")
execute_process(COMMAND "${meson}" setup -Dpooled:optimization=0 "${work}/build" "${work}/project" OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "meson setup failed\n${said}")
endif()
execute_process(COMMAND "${meson}" compile -C "${work}/build" OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "meson compile failed\n${said}")
endif()
execute_process(COMMAND "${work}/build/consumer" COMMAND_ERROR_IS_FATAL ANY)

file(READ "${work}/project/subprojects/pooled-${version}/meson.build" declared)
if(NOT declared MATCHES "version: '${version}'")
  message(FATAL_ERROR "meson.build does not say version ${version}")
endif()
