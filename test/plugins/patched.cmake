# SPDX-License-Identifier: BSL-1.0
# patchelf moves notes without a change of their content, as do the programs that use it (auditwheel, conda, Nix): copies of the library in
# such files find each other, too. HOST opens PLUGIN; FOLDER is for the patched ones.
find_program(POOLED_PATCHELF patchelf)
if(NOT POOLED_PATCHELF)
  message("patchelf was not found: skipped")
  return()
endif()

string(REPEAT "/directory" 40 long_path)
file(MAKE_DIRECTORY "${FOLDER}")
set(patched "")
foreach(original IN ITEMS "${HOST}" "${PLUGIN}")
  cmake_path(GET original FILENAME name)
  set(file "${FOLDER}/${name}")
  configure_file("${original}" "${file}" COPYONLY)
  execute_process(COMMAND "${POOLED_PATCHELF}" --set-rpath "${long_path}" "${file}" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${POOLED_PATCHELF}" --add-needed libm.so.6 "${file}" COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND patched "${file}")
endforeach()
list(POP_FRONT patched host)
execute_process(COMMAND "${host}" local same ${patched} COMMAND_ERROR_IS_FATAL ANY)
