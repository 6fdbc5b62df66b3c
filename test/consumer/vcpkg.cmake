# SPDX-License-Identifier: BSL-1.0
# Runs the vcpkg port in CMake's script mode. The functions of vcpkg that it calls are replaced by the few lines that
# matter for a static library in its release form; the result is what vcpkg would package.
# -Dsource= the project; -Dwork= where to work; -Dcompiler= -Dversion=
cmake_minimum_required(VERSION 3.25)  # IN_LIST, as in vcpkg
file(REMOVE_RECURSE "${work}")
set(PORT pooled)
set(CURRENT_PACKAGES_DIR "${work}/packages")
set(port "${source}/tools/packaging/vcpkg/ports/pooled")

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
  execute_process(COMMAND "${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${work}/build" -G Ninja
                          "-DCMAKE_CXX_COMPILER=${compiler}" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG -DCMAKE_INSTALL_LIBDIR=lib
                          "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" ${arg_OPTIONS}
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}/build" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${work}/build" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" CONFIG_PATH "")
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/pooledConfig.cmake")
    message(FATAL_ERROR "no CMake package in ${arg_CONFIG_PATH}")
  endif()
  file(COPY "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}")
endfunction()
function(vcpkg_check_features)
  set(libraries -DPOOLED_BUILD_LIBRARIES=OFF PARENT_SCOPE)
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  configure_file("${arg_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright" COPYONLY)
endfunction()

include("${port}/portfile.cmake")

foreach(file IN ITEMS include/pooled/pooled.hpp lib/libpooled-static.a share/pooled/pooledConfig.cmake share/pooled/usage share/pooled/copyright)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${file}")
    message(FATAL_ERROR "the port does not package ${file}")
  endif()
endforeach()
file(READ "${port}/vcpkg.json" manifest)
string(JSON declared GET "${manifest}" version)
if(NOT declared STREQUAL version)
  message(FATAL_ERROR "vcpkg.json says version ${declared}, the project is ${version}")
endif()
