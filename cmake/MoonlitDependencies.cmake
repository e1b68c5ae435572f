# SPDX-License-Identifier: Apache-2.0
# Targets that the rest of the build may name: moonlit_highway, GTest::gtest, GTest::gtest_main, GTest::gmock,
# benchmark::benchmark, moonlit_cli11, moonlit_json, moonlit_pcre2, moonlit_utf8proc, Threads::Threads. Where their sources come from: MoonlitFetch.cmake.
#
# Libraries are built here from their source files, not by their own build scripts: one set of flags (sanitizers and
# cross compilers included), static, hidden symbols, no install rules, tools or tests.
include_guard()
include("${CMAKE_CURRENT_LIST_DIR}/MoonlitFetch.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake")

option(MOONLIT_SYSTEM_DEPS "Use the system's packages instead of pinned sources where they are new enough" OFF)
set(MOONLIT_HIGHWAY_DIR "" CACHE PATH "A Highway source tree to use instead of the pinned one")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# What of these libraries nobody calls is left out by the linker, function by function.
set(MOONLIT_SECTION_FLAGS -ffunction-sections -fdata-sections)

# Flags of other people's code: their warnings are theirs. C code has no tables for unwinding, since it calls nothing of ours that
# throws: it is given no callbacks.
function(moonlit_foreign_library target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -w ${MOONLIT_SECTION_FLAGS}
    $<$<COMPILE_LANGUAGE:C>:-fno-unwind-tables> $<$<COMPILE_LANGUAGE:C>:-fno-asynchronous-unwind-tables>)
endfunction()

# True if a system package is allowed and found; says which version it took.
macro(moonlit_system_package package version out)
  set(${out} FALSE)
  if(MOONLIT_SYSTEM_DEPS)
    find_package(${package} ${version} QUIET)
    if(${package}_FOUND)
      set(${out} TRUE)
      message(STATUS "${package} ${${package}_VERSION}: system package")
    endif()
  endif()
endmacro()

# Highway: headers only, since kernels use static dispatch (kernels/cpu/variants.inc).
add_library(moonlit_highway INTERFACE)
if(MOONLIT_HIGHWAY_DIR)
  target_include_directories(moonlit_highway SYSTEM INTERFACE "${MOONLIT_HIGHWAY_DIR}")
  message(STATUS "highway: ${MOONLIT_HIGHWAY_DIR} (MOONLIT_HIGHWAY_DIR)")
else()
  moonlit_system_package(hwy 1.2 found)
  if(found)
    get_target_property(directory hwy::hwy INTERFACE_INCLUDE_DIRECTORIES)
  else()
    moonlit_source(highway directory)
  endif()
  target_include_directories(moonlit_highway SYSTEM INTERFACE "${directory}")
endif()

# JSON: headers only. The library reads configurations and tokenizers with it (runtime/json).
add_library(moonlit_json INTERFACE)
moonlit_system_package(nlohmann_json 3.11 found)
if(found)
  target_link_libraries(moonlit_json INTERFACE nlohmann_json::nlohmann_json)
else()
  moonlit_source(json directory)
  target_include_directories(moonlit_json SYSTEM INTERFACE "${directory}/single_include")
endif()

# For the command and the tests.
if(MOONLIT_BUILD_CLI OR MOONLIT_BUILD_TESTS)
  # CLI11's definitions are compiled once (its CLI11_COMPILE), not again by every subcommand: 9 of the 15
  # seconds that one took.
  moonlit_system_package(CLI11 2.1 found)
  if(found)
    add_library(moonlit_cli11 INTERFACE)
    target_link_libraries(moonlit_cli11 INTERFACE CLI11::CLI11)
  else()
    moonlit_source(cli11 directory)
    add_library(moonlit_cli11 STATIC EXCLUDE_FROM_ALL "${directory}/src/Precompile.cpp")
    moonlit_foreign_library(moonlit_cli11)
    target_compile_options(moonlit_cli11 PRIVATE -O1)
    target_compile_features(moonlit_cli11 PUBLIC cxx_std_17)
    target_compile_definitions(moonlit_cli11 PUBLIC CLI11_COMPILE)
    target_include_directories(moonlit_cli11 SYSTEM PUBLIC "${directory}/include")
  endif()
endif()

# PCRE2: 8-bit code units, Unicode properties, no JIT (patterns run on hostile text on every target alike).
set(found FALSE)
if(MOONLIT_SYSTEM_DEPS)
  find_path(MOONLIT_PCRE2_INCLUDE pcre2.h)
  find_library(MOONLIT_PCRE2_LIBRARY pcre2-8)
  if(MOONLIT_PCRE2_INCLUDE AND MOONLIT_PCRE2_LIBRARY)
    set(found TRUE)
    add_library(moonlit_pcre2 INTERFACE)
    target_include_directories(moonlit_pcre2 SYSTEM INTERFACE "${MOONLIT_PCRE2_INCLUDE}")
    target_link_libraries(moonlit_pcre2 INTERFACE "${MOONLIT_PCRE2_LIBRARY}")
    message(STATUS "pcre2: system library ${MOONLIT_PCRE2_LIBRARY}")
  endif()
