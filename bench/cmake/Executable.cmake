# SPDX-License-Identifier: BSL-1.0
# Makes a benchmark executable: one translation unit for each pair of a workload and a contender.

set(POOLED_BENCH_DIR "${CMAKE_CURRENT_SOURCE_DIR}")

# pooled_bench_executable(<name> OPTIMISATION <flag> WORKLOADS <folder>...)
function(pooled_bench_executable name)
  cmake_parse_arguments(arg "" "OPTIMISATION" "WORKLOADS" ${ARGN})
  if(POOLED_BENCH_WORKLOADS)
    list(FILTER arg_WORKLOADS INCLUDE REGEX "^(${POOLED_BENCH_WORKLOADS})$")
    if(NOT arg_WORKLOADS)
      return()
    endif()
  endif()

  add_executable(${name} main.cpp support/environment.cpp support/registry.cpp support/report.cpp)
  # The compiled library, as its users have it. A program without optimisation or with its user's flags compiles all of it with these
  # flags, and a list needs none.
  set(library pooled::pooled)
  if(POOLED_BENCH_LIST_ONLY OR arg_OPTIMISATION STREQUAL "-O0" OR name STREQUAL "pooled-bench-own")
    set(library pooled::header_only)
  endif()
  target_link_libraries(${name} PRIVATE ${library} CLI11::CLI11 nlohmann_json::nlohmann_json)
  target_include_directories(${name} PRIVATE "${POOLED_BENCH_DIR}" "${PROJECT_SOURCE_DIR}/compat/include")
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wconversion -Wshadow)
  # A sanitizer or debug build runs the benchmark for its arithmetic, keeps its own flags and says so.
  set(optimisation "${CMAKE_BUILD_TYPE}")
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    set(optimisation "${arg_OPTIMISATION}")
    # A smoke run has the name of the executable that it represents, and measures nothing.
    if(POOLED_BENCH_SMOKE OR POOLED_BENCH_LIST_ONLY)
      target_compile_options(${name} PRIVATE -O0)
    else()
      target_compile_options(${name} PRIVATE ${arg_OPTIMISATION})
    endif()
  endif()
  # The flags that a record contains: those of the configuration, then this executable's own, which take precedence.
  string(TOUPPER "${CMAKE_BUILD_TYPE}" configuration)
  string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${configuration}} -std=c++20" flags)
  if(optimisation STREQUAL "${arg_OPTIMISATION}")
    string(APPEND flags " ${arg_OPTIMISATION}")
  endif()
  target_compile_definitions(${name} PRIVATE POOLED_BENCH_OPTIMISATION="${optimisation}"
    POOLED_BENCH_FLAGS="${flags}")
  # Few translation units take a tenth of the time to compile, but measure something else.
  if(POOLED_BENCH_SMOKE OR POOLED_BENCH_LIST_ONLY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  endif()
  if(POOLED_BENCH_LIST_ONLY)
    target_compile_definitions(${name} PRIVATE POOLED_BENCH_LIST_ONLY)
  endif()
  # Nearly all the time of so many small units is spent on the same standard headers.
  target_precompile_headers(${name} PRIVATE <algorithm> <chrono> <memory> <string> <thread> <vector>)

  set(not_built "")
  foreach(workload IN LISTS arg_WORKLOADS)
    target_sources(${name} PRIVATE ${workload}/description.cpp)
    # Most of a unit's time are the headers: four have the workloads in turn, and one has them where that is all there is.
    list(FIND arg_WORKLOADS ${workload} group)
    math(EXPR group "${group} % 4")
    if(POOLED_BENCH_LIST_ONLY)
      set(group all)
    endif()
    foreach(contender IN LISTS POOLED_CONTENDERS_${workload})
      if(POOLED_BENCH_CONTENDERS AND NOT "${contender}" MATCHES "^(${POOLED_BENCH_CONTENDERS})$"
         AND NOT "${workload}/${contender}" MATCHES "^(${POOLED_BENCH_CONTENDERS})$")
        continue()
      endif()
      pooled_bench_family(${contender} family)
      if(POOLED_WHY_NOT_${family})
        string(APPEND not_built "    registry::instance().add(entry{\"${workload}\", \"${contender}\", nullptr, {}, "
                                "\"${POOLED_WHY_NOT_${family}}\"});\n")
        continue()
      endif()
      pooled_bench_pair(${workload} ${contender} unit)
      target_sources(${name} PRIVATE "${unit}")
      set_source_files_properties("${unit}" PROPERTIES UNITY_GROUP "${group}")
      if(POOLED_LINK_${family})
        target_link_libraries(${name} PRIVATE ${POOLED_LINK_${family}})
      endif()
    endforeach()
  endforeach()

  set(POOLED_NOT_BUILT "${not_built}")
  configure_file("${POOLED_BENCH_DIR}/support/not_built.cpp.in" "${CMAKE_CURRENT_BINARY_DIR}/${name}-not-built.cpp" @ONLY)
  target_sources(${name} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/${name}-not-built.cpp")
endfunction()

# Writes the translation unit of a pair. A contender of the workload's own folder goes before a general one.
function(pooled_bench_pair workload contender result)
  set(POOLED_PAIR_WORKLOAD ${workload})
  set(POOLED_PAIR_NAME ${contender})
  set(POOLED_PAIR_HEADER "contender/${contender}.hpp")
  if(EXISTS "${POOLED_BENCH_DIR}/${workload}/${contender}.hpp")
    set(POOLED_PAIR_HEADER "${workload}/${contender}.hpp")
  endif()
  set(unit "${CMAKE_CURRENT_BINARY_DIR}/pairs/${workload}/${contender}.cpp")
  configure_file("${POOLED_BENCH_DIR}/support/pair.cpp.in" "${unit}" @ONLY)
  set(${result} "${unit}" PARENT_SCOPE)
endfunction()
