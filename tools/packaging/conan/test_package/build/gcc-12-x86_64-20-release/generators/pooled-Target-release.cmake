# Avoid multiple calls to find_package to append duplicated properties to the targets
include_guard()########### VARIABLES #######################################################################
#############################################################################################
set(pooled_FRAMEWORKS_FOUND_RELEASE "") # Will be filled later
conan_find_apple_frameworks(pooled_FRAMEWORKS_FOUND_RELEASE "${pooled_FRAMEWORKS_RELEASE}" "${pooled_FRAMEWORK_DIRS_RELEASE}")

set(pooled_LIBRARIES_TARGETS "") # Will be filled later


######## Create an interface target to contain all the dependencies (frameworks, system and conan deps)
if(NOT TARGET pooled_DEPS_TARGET)
    add_library(pooled_DEPS_TARGET INTERFACE IMPORTED)
endif()

set_property(TARGET pooled_DEPS_TARGET
             APPEND PROPERTY INTERFACE_LINK_LIBRARIES
             $<$<CONFIG:Release>:${pooled_FRAMEWORKS_FOUND_RELEASE}>
             $<$<CONFIG:Release>:${pooled_SYSTEM_LIBS_RELEASE}>
             $<$<CONFIG:Release>:>)

####### Find the libraries declared in cpp_info.libs, create an IMPORTED target for each one and link the
####### pooled_DEPS_TARGET to all of them
conan_package_library_targets("${pooled_LIBS_RELEASE}"    # libraries
                              "${pooled_LIB_DIRS_RELEASE}" # package_libdir
                              "${pooled_BIN_DIRS_RELEASE}" # package_bindir
                              "${pooled_LIBRARY_TYPE_RELEASE}"
                              "${pooled_IS_HOST_WINDOWS_RELEASE}"
                              pooled_DEPS_TARGET
                              pooled_LIBRARIES_TARGETS  # out_libraries_targets
                              "_RELEASE"
                              "pooled"    # package_name
                              "${pooled_NO_SONAME_MODE_RELEASE}")  # soname

# FIXME: What is the result of this for multi-config? All configs adding themselves to path?
set(CMAKE_MODULE_PATH ${pooled_BUILD_DIRS_RELEASE} ${CMAKE_MODULE_PATH})

########## GLOBAL TARGET PROPERTIES Release ########################################
    set_property(TARGET pooled::pooled
                 APPEND PROPERTY INTERFACE_LINK_LIBRARIES
                 $<$<CONFIG:Release>:${pooled_OBJECTS_RELEASE}>
                 $<$<CONFIG:Release>:${pooled_LIBRARIES_TARGETS}>
                 )

    if("${pooled_LIBS_RELEASE}" STREQUAL "")
        # If the package is not declaring any "cpp_info.libs" the package deps, system libs,
        # frameworks etc are not linked to the imported targets and we need to do it to the
        # global target
        set_property(TARGET pooled::pooled
                     APPEND PROPERTY INTERFACE_LINK_LIBRARIES
                     pooled_DEPS_TARGET)
    endif()

    set_property(TARGET pooled::pooled
                 APPEND PROPERTY INTERFACE_LINK_OPTIONS
                 $<$<CONFIG:Release>:${pooled_LINKER_FLAGS_RELEASE}>)
    set_property(TARGET pooled::pooled
                 APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES
                 $<$<CONFIG:Release>:${pooled_INCLUDE_DIRS_RELEASE}>)
    # Necessary to find LINK shared libraries in Linux
    set_property(TARGET pooled::pooled
                 APPEND PROPERTY INTERFACE_LINK_DIRECTORIES
                 $<$<CONFIG:Release>:${pooled_LIB_DIRS_RELEASE}>)
    set_property(TARGET pooled::pooled
                 APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS
                 $<$<CONFIG:Release>:${pooled_COMPILE_DEFINITIONS_RELEASE}>)
    set_property(TARGET pooled::pooled
                 APPEND PROPERTY INTERFACE_COMPILE_OPTIONS
                 $<$<CONFIG:Release>:${pooled_COMPILE_OPTIONS_RELEASE}>)

########## For the modules (FindXXX)
set(pooled_LIBRARIES_RELEASE pooled::pooled)
