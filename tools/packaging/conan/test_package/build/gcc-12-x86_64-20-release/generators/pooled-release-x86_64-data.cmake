########### AGGREGATED COMPONENTS AND DEPENDENCIES FOR THE MULTI CONFIG #####################
#############################################################################################

set(pooled_COMPONENT_NAMES "")
if(DEFINED pooled_FIND_DEPENDENCY_NAMES)
  list(APPEND pooled_FIND_DEPENDENCY_NAMES )
  list(REMOVE_DUPLICATES pooled_FIND_DEPENDENCY_NAMES)
else()
  set(pooled_FIND_DEPENDENCY_NAMES )
endif()

########### VARIABLES #######################################################################
#############################################################################################
set(pooled_PACKAGE_FOLDER_RELEASE "/work/main/build/gcc/test/consumer/conan/home/p/b/poole9503a7b33f900/p")
set(pooled_BUILD_MODULES_PATHS_RELEASE )


set(pooled_INCLUDE_DIRS_RELEASE "${pooled_PACKAGE_FOLDER_RELEASE}/include")
set(pooled_RES_DIRS_RELEASE )
set(pooled_DEFINITIONS_RELEASE )
set(pooled_SHARED_LINK_FLAGS_RELEASE )
set(pooled_EXE_LINK_FLAGS_RELEASE )
set(pooled_OBJECTS_RELEASE )
set(pooled_COMPILE_DEFINITIONS_RELEASE )
set(pooled_COMPILE_OPTIONS_C_RELEASE )
set(pooled_COMPILE_OPTIONS_CXX_RELEASE )
set(pooled_LIB_DIRS_RELEASE )
set(pooled_BIN_DIRS_RELEASE )
set(pooled_LIBRARY_TYPE_RELEASE UNKNOWN)
set(pooled_IS_HOST_WINDOWS_RELEASE 0)
set(pooled_LIBS_RELEASE )
set(pooled_SYSTEM_LIBS_RELEASE pthread)
set(pooled_FRAMEWORK_DIRS_RELEASE )
set(pooled_FRAMEWORKS_RELEASE )
set(pooled_BUILD_DIRS_RELEASE )
set(pooled_NO_SONAME_MODE_RELEASE FALSE)


# COMPOUND VARIABLES
set(pooled_COMPILE_OPTIONS_RELEASE)
if (NOT "${pooled_COMPILE_OPTIONS_CXX_RELEASE}" STREQUAL "")
    list(APPEND pooled_COMPILE_OPTIONS_RELEASE
        "$<$<COMPILE_LANGUAGE:CXX>:${pooled_COMPILE_OPTIONS_CXX_RELEASE}>")
endif ()
if (NOT "${pooled_COMPILE_OPTIONS_C_RELEASE}" STREQUAL "")
    list(APPEND pooled_COMPILE_OPTIONS_RELEASE
        "$<$<COMPILE_LANGUAGE:C>:${pooled_COMPILE_OPTIONS_C_RELEASE}>")
endif ()
set(pooled_LINKER_FLAGS_RELEASE)
if (NOT "${pooled_SHARED_LINK_FLAGS_RELEASE}" STREQUAL "")
    list(APPEND pooled_LINKER_FLAGS_RELEASE
        "$<$<OR:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>,$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>>:${pooled_SHARED_LINK_FLAGS_RELEASE}>")
endif ()
if (NOT "${pooled_EXE_LINK_FLAGS_RELEASE}" STREQUAL "")
    list(APPEND pooled_LINKER_FLAGS_RELEASE
        "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${pooled_EXE_LINK_FLAGS_RELEASE}>")
endif ()


set(pooled_COMPONENTS_RELEASE )