endif()
if(NOT found)
  moonlit_source(pcre2 directory)
  set(generated "${PROJECT_BINARY_DIR}/generated/pcre2")
  configure_file("${directory}/src/config.h.generic" "${generated}/config.h" COPYONLY)
  configure_file("${directory}/src/pcre2.h.generic" "${generated}/pcre2.h" COPYONLY)
  configure_file("${directory}/src/pcre2_chartables.c.dist" "${generated}/pcre2_chartables.c" COPYONLY)
  set(sources "${generated}/pcre2_chartables.c")
  # The files that the release names for builds without autotools; pcre2_jit_compile.c is a stub when JIT is off.
  foreach(part auto_possess chkdint compile compile_class config context convert dfa_match error extuni find_bracket jit_compile
      maketables match match_data newline ord2utf pattern_info script_run serialize string_utils study substitute substring tables
      ucd valid_utf xclass)
    list(APPEND sources "${directory}/src/pcre2_${part}.c")
  endforeach()
  add_library(moonlit_pcre2 STATIC EXCLUDE_FROM_ALL ${sources})
  moonlit_foreign_library(moonlit_pcre2)
  target_compile_options(moonlit_pcre2 PRIVATE $<$<CONFIG:Release>:-O2>)  # as its own scripts have it
  # A pattern is compiled once, when a tokenizer is loaded.
  set(small_sources auto_possess compile compile_class config context convert dfa_match error find_bracket maketables match_data pattern_info serialize
      string_utils study substitute substring)
  list(TRANSFORM small_sources PREPEND "${directory}/src/pcre2_")
  list(TRANSFORM small_sources APPEND ".c")
  set_property(SOURCE ${small_sources} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-Os>)
  target_include_directories(moonlit_pcre2 PRIVATE "${directory}/src")
  target_include_directories(moonlit_pcre2 SYSTEM PUBLIC "${generated}")
  target_compile_definitions(moonlit_pcre2 PUBLIC PCRE2_STATIC
    PRIVATE PCRE2_CODE_UNIT_WIDTH=8 HAVE_CONFIG_H SUPPORT_PCRE2_8 SUPPORT_UNICODE)
endif()

set(found FALSE)
if(MOONLIT_SYSTEM_DEPS)
  find_path(MOONLIT_UTF8PROC_INCLUDE utf8proc.h)
  find_library(MOONLIT_UTF8PROC_LIBRARY utf8proc)
  if(MOONLIT_UTF8PROC_INCLUDE AND MOONLIT_UTF8PROC_LIBRARY)
    set(found TRUE)
    add_library(moonlit_utf8proc INTERFACE)
    target_include_directories(moonlit_utf8proc SYSTEM INTERFACE "${MOONLIT_UTF8PROC_INCLUDE}")
    target_link_libraries(moonlit_utf8proc INTERFACE "${MOONLIT_UTF8PROC_LIBRARY}")
    message(STATUS "utf8proc: system library ${MOONLIT_UTF8PROC_LIBRARY}")
  endif()
endif()
if(NOT found)
  moonlit_source(utf8proc directory)
  add_library(moonlit_utf8proc STATIC EXCLUDE_FROM_ALL "${directory}/utf8proc.c")
  moonlit_foreign_library(moonlit_utf8proc)
  target_include_directories(moonlit_utf8proc SYSTEM PUBLIC "${directory}")
  target_compile_definitions(moonlit_utf8proc PUBLIC UTF8PROC_STATIC)
endif()

if(MOONLIT_BUILD_TESTS)
  moonlit_system_package(GTest 1.12 found)
  if(NOT found)
    moonlit_source(googletest directory)
    foreach(part gtest gmock)
      string(REPLACE "gtest" "googletest" folder ${part})
      string(REPLACE "gmock" "googlemock" folder ${folder})
      add_library(moonlit_${part} STATIC EXCLUDE_FROM_ALL "${directory}/${folder}/src/${part}-all.cc")
      moonlit_foreign_library(moonlit_${part})
      target_include_directories(moonlit_${part} PRIVATE "${directory}/${folder}")
      target_include_directories(moonlit_${part} SYSTEM PUBLIC "${directory}/${folder}/include")
      target_compile_features(moonlit_${part} PUBLIC cxx_std_17)
      add_library(GTest::${part} ALIAS moonlit_${part})
    endforeach()
    target_link_libraries(moonlit_gtest PUBLIC Threads::Threads)
    target_link_libraries(moonlit_gmock PUBLIC moonlit_gtest)
    # gmock's main also sets up gtest, so one main serves both.
    add_library(moonlit_gtest_main STATIC EXCLUDE_FROM_ALL "${directory}/googlemock/src/gmock_main.cc")
    moonlit_foreign_library(moonlit_gtest_main)
    target_link_libraries(moonlit_gtest_main PUBLIC moonlit_gmock)
    add_library(GTest::gtest_main ALIAS moonlit_gtest_main)
  endif()
endif()

if(MOONLIT_BUILD_BENCHMARKS)
  moonlit_system_package(benchmark 1.7 found)
  if(NOT found)
    moonlit_source(benchmark directory)
    file(GLOB sources "${directory}/src/*.cc")
    list(FILTER sources EXCLUDE REGEX "/benchmark_main\\.cc$")
    get_property(version GLOBAL PROPERTY MOONLIT_DEP_benchmark_VERSION)
    add_library(moonlit_benchmark STATIC EXCLUDE_FROM_ALL ${sources})
    moonlit_foreign_library(moonlit_benchmark)
    target_include_directories(moonlit_benchmark SYSTEM PUBLIC "${directory}/include")
    target_compile_features(moonlit_benchmark PUBLIC cxx_std_17)
    # NDEBUG: its loop must not check itself, whatever our build type is.
    target_compile_definitions(moonlit_benchmark PUBLIC BENCHMARK_STATIC_DEFINE
      PRIVATE NDEBUG HAVE_STD_REGEX HAVE_STEADY_CLOCK BENCHMARK_VERSION="v${version}")
    target_compile_options(moonlit_benchmark PRIVATE -O2)
    target_link_libraries(moonlit_benchmark PUBLIC Threads::Threads)
    add_library(benchmark::benchmark ALIAS moonlit_benchmark)
  endif()
endif()
