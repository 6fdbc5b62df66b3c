# SPDX-License-Identifier: BSL-1.0
# Builds a program and prints its pools and pointers in gdb: with the printers, and by the expressions of the natvis file.
# -Dsource= -Dbuild= the project and its build; -Dwork= where to work; -Dcompiler= -Dflags=; -Dgdb=
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}")
execute_process(COMMAND "${compiler}" -std=c++20 -g -O0 -pthread "-I${source}/include" "${source}/test/consumer/gdb/main.cpp"
                        -o "${work}/program" COMMAND_ERROR_IS_FATAL ANY)
set(commands "")
foreach(name IN ITEMS packets local numbers allocator empty answer observer view expired array *answer view->second
        *unique *shared)
  list(APPEND commands -ex "print ${name}")
endforeach()
# With a libpooled that has no debug information: that of the build.
execute_process(COMMAND "${compiler}" -std=c++20 -g -O0 -DPOOLED_STATIC=1 -pthread "-I${source}/include"
                        "${source}/test/consumer/gdb/main.cpp" "${build}/libpooled-static.a" -o "${work}/compiled"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${gdb}" -nx -batch -ex "source ${source}/tools/debuggers/pooled_gdb.py" -ex "break stop" -ex run -ex up
                        -ex "print packets" "${work}/compiled"
                OUTPUT_VARIABLE of_compiled ERROR_VARIABLE of_compiled)
set(ENV{NATVIS} "${source}/tools/debuggers/pooled.natvis")
execute_process(COMMAND "${gdb}" -nx -batch -ex "source ${source}/tools/debuggers/pooled_gdb.py" -ex "break stop" -ex run -ex up
                        ${commands} -ex "source ${source}/test/consumer/gdb/natvis.py" "${work}/program"
                OUTPUT_VARIABLE said ERROR_VARIABLE said)
string(APPEND said "${of_compiled}")
foreach(expected IN ITEMS
        "pool (not shown: There is no member named m_name. Build libpooled with -g.)"
        "pool \"packets\", 65536 bytes of at most 1048576 from upstream"
        "local_pool \"local\", 0 bytes from upstream"
        "object_pool \"numbers\", 3 objects of at most 64"
        "pool_allocator of pool \"packets\""
        "rc_ptr (empty)"
        "rc_ptr (use count 2, weak count 1) = {get() = 42}"
        "weak_rc_ptr (use count 2, weak count 1) = {get() = 42}"
        "second = 2"
        "$11 = 42"
        "$12 = 2"
        "$13 = 8"
        "$14 = 9"
        "weak_rc_ptr (expired)"
        "natvis: 12 expressions, types left: []"
        "rc_ptr (use count 1, weak count 0) = {get() = {5, 5, 5}}")
  string(FIND "${said}" "${expected}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "gdb does not show\n  ${expected}\nbut\n${said}")
  endif()
endforeach()
