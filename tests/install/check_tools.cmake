# SPDX-License-Identifier: Apache-2.0
# toolchains/install.sh where nothing can be installed (a PATH without apt-get): ninja is done without, a compiler is asked for.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
file(REMOVE_RECURSE "${BUILD}")
file(MAKE_DIRECTORY "${BUILD}")
find_program(BASH bash REQUIRED)
find_program(ID id REQUIRED)
file(CREATE_LINK "${ID}" "${BUILD}/id" SYMBOLIC)
set(ENV{PATH} "${BUILD}")
execute_process(COMMAND "${BASH}" "${SOURCE}/toolchains/install.sh" native RESULT_VARIABLE failed ERROR_VARIABLE errors OUTPUT_VARIABLE output)
if(NOT failed EQUAL 1 OR NOT errors MATCHES "apt-get install g\\+\\+ cmake ninja-build python3 binutils")
  message(FATAL_ERROR "without any tool: ${failed}\n${output}\n${errors}")
endif()
# Found, not run.
foreach(tool g++ cmake python3 nm)
  file(CREATE_LINK "${ID}" "${BUILD}/${tool}" SYMBOLIC)
endforeach()
run("without ninja alone" "${BASH}" "${SOURCE}/toolchains/install.sh" native)
