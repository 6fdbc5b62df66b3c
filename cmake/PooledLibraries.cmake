# SPDX-License-Identifier: BSL-1.0
# pooled::header_only: the headers alone. pooled::static and pooled::shared: what the headers leave out under POOLED_STATIC and
# POOLED_SHARED, compiled once. pooled::pooled is the one of the two that BUILD_SHARED_LIBS chooses: static by default.
# A library is built when something links it or it is installed; POOLED_BUILD_LIBRARIES builds and installs both.
add_library(pooled_header_only INTERFACE)
add_library(pooled::header_only ALIAS pooled_header_only)
target_compile_features(pooled_header_only INTERFACE cxx_std_20)
target_link_libraries(pooled_header_only INTERFACE Threads::Threads)
target_include_directories(pooled_header_only INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
set_target_properties(pooled_header_only PROPERTIES EXPORT_NAME header_only)

set(pooled_default static)
if(BUILD_SHARED_LIBS)
  set(pooled_default shared)
endif()
set(pooled_installed ${pooled_default})
if(POOLED_BUILD_LIBRARIES)
  set(pooled_installed shared static)
endif()

foreach(name IN ITEMS shared static)
  string(TOUPPER ${name} kind)
  set(on_demand EXCLUDE_FROM_ALL)
  if(POOLED_BUILD_LIBRARIES OR (POOLED_INSTALL AND name STREQUAL pooled_default))
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
set_target_properties(pooled_shared PROPERTIES OUTPUT_NAME pooled)
set_target_properties(pooled_static PROPERTIES OUTPUT_NAME pooled-static)  # -lpooled is then the shared one wherever both are
add_library(pooled ALIAS pooled_${pooled_default})
add_library(pooled::pooled ALIAS pooled_${pooled_default})
