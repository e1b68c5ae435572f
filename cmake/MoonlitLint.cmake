# SPDX-License-Identifier: Apache-2.0
# The lint scripts (tools/lint) and the tests that they catch what they should (tests/lint), as tests with the label "lint".
# Checks that read objects or flags have the label "objects" instead: the cross builds run them too.
# Included at the end of the top CMakeLists.txt, when every kernel room has named its variant objects.
include_guard()
if(NOT MOONLIT_BUILD_TESTS)
  return()
endif()
find_package(Python3 3.9 COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
  message(STATUS "lint: no Python 3.9, its tests are left out")
  return()
endif()

function(moonlit_lint name label)
  add_test(NAME lint/${name} COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/lint/check_${name}.py" ${ARGN})
  # 77: what the check needs is not installed.
  set_tests_properties(lint/${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()

moonlit_lint(arrows lint --root "${PROJECT_SOURCE_DIR}")
moonlit_lint(budget lint --root "${PROJECT_SOURCE_DIR}")
moonlit_lint(format lint --root "${PROJECT_SOURCE_DIR}")
# docs/api.md is what the headers and the examples say, and every public function has an example.
add_test(NAME lint/api_page COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tools/docs/api_page.py" --root "${PROJECT_SOURCE_DIR}" --check)
set_tests_properties(lint/api_page PROPERTIES LABELS lint)
moonlit_lint(flags objects "${PROJECT_BINARY_DIR}/compile_commands.json" --root "${PROJECT_SOURCE_DIR}")

# Sanitizers put weak symbols of their own into each object.
get_property(variant_objects GLOBAL PROPERTY MOONLIT_VARIANT_OBJECT_TARGETS)
if(variant_objects AND NOT MOONLIT_SANITIZE)
  set(pairs)
  foreach(target IN LISTS variant_objects)
    string(REGEX REPLACE "^.*__" "" variant "${target}")
    string(APPEND pairs "${variant}=$<JOIN:$<TARGET_OBJECTS:${target}>,\n${variant}=>\n")
  endforeach()
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/generated/variant_objects.txt" CONTENT "${pairs}")
  set(bases)
  foreach(variant IN LISTS MOONLIT_BUILT_VARIANTS)
    list(APPEND bases ${variant}=${MOONLIT_BASE_${variant}})
  endforeach()
  moonlit_lint(symbols objects --nm "${CMAKE_NM}" --bases ${bases} --list "${PROJECT_BINARY_DIR}/generated/variant_objects.txt")
endif()

# What the libraries give out; without them, what the headers declare.
set(libraries)
set(label lint)
if(TARGET moonlit_shared)
  list(APPEND libraries --shared $<TARGET_FILE:moonlit_shared>)
  set(label objects)
endif()
if(MOONLIT_STATIC)
  list(APPEND libraries --static "${MOONLIT_STATIC_FILE}")
  set(label objects)
endif()
moonlit_lint(exports ${label} --root "${PROJECT_SOURCE_DIR}" --nm "${CMAKE_NM}" ${libraries})

# Only the 64-bit Arm build promises this (CMakeLists.txt); tools/cli names the program.
if(TARGET moonlit_cli AND MOONLIT_ARCHITECTURE STREQUAL "ARM64")
  moonlit_lint(elf objects $<TARGET_FILE:moonlit_cli>)
  if(TARGET moonlit_shared)
    add_test(NAME lint/elf_shared COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/lint/check_elf.py" $<TARGET_FILE:moonlit_shared>)
    set_tests_properties(lint/elf_shared PROPERTIES LABELS objects)
  endif()
endif()

file(GLOB selftests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/lint/*_test.py")
foreach(selftest IN LISTS selftests)
  get_filename_component(name "${selftest}" NAME_WE)
  add_test(NAME lint/${name} COMMAND "${Python3_EXECUTABLE}" -B "${selftest}")
  set_tests_properties(lint/${name} PROPERTIES LABELS lint TIMEOUT 300
    ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER};NM=${CMAKE_NM};CMAKE=${CMAKE_COMMAND}")
endforeach()
