# SPDX-License-Identifier: BSL-1.0
# A project that adds pooled as a subdirectory and installs itself must not install pooled's files.
file(REMOVE_RECURSE "${prefix}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${prefix}" COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE files "${prefix}/*")
if(files)
  message(FATAL_ERROR "pooled brought install rules into its user's project: ${files}")
endif()
