# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, below a prefix that may be moved afterwards:
#
#   include/moonlit.h, moonlit.hpp, moonlit/*       the interface
#   lib/libmoonlit.so*, lib/libmoonlit.a             with everything below the interface inside
#   lib/cmake/moonlit/                               find_package(moonlit)
#   lib/pkgconfig/moonlit.pc                         pkg-config moonlit
#   bin/moonlit, share/moonlit/poet-Q4_0.gguf        the command (tools/cli) and the poem model (models/poet)
#   share/doc/moonlit/                               our licence and those of what is inside
#
# The target moonlit_package builds what of it has to be built, and nothing else: tests and examples stay out.
include_guard()
add_custom_target(moonlit_package)
set(MOONLIT_PACKAGE_FILES)
foreach(part moonlit_cli moonlit_shared)
  if(TARGET ${part})
    add_dependencies(moonlit_package ${part})
    list(APPEND MOONLIT_PACKAGE_FILES "$<TARGET_FILE:${part}>")
  endif()
endforeach()
if(TARGET moonlit_static_file)
  add_dependencies(moonlit_package moonlit_static_file)
  list(APPEND MOONLIT_PACKAGE_FILES "${MOONLIT_STATIC_FILE}")
endif()
if(NOT MOONLIT_INSTALL)
  return()
endif()
# What the first rule of all (CMakeLists.txt) runs: half a package is not left behind.
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/generated/moonlit_built_$<CONFIG>.cmake" CONTENT "\
foreach(file IN ITEMS [==[$<JOIN:${MOONLIT_PACKAGE_FILES},]==] [==[>]==])
  if(NOT EXISTS \"\${file}\")
    message(FATAL_ERROR \"\${file} is not built; this builds what is installed: cmake --build ${PROJECT_BINARY_DIR} --target moonlit_package\")
  endif()
endforeach()
")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(FILES "${PROJECT_SOURCE_DIR}/runtime/api/moonlit.h" "${PROJECT_SOURCE_DIR}/runtime/api/moonlit.hpp"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/runtime/api/moonlit" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
set(MOONLIT_SONAME "")
if(TARGET moonlit_shared)
  install(TARGETS moonlit_shared LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT development)
  get_target_property(soversion moonlit_shared SOVERSION)
  set(MOONLIT_SONAME "libmoonlit.so.${soversion}")
endif()
if(MOONLIT_STATIC)
  install(FILES "${MOONLIT_STATIC_FILE}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
endif()

# CMake.
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/moonlit")
set(MOONLIT_INSTALLED_DATA share/moonlit)  # where the library looks (models/poet/poet.cc)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/moonlit-config.cmake.in" "${PROJECT_BINARY_DIR}/generated/moonlit-config.cmake"
  INSTALL_DESTINATION "${package}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR MOONLIT_INSTALLED_DATA
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a new minor version may break the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/moonlit-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/moonlit-config.cmake" "${PROJECT_BINARY_DIR}/generated/moonlit-config-version.cmake"
  DESTINATION "${package}" COMPONENT development)

# pkg-config.
set(flags)
foreach(library IN LISTS MOONLIT_SYSTEM_LIBRARIES)
  if(library STREQUAL "Threads")
    list(APPEND flags -pthread)
  else()
    list(APPEND flags -l${library})
  endif()
endforeach()
list(JOIN flags " " flags)
# With the archive alone, everybody needs what --static gives.
if(TARGET moonlit_shared)
  set(MOONLIT_PC_LIBS "-L\${libdir} -lmoonlit")
  set(MOONLIT_PC_PRIVATE "${flags}")
else()
  set(MOONLIT_PC_LIBS "-L\${libdir} -lmoonlit ${flags}")
  set(MOONLIT_PC_PRIVATE "")
endif()
set(MOONLIT_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(MOONLIT_PC_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(name LIBDIR INCLUDEDIR)
  set(MOONLIT_PC_${name} "${CMAKE_INSTALL_${name}}")
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_${name}}")
    set(MOONLIT_PC_${name} "\${prefix}/${CMAKE_INSTALL_${name}}")
  endif()
endforeach()
configure_file("${PROJECT_SOURCE_DIR}/cmake/moonlit.pc.in" "${PROJECT_BINARY_DIR}/generated/moonlit.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/generated/moonlit.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)

# Licences of what is inside the libraries and the command. What a system package brought has its own.
set(documents "${CMAKE_INSTALL_DATADIR}/doc/moonlit")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${documents}" COMPONENT runtime)
foreach(name highway json pcre2 utf8proc xnnpack pthreadpool cpuinfo fxdiv cli11)
  get_property(directory GLOBAL PROPERTY MOONLIT_SOURCE_${name})
  if(NOT directory OR (name STREQUAL "cli11" AND NOT MOONLIT_BUILD_CLI))
    continue()
  endif()
  file(GLOB texts LIST_DIRECTORIES FALSE "${directory}/LICEN[CS]E*" "${directory}/COPYING*")
  if(NOT texts)
    message(FATAL_ERROR "${name}: no licence in ${directory}, and its code is in what is installed")
  endif()
  foreach(text IN LISTS texts)
    get_filename_component(file "${text}" NAME)
    install(FILES "${text}" DESTINATION "${documents}/licences" RENAME "${name}-${file}" COMPONENT runtime)
  endforeach()
endforeach()
