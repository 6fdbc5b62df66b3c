# SPDX-License-Identifier: BSL-1.0
# pooled::shared and pooled::static: what the headers leave out under POOLED_SHARED and POOLED_STATIC, compiled once. Either is
# built when something links it; POOLED_BUILD_LIBRARIES builds both, and installs them if the package is installed. So it does with
# pooled::new_delete, the global operator new and delete, and pooled::new_delete_preload, the same for LD_PRELOAD.
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

# A sanitizer has operators of its own.
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*(address|thread|memory|leak)")
  set(pooled_new_targets pooled_new_delete pooled_new)
  add_library(pooled_new_delete STATIC ${pooled_on_demand} "${PROJECT_SOURCE_DIR}/src/new_delete.cpp")
  add_library(pooled::new_delete ALIAS pooled_new_delete)
  target_link_libraries(pooled_new_delete PUBLIC pooled_static)
  # A linker takes an archive's member for a name that is undefined: the program may call operator new in other libraries alone.
  target_link_options(pooled_new_delete INTERFACE LINKER:-u,_Znwm)
  add_library(pooled_new SHARED ${pooled_on_demand} "${PROJECT_SOURCE_DIR}/src/new_delete.cpp"
              "${PROJECT_SOURCE_DIR}/src/pooled.cpp")
  target_link_libraries(pooled_new PRIVATE pooled)
  target_compile_definitions(pooled_new PRIVATE POOLED_PRELOADED=1)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/new_delete.cpp" PROPERTIES COMPILE_DEFINITIONS POOLED_STATIC=1)
  target_link_options(pooled_new PRIVATE LINKER:-z,nodelete)
  foreach(target IN LISTS pooled_new_targets)
    target_compile_options(${target} PRIVATE -ftls-model=initial-exec)
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                               POSITION_INDEPENDENT_CODE ON)
  endforeach()
  set_target_properties(pooled_new_delete PROPERTIES EXPORT_NAME new_delete OUTPUT_NAME pooled-new-static)
  # Without a version: the name stands in LD_PRELOAD.
  set_target_properties(pooled_new PROPERTIES EXPORT_NAME new_delete_preload OUTPUT_NAME pooled-new)
  add_library(pooled::new_delete_preload ALIAS pooled_new)
endif()
