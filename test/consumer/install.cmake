# SPDX-License-Identifier: BSL-1.0
# Installs to `installed`, checks what arrived, then moves the tree to `prefix`.
file(REMOVE_RECURSE "${installed}" "${prefix}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --component pooled --prefix "${installed}" OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE expected RELATIVE "${source}" "${source}/include/*.hpp")
list(APPEND expected share/cmake/pooled/pooledConfig.cmake share/cmake/pooled/pooledConfigVersion.cmake
     share/cmake/pooled/pooledTargets.cmake share/licenses/pooled/LICENSE share/pkgconfig/pooled.pc
     share/pooled/modules/pooled.cppm share/pooled/pooled.natvis
     share/pooled/pooled_gdb.py)
file(GLOB_RECURSE actual RELATIVE "${installed}" "${installed}/*")
list(SORT expected)
list(SORT actual)
if(NOT expected STREQUAL actual)
  list(JOIN expected "\n  " expected)
  list(JOIN actual "\n  " actual)
  message(FATAL_ERROR "The installed files are not those expected.\nexpected:\n  ${expected}\nactual:\n  ${actual}")
endif()

file(GLOB_RECURSE generated "${installed}/share/*")
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
