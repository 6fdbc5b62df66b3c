# SPDX-License-Identifier: BSL-1.0
# Uses the library as a Meson subproject, by the wrap of tools/packaging/meson and a repository with this version's tag.
# -Dsource= the project; -Dwork= where to work; -Dcompiler= -Dflags= -Dversion= -Dmeson= -Dgit=
file(REMOVE_RECURSE "${work}")
set(tagged "${work}/repository")
file(COPY "${source}/include" "${source}/LICENSE" "${source}/meson.build" DESTINATION "${tagged}")
set(as_somebody "${git}" -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false -c init.defaultBranch=main)
foreach(step IN ITEMS "init;-q" "add;." "commit;-q;-m;release" "tag;v${version}")
  execute_process(COMMAND ${as_somebody} ${step} WORKING_DIRECTORY "${tagged}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()

file(COPY "${source}/test/consumer/main.cpp" "${source}/test/consumer/meson/meson.build" DESTINATION "${work}/project")
file(READ "${source}/tools/packaging/meson/pooled.wrap" wrap)
string(REGEX REPLACE "\nurl = [^\n]*" "\nurl = file://${tagged}" wrap "${wrap}")
file(WRITE "${work}/project/subprojects/pooled.wrap" "${wrap}")

set(ENV{CXX} "${compiler}")
set(ENV{CXXFLAGS} "${flags}")
execute_process(COMMAND "${meson}" setup "${work}/build" "${work}/project" OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "meson setup failed\n${said}")
endif()
execute_process(COMMAND "${meson}" compile -C "${work}/build" OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "meson compile failed\n${said}")
endif()
execute_process(COMMAND "${work}/build/consumer" COMMAND_ERROR_IS_FATAL ANY)

file(READ "${work}/project/subprojects/pooled/meson.build" declared)
if(NOT declared MATCHES "version: '${version}'")
  message(FATAL_ERROR "meson.build does not say version ${version}")
endif()
