# SPDX-License-Identifier: BSL-1.0
# pooled::shared and pooled::static: what the headers leave out under POOLED_SHARED and POOLED_STATIC, compiled once. Either is
# built when something links it; POOLED_BUILD_LIBRARIES builds both, and installs them if the package is installed.
set(pooled_on_demand EXCLUDE_FROM_ALL)
if(POOLED_BUILD_LIBRARIES)
  set(pooled_on_demand "")
endif()

foreach(kind IN ITEMS SHARED STATIC)
  string(TOLOWER ${kind} name)
  add_library(pooled_${name} ${kind} ${pooled_on_demand} "${PROJECT_SOURCE_DIR}/src/pooled.cpp")
  add_library(pooled::${name} ALIAS pooled_${name})
  target_link_libraries(pooled_${name} PUBLIC pooled)
  target_compile_definitions(pooled_${name} INTERFACE POOLED_${kind}=1)
  # The version is part of each symbol's name, so another version cannot replace it.
  set_target_properties(pooled_${name} PROPERTIES
    EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION})
endforeach()
set_target_properties(pooled_shared PROPERTIES OUTPUT_NAME pooled)
set_target_properties(pooled_static PROPERTIES OUTPUT_NAME pooled-static)  # -lpooled is then the shared one wherever both are
