# SPDX-License-Identifier: Apache-2.0
# The few functions that every folder's CMakeLists.txt uses.
#
#   moonlit_room(runtime/gguf SOURCES gguf.cc DEPENDS runtime/tensor runtime/base [LIBRARIES pcre2-8])
#     one static library a room: target moonlit_runtime_gguf. DEPENDS are rooms, LIBRARIES are CMake targets from outside.
#
#   moonlit_kernels(kernels/norm VARIANT norm_variant.cc BASELINE norm.cc reference.cc DEPENDS kernels/simd)
#     VARIANT sources are compiled once per row of kernels/cpu/variants.inc, BASELINE ones once with the compiler's default.
#     Instead of VARIANT: FLOATS for sources that use no dot product of kernels/simd, BYTES if only those of bytes, HALVES if only those
#     of bf16 pairs. They are compiled once for all rows in which that gives the same code (variants.inc), and see no other dots.
#     TOGETHER 6 compiles the sources of a class in groups of six: they read Highway's headers (2 s) once, so their names must differ.
#
#   moonlit_test(kernels/norm_test LABELS unit DEPENDS kernels/norm tests/support)
#     tests/kernels/norm_test.cc, with GoogleTest's main. Extra SOURCES, ARGS and TIMEOUT if need be. SLOW ones start first.
#     The label "portable" says that none of our kernels matters: under an emulator one processor stands for all.
#
#   moonlit_bench(kernels/norm/norm_bench DEPENDS kernels/norm)
#     kernels/norm/norm_bench.cc with the main of kernels/cpu/bench_main.cc, and a test with the label "bench" that every
#     benchmark runs once. Nothing without -DMOONLIT_BUILD_BENCHMARKS=ON.
include_guard()

function(moonlit_target_name room out)
  string(REPLACE "/" "_" name "${room}")
  set(${out} "moonlit_${name}" PARENT_SCOPE)
endfunction()

# LIBRARIES of all rooms and tests, for moonlit_check_libraries.
function(moonlit_remember_libraries target)
  foreach(library IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY MOONLIT_LINKED_LIBRARIES "${target} ${library}")
  endforeach()
endfunction()

# At the end, when all targets are known. A name of ours that is no target would be taken for a system library's, and its folders and
# flags be missing without a word.
function(moonlit_check_libraries)
  get_property(links GLOBAL PROPERTY MOONLIT_LINKED_LIBRARIES)
  foreach(link IN LISTS links)
    string(REPLACE " " ";" pair "${link}")
    list(GET pair 0 target)
    list(GET pair 1 library)
    if(library MATCHES "^moonlit_|::" AND NOT TARGET "${library}")
      message(FATAL_ERROR "${target} links ${library}, which is no target of this build (see cmake/MoonlitDependencies.cmake)")
    endif()
  endforeach()
endfunction()

function(moonlit_link_rooms target)
  foreach(room IN LISTS ARGN)
    moonlit_target_name(${room} name)
    target_link_libraries(${target} PUBLIC ${name})
  endforeach()
endfunction()

# What every object of ours is compiled with; it never reaches an application (runtime/api/CMakeLists.txt).
add_library(moonlit_options INTERFACE)
target_compile_features(moonlit_options INTERFACE cxx_std_20)
target_include_directories(moonlit_options INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
target_compile_options(moonlit_options INTERFACE -Wall -Wextra -fvisibility=hidden -fno-fast-math -ffp-contract=off)
# GCC 12 takes the inside of std::string's operator+ for overlapping memory (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(moonlit_options INTERFACE -Wno-restrict)
endif()
if(MOONLIT_WERROR)
  target_compile_options(moonlit_options INTERFACE -Werror)
elseif(NOT PROJECT_IS_TOP_LEVEL)
  # The project around this one may turn warnings on that are not ours to heed, and into errors.
  target_compile_options(moonlit_options INTERFACE -Wno-error)
endif()

# Release compiles SMALL_SOURCES, which work while a model is loaded or a request begins and never in a step, with -Os, FAST_SOURCES,
# which were measured to be slower otherwise, with its -O3, and others with -O2: half of the bytes of -O3 for all.
function(moonlit_room room)
  cmake_parse_arguments(ARG "" "" "SOURCES;FAST_SOURCES;SMALL_SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  moonlit_target_name(${room} name)
  moonlit_remember_libraries(${name} ${ARG_LIBRARIES})
  if(ARG_SOURCES OR ARG_FAST_SOURCES OR ARG_SMALL_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES} ${ARG_FAST_SOURCES} ${ARG_SMALL_SOURCES})
    target_link_libraries(${name} PUBLIC moonlit_options ${ARG_LIBRARIES})
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O2>)
    # A 32-bit system's older functions (stat, readdir, open) know no file above 2 GiB and no inode beyond 32 bits.
    if(CMAKE_SIZEOF_VOID_P EQUAL 4)
      target_compile_definitions(${name} PRIVATE _FILE_OFFSET_BITS=64)
    endif()
    set_property(SOURCE ${ARG_SMALL_SOURCES} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-Os>)
    set_property(SOURCE ${ARG_FAST_SOURCES} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
    moonlit_link_rooms(${name} ${ARG_DEPENDS})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE moonlit_options ${ARG_LIBRARIES})
    foreach(dep IN LISTS ARG_DEPENDS)
      moonlit_target_name(${dep} dep_name)
      target_link_libraries(${name} INTERFACE ${dep_name})
    endforeach()
  endif()
