# SPDX-License-Identifier: Apache-2.0
# What the scripts beside this one share.
cmake_minimum_required(VERSION 3.22)

# Runs a command; its output is in `output`. What fails ends the test with everything that was printed.
macro(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(failed)
    message(FATAL_ERROR "${what}: ${failed}\n${output}\n${errors}")
  endif()
endmacro()

# Ends the test as passed over (SKIP_REGULAR_EXPRESSION).
macro(skip why)
  message("skipped: ${why}")
  return()
endmacro()
