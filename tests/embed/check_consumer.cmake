# SPDX-License-Identifier: Apache-2.0
# Configures the consumer in a fresh folder (its own CMakeLists.txt compares what it sees before and after) and reads what came out:
# the consumer's commands have nothing of ours, ours nothing of the consumer's, and no test or program of ours appears.
file(REMOVE_RECURSE "${BUILD}")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${CONSUMER}" -B "${BUILD}" -G "${GENERATOR}" "-DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}"
    "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DMOONLIT_SOURCE=${SOURCE}"
    "-DMOONLIT_VARIANTS=${VARIANT}" "-DMOONLIT_DEPS_DIR=${DEPS_DIR}" "-DMOONLIT_HIGHWAY_DIR=${HIGHWAY_DIR}"
    "-DMOONLIT_SYSTEM_DEPS=${SYSTEM_DEPS}" -DMOONLIT_OFFLINE=ON
  RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(failed)
  message(FATAL_ERROR "the consumer does not configure:\n${output}")
endif()

# The command line that compiles the file whose name ends in `tail`.
function(command_of tail out)
  file(READ "${BUILD}/compile_commands.json" json)
  string(JSON count LENGTH "${json}")
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    string(JSON file GET "${json}" ${i} file)
    if(file MATCHES "${tail}$")
      string(JSON command GET "${json}" ${i} command)
      set(${out} "${command}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "no command compiles ${tail}")
endfunction()

foreach(file main.cc greet.c)
  command_of("consumer/${file}" command)
  separate_arguments(words UNIX_COMMAND "${command}")
  foreach(word IN LISTS words)
    if(word MATCHES "^-[WfmOD]|^-std=|^-I|^-isystem|^-pthread"
       AND NOT word MATCHES "^(-Wconversion|-Werror|-std=(gnu|c)\\+\\+17|-I${SOURCE}/runtime/api|-DCONSUMER)$")
      message(FATAL_ERROR "${file} is compiled with ${word}, which the consumer never asked for:\n${command}")
    endif()
  endforeach()
endforeach()

command_of("runtime/base/status.cc" command)
if(NOT command MATCHES "-std=c\\+\\+20" OR NOT command MATCHES "-Werror.* -Wno-error" OR NOT command MATCHES " -fPIC")
  message(FATAL_ERROR "the library's own files need C++20, no errors from the consumer's warnings, and to fit a shared library:\n${command}")
endif()

# The link line, as the generator writes it.
set(link "${BUILD}/CMakeFiles/consumer.dir/link.txt")
if(NOT EXISTS "${link}")
  set(link "${BUILD}/build.ninja")
endif()
file(STRINGS "${link}" lines REGEX "libmoonlit_runtime_api\\.a.*libmoonlit_runtime_decode\\.a.*libmoonlit_runtime_base\\.a")
if(NOT lines)
  message(FATAL_ERROR "${link}: the consumer is not linked with the library and what it stands on")
endif()

execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" -N WORKING_DIRECTORY "${BUILD}" OUTPUT_VARIABLE tests)
if(NOT tests MATCHES "Total Tests: 1\n")
  message(FATAL_ERROR "the consumer registers one test, ctest sees:\n${tests}")
endif()
file(GLOB_RECURSE install_scripts "${BUILD}/moonlit/*cmake_install.cmake")
foreach(script IN LISTS install_scripts)
  file(STRINGS "${script}" lines REGEX "file\\(INSTALL")
  if(lines)
    message(FATAL_ERROR "${script}: installs files with the consumer's own:\n${lines}")
  endif()
endforeach()
