# SPDX-License-Identifier: Apache-2.0
# 64-bit Arm (Raspberry Pi 3 and later, RK3588, phones, servers) from another machine, with Debian's cross compiler.
# Tests run under qemu-user; QEMU_CPU in the environment chooses the processor (cortex-a53, cortex-a76, max ...).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triple aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)

# -DCMAKE_FIND_ROOT_PATH=PREFIX adds the place of a package that was built for this machine.
list(APPEND CMAKE_FIND_ROOT_PATH /usr/${triple})
list(REMOVE_DUPLICATES CMAKE_FIND_ROOT_PATH)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# GCC tells of an ABI change of its version 7 at each use of some types; there is nothing to do about it.
set(CMAKE_C_FLAGS_INIT -Wno-psabi)
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)

# Without an emulator the build works all the same; only its tests can't be run here.
find_program(MOONLIT_EMULATOR qemu-aarch64)
mark_as_advanced(MOONLIT_EMULATOR)
if(MOONLIT_EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${MOONLIT_EMULATOR};-L;/usr/${triple}")
endif()
