# SPDX-License-Identifier: BSL-1.0
# Installs the compiled libraries, then builds and runs a project that finds them. They are those of `build`: conan.cmake builds them
# with the same option.
file(REMOVE_RECURSE "${work}")
set(toolchain "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_FLAGS=${flags}" -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG)  # the optimiser would take most of the time
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" -S "${source}" -B "${work}/build" ${toolchain} -DPOOLED_BUILD_LIBRARIES=ON -DPOOLED_BUILD_TESTS=OFF
    -DPOOLED_BUILD_BENCH=OFF -DPOOLED_BUILD_EXAMPLES=OFF)
file(GLOB libraries "${build}/libpooled*")
file(COPY ${libraries} DESTINATION "${work}/build")
run("${CMAKE_COMMAND}" --install "${work}/build" --prefix "${work}/prefix")

run("${CMAKE_COMMAND}" -S "${project}" -B "${work}/consumer" ${toolchain} "-DCMAKE_PREFIX_PATH=${work}/prefix")
run("${CMAKE_COMMAND}" --build "${work}/consumer")
run("${CMAKE_CTEST_COMMAND}" --test-dir "${work}/consumer" --output-on-failure)
