# SPDX-License-Identifier: BSL-1.0
# Installs to `installed`, checks what arrived, then moves the tree to `prefix`.
file(REMOVE_RECURSE "${installed}" "${prefix}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --component pooled --prefix "${installed}" OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE expected RELATIVE "${source}" "${source}/include/*.hpp")
file(GLOB_RECURSE compat RELATIVE "${source}/compat" "${source}/compat/include/*.hpp")
list(APPEND expected ${compat})
file(STRINGS "${build}/CMakeCache.txt" library_dir REGEX "^CMAKE_INSTALL_LIBDIR:")
string(REGEX REPLACE ".*=" "" library_dir "${library_dir}")
list(APPEND expected share/licenses/pooled/LICENSE share/pooled/modules/pooled.cppm share/pooled/pooled.natvis share/pooled/pooled_gdb.py)
foreach(file IN ITEMS cmake/pooled/pooledConfig.cmake cmake/pooled/pooledConfigVersion.cmake cmake/pooled/pooledTargets.cmake
        libpooled-static.a pkgconfig/pooled.pc pkgconfig/pooled-header-only.pc pkgconfig/pooled-static.pc)
  list(APPEND expected "${library_dir}/${file}")
endforeach()
file(GLOB_RECURSE actual RELATIVE "${installed}" "${installed}/*")
list(FILTER actual EXCLUDE REGEX "pooledTargets-[a-z]+\\.cmake$|^bin/poolheap$")  # named by the build type; a package of its own
list(SORT expected)
list(SORT actual)
if(NOT expected STREQUAL actual)
  list(JOIN expected "\n  " expected)
  list(JOIN actual "\n  " actual)
  message(FATAL_ERROR "The installed files are not those expected.\nexpected:\n  ${expected}\nactual:\n  ${actual}")
endif()

file(GLOB_RECURSE generated "${installed}/share/*" "${installed}/${library_dir}/*.cmake" "${installed}/${library_dir}/*.pc")
foreach(file IN LISTS generated)
  file(READ "${file}" text)
  foreach(path IN ITEMS "${installed}" "${build}" "${source}")
    string(FIND "${text}" "${path}" position)
    if(NOT position EQUAL -1)
      message(FATAL_ERROR "${file} contains the path ${path}: the package cannot be moved.")
    endif()
  endforeach()
endforeach()

file(RENAME "${installed}" "${prefix}")