endfunction()

# Rows of variants.inc for the architecture we build for -> MOONLIT_BUILT_VARIANTS and MOONLIT_FLAGS_<variant>.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/cpu/variants.inc")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(MOONLIT_ARCHITECTURE X86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(MOONLIT_ARCHITECTURE ARM64)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^arm")
  set(MOONLIT_ARCHITECTURE ARM32)
else()
  set(MOONLIT_ARCHITECTURE OTHER)
endif()
set(MOONLIT_VARIANTS "" CACHE STRING "Kernel variants to build (empty: every one of this architecture), for quick development builds")
file(STRINGS "${PROJECT_SOURCE_DIR}/kernels/cpu/variants.inc" rows REGEX "^MOONLIT_VARIANT")
set(MOONLIT_BUILT_VARIANTS)
foreach(row IN LISTS rows)
  if(NOT row MATCHES "^MOONLIT_VARIANT\\(([a-z0-9_]+), ([A-Z0-9]+), \"([^\"]*)\".*, ([a-z0-9_]+), \"([A-Z ]*)\"\\)$")
    message(FATAL_ERROR "kernels/cpu/variants.inc: can't read the row: ${row}")
  endif()
  set(variant ${CMAKE_MATCH_1})
  set(architecture ${CMAKE_MATCH_2})
  separate_arguments(flags UNIX_COMMAND "${CMAKE_MATCH_3}")
  set(MOONLIT_BASE_${variant} ${CMAKE_MATCH_4})
  separate_arguments(MOONLIT_BETTER_${variant} UNIX_COMMAND "${CMAKE_MATCH_5}")
  if(NOT architecture STREQUAL "ANY" AND NOT architecture STREQUAL MOONLIT_ARCHITECTURE)
    continue()
  endif()
  if(MOONLIT_VARIANTS AND NOT variant IN_LIST MOONLIT_VARIANTS)
    continue()
  endif()
  list(APPEND MOONLIT_BUILT_VARIANTS ${variant})
  set(MOONLIT_FLAGS_${variant} ${flags})
endforeach()
if(NOT MOONLIT_BUILT_VARIANTS)
  message(FATAL_ERROR "no kernel variant is left to build: MOONLIT_VARIANTS=${MOONLIT_VARIANTS}, architecture ${MOONLIT_ARCHITECTURE}")
endif()
# MOONLIT_OWNER_<class>_<variant>: whose kernels of a class a variant runs: its own, or those of the furthest base in this build from
# which to the variant no row names the class.
set(MOONLIT_KERNEL_CLASSES VARIANT BYTES HALVES FLOATS)
set(built_inc "// Generated from kernels/cpu/variants.inc: the variants in this build, fastest first, and whose kernels of each class they run.\n")
foreach(variant IN LISTS MOONLIT_BUILT_VARIANTS)
  foreach(class IN LISTS MOONLIT_KERNEL_CLASSES)
    set(MOONLIT_OWNER_${class}_${variant} ${variant})
    set(at ${variant})
    while(NOT class STREQUAL "VARIANT" AND NOT class IN_LIST MOONLIT_BETTER_${at} AND NOT MOONLIT_BASE_${at} STREQUAL "none")
      set(at ${MOONLIT_BASE_${at}})
      if(at IN_LIST MOONLIT_BUILT_VARIANTS)
        set(MOONLIT_OWNER_${class}_${variant} ${at})
      endif()
    endwhile()
  endforeach()
  string(APPEND built_inc "MOONLIT_BUILT_VARIANT(${variant}, ${MOONLIT_OWNER_BYTES_${variant}}, ${MOONLIT_OWNER_HALVES_${variant}}, ${MOONLIT_OWNER_FLOATS_${variant}})\n")
