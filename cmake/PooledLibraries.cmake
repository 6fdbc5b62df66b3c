# SPDX-License-Identifier: BSL-1.0
# pooled::header_only: the headers alone. pooled::static and pooled::shared: what the headers leave out under POOLED_STATIC and
# POOLED_SHARED, compiled once. pooled::pooled is the one of the two that BUILD_SHARED_LIBS chooses: static by default.
# A library is built when something links it or it is installed; POOLED_BUILD_LIBRARIES builds and installs both.
add_library(pooled_header_only INTERFACE)
add_library(pooled::header_only ALIAS pooled_header_only)
target_compile_features(pooled_header_only INTERFACE cxx_std_20)
target_link_libraries(pooled_header_only INTERFACE Threads::Threads)
# To a project that adds this one they are system headers, as they are when installed: its warnings are of its own code.
set(pooled_system "")
if(NOT PROJECT_IS_TOP_LEVEL)
  set(pooled_system SYSTEM)
endif()
target_include_directories(pooled_header_only ${pooled_system} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
set_target_properties(pooled_header_only PROPERTIES EXPORT_NAME header_only)

# docs/platforms.md says why.
if(WIN32)
  message(STATUS "pooled: on Windows there is no pooled::shared, no pooled::new_delete and no pooled::new_delete_preload; "
                 "pooled::pooled is pooled::static")
endif()
set(pooled_default static)
if(BUILD_SHARED_LIBS AND NOT WIN32)
  set(pooled_default shared)
endif()
set(pooled_installed ${pooled_default})
# So it does with pooled::new_delete, the global operator new and delete, and pooled::new_delete_preload, the same for LD_PRELOAD; and
# with pooled::malloc and pooled::malloc_preload, which have all of malloc's interface as well.
set(pooled_on_demand EXCLUDE_FROM_ALL)
if(POOLED_BUILD_LIBRARIES)
  set(pooled_installed shared static)
  set(pooled_on_demand "")
endif()
set(pooled_kinds shared static)
if(WIN32)
  set(pooled_kinds static)
  set(pooled_installed static)
endif()

foreach(name IN LISTS pooled_kinds)
  string(TOUPPER ${name} kind)
  set(on_demand ${pooled_on_demand})
  if(POOLED_INSTALL AND name STREQUAL pooled_default)
    set(on_demand "")
  endif()
  add_library(pooled_${name} ${kind} ${on_demand} "${PROJECT_SOURCE_DIR}/src/pooled.cpp")
  add_library(pooled::${name} ALIAS pooled_${name})
  target_link_libraries(pooled_${name} PUBLIC pooled_header_only)
  target_compile_definitions(pooled_${name} INTERFACE POOLED_${kind}=1)
  # The version is part of each symbol's name, so another version cannot replace it.
  set_target_properties(pooled_${name} PROPERTIES
    EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION})
endforeach()
if(TARGET pooled_shared)
  set_target_properties(pooled_shared PROPERTIES OUTPUT_NAME pooled)
endif()
set_target_properties(pooled_static PROPERTIES OUTPUT_NAME pooled-static)  # -lpooled is then the shared one wherever both are
add_library(pooled ALIAS pooled_${pooled_default})
add_library(pooled::pooled ALIAS pooled_${pooled_default})

# A sanitizer has operators of its own.
if(NOT WIN32 AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*(address|thread|memory|leak)")
  function(pooled_set_replacement_options)
    foreach(each IN LISTS ARGN)
      # A program may replace some of the functions. Without the second option, Clang calls and inlines those of this file.
      target_compile_options(${each} PRIVATE -ftls-model=initial-exec -fsemantic-interposition)
      target_compile_definitions(${each} PRIVATE POOLED_INITIAL_EXEC=1)
      set_target_properties(${each} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                               POSITION_INDEPENDENT_CODE ON)
    endforeach()
  endfunction()
  # The slow paths and the state, as both libraries for LD_PRELOAD have them.
  add_library(pooled_preloaded OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/src/pooled.cpp")
  target_link_libraries(pooled_preloaded PRIVATE pooled_header_only)
  target_compile_definitions(pooled_preloaded PRIVATE POOLED_PRELOADED=1)
  pooled_set_replacement_options(pooled_preloaded)
  # pooled_add_replacement(<name> <library> <target> <symbol>): src/<name>.cpp for a program to link, pooled::<name>, and for LD_PRELOAD,
  # pooled::<name>_preload.
  function(pooled_add_replacement name library target symbol)
    set(source "${PROJECT_SOURCE_DIR}/src/${name}.cpp")
    add_library(pooled_${name} STATIC ${pooled_on_demand} "${source}")
    target_link_libraries(pooled_${name} PUBLIC pooled_static)
    # A linker takes an archive's member for a name that is undefined: the program may call the functions in other libraries alone.
    target_link_options(pooled_${name} INTERFACE LINKER:-u,${symbol})
    add_library(${target} SHARED ${pooled_on_demand} "${source}" $<TARGET_OBJECTS:pooled_preloaded>)
    target_link_libraries(${target} PRIVATE pooled_header_only)
    target_compile_definitions(${target} PRIVATE POOLED_PRELOADED=1)
    set_source_files_properties("${source}" PROPERTIES COMPILE_DEFINITIONS POOLED_STATIC=1)
    target_link_options(${target} PRIVATE LINKER:-z,nodelete LINKER:-z,initfirst)
    pooled_set_replacement_options(pooled_${name} ${target})
    set_target_properties(pooled_${name} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME ${library}-static)
    # Without a version: the name stands in LD_PRELOAD.
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name}_preload OUTPUT_NAME ${library})
    add_library(pooled::${name} ALIAS pooled_${name})
    add_library(pooled::${name}_preload ALIAS ${target})
  endfunction()
  pooled_add_replacement(new_delete pooled-new pooled_new _Znwm)
  set(pooled_new_targets pooled_new_delete pooled_new)
  if(NOT APPLE)  # its loader has malloc's functions replaced in another way
    pooled_add_replacement(malloc pooled-malloc pooled_malloc_preload malloc)
    list(APPEND pooled_new_targets pooled_malloc pooled_malloc_preload)
  endif()
endif()
