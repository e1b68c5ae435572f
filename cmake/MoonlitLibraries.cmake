# SPDX-License-Identifier: Apache-2.0
# The two libraries that an application links, each one file: a shared one (runtime/api/CMakeLists.txt) and a static one, made here of
# all rooms and of the libraries below them. Included at the end of the top CMakeLists.txt, when everything below the API is known.
#
# The archive holds one object. Linking it beforehand is what makes the libraries inside private: all symbols but moonlit_* become
# local, so an application may have another PCRE2 or XNNPACK of its own, and its copy of a template from the standard
# library, compiled for whatever processor, is never taken for ours.
include_guard()

# What `target` links, however far down -> archives (target names) and what is the system's (as -l names it, "Threads" for threads).
function(moonlit_link_closure target out_archives out_libraries)
  set(queue ${target})
  set(seen)
  set(archives)
  set(libraries)
  while(queue)
    list(POP_FRONT queue item)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
    if(item STREQUAL "" OR item IN_LIST seen)
      continue()
    endif()
    list(APPEND seen "${item}")
    if(item MATCHES "^(Threads::Threads|-l?pthread)$")
      list(APPEND libraries Threads)
    elseif(NOT TARGET "${item}")
      get_filename_component(name "${item}" NAME_WE)
      string(REGEX REPLACE "^(-l|lib)" "" name "${name}")
      if(NOT name MATCHES "^[A-Za-z0-9_+.-]+$")
        message(FATAL_ERROR "moonlit_link_closure: ${target} links '${item}', which an application's link line can't be given")
      endif()
      list(APPEND libraries "${name}")
    else()
      get_target_property(aliased "${item}" ALIASED_TARGET)
      get_target_property(type "${item}" TYPE)
      get_target_property(imported "${item}" IMPORTED)
      if(aliased)
        list(APPEND queue "${aliased}")
        continue()
      endif()
      if(type STREQUAL "STATIC_LIBRARY" AND NOT imported)
        list(APPEND archives "${item}")
      endif()
      # An object library's files are in the archive that names it.
      set(properties INTERFACE_LINK_LIBRARIES)
      if(type MATCHES "^(STATIC|OBJECT)_LIBRARY$" AND NOT imported)
        list(APPEND properties LINK_LIBRARIES)
      endif()
      foreach(property IN LISTS properties)
        get_target_property(links "${item}" ${property})
        if(links)
          list(APPEND queue ${links})
        endif()
      endforeach()
    endif()
  endwhile()
  list(REMOVE_DUPLICATES libraries)
  set(${out_archives} "${archives}" PARENT_SCOPE)
  set(${out_libraries} "${libraries}" PARENT_SCOPE)
endfunction()

if(NOT MOONLIT_STATIC AND NOT MOONLIT_INSTALL)
  return()
endif()
moonlit_link_closure(moonlit_runtime_api moonlit_archives MOONLIT_SYSTEM_LIBRARIES)
# An application in C links the C++ runtime by name.
foreach(name stdc++ c++)
  if(name IN_LIST CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
    list(PREPEND MOONLIT_SYSTEM_LIBRARIES ${name})
  endif()
endforeach()
if(NOT m IN_LIST MOONLIT_SYSTEM_LIBRARIES)
  list(APPEND MOONLIT_SYSTEM_LIBRARIES m)
endif()

if(MOONLIT_STATIC)
  execute_process(COMMAND "${CMAKE_LINKER}" --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(NOT version MATCHES "^GNU ld" OR NOT CMAKE_OBJCOPY)
    message(STATUS "libmoonlit.a: not built, it takes GNU ld and objcopy")
    set(MOONLIT_STATIC OFF)
  endif()
endif()
if(MOONLIT_STATIC)
  set(MOONLIT_STATIC_FILE "${PROJECT_BINARY_DIR}/lib/libmoonlit.a")
  set(merged "${PROJECT_BINARY_DIR}/lib/moonlit.o")
  set(files)
  foreach(archive IN LISTS moonlit_archives)
    list(APPEND files "$<TARGET_FILE:${archive}>")
  endforeach()
  # As in any link, an archive's member is taken if something needs it, and of its sections what the API needs. Groups are resolved
  # here, since one that an application has too would be dropped from one side, and local symbols in it with it.
  add_custom_command(OUTPUT "${MOONLIT_STATIC_FILE}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/lib"
    COMMAND "${CMAKE_LINKER}" -r --gc-sections --gc-keep-exported --force-group-allocation -o "${merged}" "$<TARGET_OBJECTS:moonlit_runtime_api>" --start-group ${files} --end-group
    # Variables in inline functions, and inline variables, are "unique" globals, which only become local as weak ones. (These are
    # defined here: a weak name that is not would not bring its member of another archive.)
    COMMAND "${CMAKE_OBJCOPY}" --wildcard "--weaken-symbol=_ZZ*" "--weaken-symbol=_ZGV*" "--weaken-symbol=_ZN7moonlit*"
      "--weaken-symbol=_ZN8nlohmann*" --weaken-symbol=_ZSt19piecewise_construct "${merged}"
    COMMAND "${CMAKE_OBJCOPY}" --wildcard "--keep-global-symbol=moonlit_*" "${merged}"
    COMMAND "${CMAKE_COMMAND}" -E rm -f "${MOONLIT_STATIC_FILE}"
    COMMAND "${CMAKE_AR}" qcs "${MOONLIT_STATIC_FILE}" "${merged}"
    COMMAND "${CMAKE_COMMAND}" -E rm -f "${merged}"
    DEPENDS ${moonlit_archives} "$<TARGET_OBJECTS:moonlit_runtime_api>"
    COMMENT "Merging libmoonlit.a" COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(moonlit_static_file ALL DEPENDS "${MOONLIT_STATIC_FILE}")
endif()
