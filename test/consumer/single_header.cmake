# SPDX-License-Identifier: BSL-1.0
# Makes the single header, checks its first line, and builds and runs a program with each compiler;
# with the first one it has a second translation unit, because the header must not define anything twice.
# -Dsource= the project; -Dwork= where to work; -Dversion=; -Dpython=; -Dcompilers= a list
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}/pooled")
execute_process(COMMAND "${python}" "${source}/tools/single_header.py" "${work}/pooled/pooled.hpp" OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)

file(STRINGS "${work}/pooled/pooled.hpp" first LIMIT_COUNT 1)
if(NOT first MATCHES "^// pooled ${version}: ")
  message(FATAL_ERROR "the first line must name version ${version}: ${first}")
endif()

set(other "${work}/other.cpp")
file(WRITE "${other}" "#include <pooled/pooled.hpp>\n#include <pooled/pooled.hpp>\n"
     "std::shared_ptr<int> other() { return pooled::make_shared<int>(POOLED_VERSION); }\n")
foreach(compiler IN LISTS compilers)
  cmake_path(GET compiler FILENAME name)
  execute_process(COMMAND "${compiler}" -std=c++20 -O0 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -pthread
                          "-I${work}" "${source}/test/consumer/main.cpp" ${other} -o "${work}/${name}"
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${work}/${name}" COMMAND_ERROR_IS_FATAL ANY)
  set(other "")
endforeach()
