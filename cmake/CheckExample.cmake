# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=p -DSOURCE=p.c -DFOLDER=f [-DARGUMENTS=words] [-DEMULATOR=words] -P CheckExample.cmake: the program, run in a fresh folder,
# prints what the last comment of its source says, "/* Prints:" and one line a line.
file(READ "${SOURCE}" text)
set(mark "/* Prints:\n")
string(FIND "${text}" "${mark}" at REVERSE)
if(at EQUAL -1)
  message(FATAL_ERROR "${SOURCE}: no comment '/* Prints:' at its end says what the program writes")
endif()
string(LENGTH "${mark}" length)
math(EXPR at "${at} + ${length}")
string(SUBSTRING "${text}" ${at} -1 expected)
string(FIND "${expected}" " */" end)
string(SUBSTRING "${expected}" 0 ${end} expected)
string(REGEX REPLACE "(^|\n) \\* ?" "\\1" expected "${expected}")

file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")
execute_process(COMMAND ${EMULATOR} "${PROGRAM}" ${ARGUMENTS} WORKING_DIRECTORY "${FOLDER}" RESULT_VARIABLE failed
  OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(failed)
  message(FATAL_ERROR "${PROGRAM}: ended with ${failed}\n${output}${errors}")
endif()
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "${SOURCE}: the comment says\n${expected}but the program wrote\n${output}")
endif()
