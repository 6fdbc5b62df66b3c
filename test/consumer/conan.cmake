# SPDX-License-Identifier: BSL-1.0
# `conan create` of the static library, of the shared one and of the headers, with the test_package, in a separate Conan home and without remotes.
# -Dconan= the command; -Dsource= the project; -Dwork= where to work; -Dcompiler= -Dflags=
file(REMOVE_RECURSE "${work}")
set(ENV{CONAN_HOME} "${work}/home")
set(ENV{CXX} "${compiler}")
execute_process(COMMAND "${conan}" profile detect OUTPUT_QUIET ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
foreach(options IN ITEMS "" "-o;pooled/*:shared=True" "-o;pooled/*:header_only=True")
  execute_process(COMMAND "${conan}" create "${source}/tools/packaging/conan" --no-remote -s compiler.cppstd=20 ${options}
                          -c tools.cmake.cmaketoolchain:generator=Ninja -c "tools.cmake.cmake_layout:test_folder=${work}/test"
                          -c "tools.cmake.cmaketoolchain:extra_variables={'CMAKE_CXX_FLAGS_RELEASE': {'value': '-DNDEBUG', 'cache': True, 'type': 'STRING', 'docstring': ''}}"
                          -c tools.cmake.cmaketoolchain:user_presets= -tf "${source}/tools/packaging/conan/test_package"
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed WORKING_DIRECTORY "${work}")
  if(failed)
    message(FATAL_ERROR "${said}")
  endif()
endforeach()
