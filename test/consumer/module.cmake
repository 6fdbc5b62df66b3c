# SPDX-License-Identifier: BSL-1.0
# Installs the library and builds a program that imports it as a module.
# -Dsource= -Dbuild= the project and its build; -Dwork= where to work; -Dmodule_cmake= 3.28 or later; -Dmodule_compiler=; -Dninja=
file(REMOVE_RECURSE "${work}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/prefix" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${module_cmake}" -S "${source}/test/consumer/module" -B "${work}/build" -G Ninja
                        "-DCMAKE_MAKE_PROGRAM=${ninja}" "-DCMAKE_CXX_COMPILER=${module_compiler}"
                        "-DCMAKE_PREFIX_PATH=${work}/prefix" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${module_cmake}" --build "${work}/build" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${work}/build/consumer" COMMAND_ERROR_IS_FATAL ANY)
