# SPDX-License-Identifier: Apache-2.0
# examples/fetch_content with the source, as archives and as one shared library: what its program is linked with.
foreach(shared OFF ON)
  file(REMOVE_RECURSE "${BUILD}")
  execute_process(COMMAND "${CMAKE_COMMAND}" -S "${CONSUMER}" -B "${BUILD}" -G "${GENERATOR}" "-DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}"
      "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" -DCMAKE_DISABLE_FIND_PACKAGE_moonlit=ON
      "-DMOONLIT_SOURCE=${SOURCE}" "-DMOONLIT_VARIANTS=${VARIANT}" "-DMOONLIT_DEPS_DIR=${DEPS_DIR}"
      "-DMOONLIT_HIGHWAY_DIR=${HIGHWAY_DIR}" "-DMOONLIT_SYSTEM_DEPS=${SYSTEM_DEPS}" -DMOONLIT_OFFLINE=ON -DMOONLIT_SHARED=${shared}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "examples/fetch_content does not configure:\n${output}")
  endif()
  # The link line, as the generator writes it.
  file(GLOB lines "${BUILD}/CMakeFiles/generate_c.dir/link.txt")
  if(lines)
    file(STRINGS "${lines}" lines)
  else()
    file(STRINGS "${BUILD}/build.ninja" lines REGEX "^build generate_c: ")
  endif()
  if(NOT shared AND NOT lines MATCHES "libmoonlit_runtime_api\\.a.*libmoonlit_runtime_base\\.a")
    message(FATAL_ERROR "the program is not linked with the rooms' archives: ${lines}")
  elseif(shared AND (NOT lines MATCHES "lib/libmoonlit\\.so" OR lines MATCHES "generate_c: [^|]*\\|[^|]*libmoonlit_runtime_base\\.a"))
    message(FATAL_ERROR "the program is not linked with the shared library alone: ${lines}")
  endif()
endforeach()
