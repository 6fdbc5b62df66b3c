# SPDX-License-Identifier: BSL-1.0
# CPack runs this after it has installed the files under /usr: gdb's start-up file lies outside of that prefix.
file(COPY "${CMAKE_CURRENT_LIST_DIR}/pooled.py" DESTINATION "${CPACK_TEMPORARY_DIRECTORY}/etc/gdb/gdbinit.d"
     FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