endforeach()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/moonlit/variants_built.inc" CONTENT "${built_inc}" @ONLY)

# -O2 in every build type (-Os for scalar), no link-time optimization, no contraction: the bits of a variant are part of its
# identity. No tables for unwinding: a kernel calls nothing that throws.
set(MOONLIT_KERNEL_FLAGS -O2 -ffp-contract=off -fno-fast-math -fno-lto -fno-exceptions -fno-rtti -fno-unwind-tables
    -fno-asynchronous-unwind-tables -fno-stack-protector -DNDEBUG -DHWY_COMPILE_ONLY_STATIC)

# The objects of one class of a room's sources, and their names in `out`.
function(moonlit_variant_objects name class together out)
  set(objects)
  foreach(variant IN LISTS MOONLIT_BUILT_VARIANTS)
    if(NOT MOONLIT_OWNER_${class}_${variant} STREQUAL variant)
      continue()
    endif()
    set(object ${name}_${class}__${variant})
    add_library(${object} OBJECT ${ARGN})
    target_link_libraries(${object} PRIVATE moonlit_options moonlit_highway)
    set(flags ${MOONLIT_KERNEL_FLAGS} ${MOONLIT_FLAGS_${variant}})
    if(variant STREQUAL "scalar")
      list(REMOVE_ITEM flags -DHWY_COMPILE_ONLY_STATIC -O2)
      # Highway distrusts its emulated vectors under GCC, whose vectorizer mistakes them (GCC bug 106322); without the
      # vectorizer they are right, and unlike its one-lane target they have every operation.
      list(APPEND flags -DHWY_BROKEN_EMU128=0 -fno-tree-vectorize -fno-tree-slp-vectorize)
      # Emulated vectors are loops; inlining all of them into a kernel takes a compiler minutes and gains a test nothing. It is
      # the reference and what is left for a CPU that no other variant fits, and should not be the largest part of the library.
      list(APPEND flags -Os -fno-inline-functions -fno-inline-small-functions)
    endif()
    # An instrumented kernel of many unrolled registers takes a compiler many minutes. The scalar variant, which reads and
    # writes the same bytes, is instrumented in its place.
    if(MOONLIT_SANITIZE AND NOT variant STREQUAL "scalar")
      list(APPEND flags -fno-sanitize=all)
    endif()
    target_compile_options(${object} PRIVATE ${flags})
    target_compile_definitions(${object} PRIVATE MOONLIT_NS=${variant} hwy=hwy_${variant})
    foreach(other BYTES HALVES FLOATS)
      target_compile_definitions(${object} PRIVATE MOONLIT_${other}_NS=${MOONLIT_OWNER_${other}_${variant}})
    endforeach()
    if(class MATCHES "HALVES|FLOATS")
      target_compile_definitions(${object} PRIVATE MOONLIT_WITHOUT_BYTE_DOTS)
    endif()
    if(class MATCHES "BYTES|FLOATS")
      target_compile_definitions(${object} PRIVATE MOONLIT_WITHOUT_BF16_DOTS)
    endif()
    if(together)
      set_target_properties(${object} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${together})
    endif()
    list(APPEND objects $<TARGET_OBJECTS:${object}>)
    set_property(GLOBAL APPEND PROPERTY MOONLIT_VARIANT_OBJECT_TARGETS ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

function(moonlit_kernels room)
  cmake_parse_arguments(ARG "" "TOGETHER" "${MOONLIT_KERNEL_CLASSES};BASELINE;DEPENDS" ${ARGN})
  moonlit_target_name(${room} name)
  set(objects)
  foreach(class IN LISTS MOONLIT_KERNEL_CLASSES)
    if(ARG_${class})
      moonlit_variant_objects(${name} ${class} "${ARG_TOGETHER}" of_class ${ARG_${class}})
      list(APPEND objects ${of_class})
    endif()
  endforeach()
  if(ARG_BASELINE OR objects)
    add_library(${name} STATIC ${ARG_BASELINE} ${objects})
    set_source_files_properties(${ARG_BASELINE} PROPERTIES COMPILE_OPTIONS "-O2")
    target_link_libraries(${name} PUBLIC moonlit_options)
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
    moonlit_link_rooms(${name} ${ARG_DEPENDS})
  else()
    moonlit_room(${room} DEPENDS ${ARG_DEPENDS})
  endif()
endfunction()

# Reading GoogleTest's headers is half of what compiling a test takes, so it is done once a build. A compiler cache would have to be
# told to take compilations with precompiled headers, and makes up for them.
option(MOONLIT_PRECOMPILE "Precompile the headers of the tests" ON)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(MOONLIT_PRECOMPILE OFF)
endif()

# What is tested is optimized; the tests themselves only have to be built.
function(moonlit_test_flags name)
  target_link_libraries(${name} PRIVATE moonlit_options GTest::gtest GTest::gtest_main GTest::gmock)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  # What lies in a system's header is forgotten with precompiling, and GCC then tells of its inside (see -Wno-restrict above). The
  # headers have to be compiled with the same flags: they bring theirs along.
  if(MOONLIT_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds
      -Wno-maybe-uninitialized -Wno-free-nonheap-object)
  endif()
endfunction()

if(MOONLIT_BUILD_TESTS AND MOONLIT_PRECOMPILE)
  # A program that does nothing: with -fPIC instead of -fPIE the compiler would not take them.
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/test_headers.cc" CONTENT "int main() {}\n")
  add_executable(moonlit_test_headers EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/generated/test_headers.cc")
  set_target_properties(moonlit_test_headers PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  moonlit_test_flags(moonlit_test_headers)
  target_precompile_headers(moonlit_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()

function(moonlit_test path)
  cmake_parse_arguments(ARG "SLOW" "TIMEOUT" "SOURCES;LABELS;DEPENDS;LIBRARIES;ARGS;DEFINITIONS" ${ARGN})
  if(NOT MOONLIT_BUILD_TESTS)
    return()
  endif()
  string(REPLACE "/" "_" name "${path}")
  moonlit_remember_libraries(${name} ${ARG_LIBRARIES})
  add_executable(${name} "${PROJECT_SOURCE_DIR}/tests/${path}.cc" ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES})
  target_compile_definitions(${name} PRIVATE MOONLIT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ${ARG_DEFINITIONS})
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    target_compile_definitions(${name} PRIVATE MOONLIT_EMULATED)  # tests/support/slowed.h
  endif()
  moonlit_test_flags(${name})
  if(MOONLIT_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM moonlit_test_headers)
  endif()
  foreach(room IN LISTS ARG_DEPENDS)
    moonlit_target_name(${room} room_name)
    target_link_libraries(${name} PRIVATE ${room_name})
  endforeach()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  add_test(NAME ${path} COMMAND ${name} ${ARG_ARGS} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
    if(CMAKE_CROSSCOMPILING_EMULATOR)
      set(ARG_TIMEOUT 1200)  # busy machines exist, and a test that hangs is no less seen
    endif()
  endif()
  set_tests_properties(${path} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  if(ARG_SLOW)
    set_tests_properties(${path} PROPERTIES COST 1000)
  endif()
endfunction()

function(moonlit_bench path)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  if(NOT MOONLIT_BUILD_BENCHMARKS)
    return()
  endif()
  get_filename_component(name "${path}" NAME)
  add_executable(${name} "${PROJECT_SOURCE_DIR}/${path}.cc" "${PROJECT_SOURCE_DIR}/kernels/cpu/bench_main.cc")
  target_link_libraries(${name} PRIVATE moonlit_options benchmark::benchmark)
  moonlit_link_rooms(${name} ${ARG_DEPENDS} kernels/cpu)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  # With tests only: a project without them has no use for the targets' test.
  if(MOONLIT_BUILD_TESTS)
    add_test(NAME ${path} COMMAND "${CMAKE_COMMAND}" "-DBENCH=$<TARGET_FILE:${name}>" "-DEMULATOR=${CMAKE_CROSSCOMPILING_EMULATOR}"
      -P "${PROJECT_SOURCE_DIR}/cmake/CheckBench.cmake")
    set_tests_properties(${path} PROPERTIES LABELS bench TIMEOUT 600)
  endif()
endfunction()

# The same test once more with every F32 product carried by XNNPACK, where the build has it. XNNPACK has the same F32 kernels for
# all 64-bit Arm processors.
function(moonlit_test_by_xnnpack path)
  if(NOT MOONLIT_BUILD_TESTS OR NOT TARGET XNNPACK)
    return()
  endif()
  string(REPLACE "/" "_" name "${path}")
  add_test(NAME ${path}_by_xnnpack COMMAND ${name} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(${path}_by_xnnpack PROPERTIES LABELS "unit;portable" TIMEOUT 600 ENVIRONMENT MOONLIT_FLOAT_PROVIDER=xnnpack)
endfunction()
