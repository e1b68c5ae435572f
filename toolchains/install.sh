#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the build tools that are missing, by Debian's package names. As a user without the right to install it says
# what is missing and fails, unless it is only what the build can do without (Makefile: ninja).
# Usage: toolchains/install.sh native|cross|lint|tidy ...
set -euo pipefail

packages=()
needed=0
need() {  # need COMMAND PACKAGE
  command -v "$1" >/dev/null 2>&1 || { packages+=("$2"); needed=1; }
}
want() {  # want COMMAND PACKAGE
  command -v "$1" >/dev/null 2>&1 || packages+=("$2")
}

for set in "$@"; do
  case $set in
    native)
      need g++ g++
      need cmake cmake
      want ninja ninja-build
      need python3 python3
      need nm binutils
      ;;
    cross)
      need aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
      need arm-linux-gnueabihf-g++ g++-arm-linux-gnueabihf
      need qemu-aarch64 qemu-user
      need qemu-arm qemu-user
      ;;
    lint)
      need clang-format clang-format
      ;;
    tidy)
      need run-clang-tidy clang-tidy
      ;;
    *)
      echo "toolchains/install.sh: unknown set '$set' (native, cross, lint, tidy)" >&2
      exit 2
      ;;
  esac
done

if [ ${#packages[@]} -eq 0 ]; then exit 0; fi
echo "missing: ${packages[*]}"
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ]; then
  if [ "$needed" -eq 0 ]; then exit 0; fi
  echo "Please install them (on Debian and its kin: apt-get install ${packages[*]}), then try again." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
