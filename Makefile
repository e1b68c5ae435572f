# SPDX-License-Identifier: Apache-2.0
# Thin fronts over CMakePresets.json.
#
#   make              build/bin/moonlit, optimized, and the libraries: what `cmake --install build/release --prefix DIR` puts into DIR
#   make demo         install missing build tools, build, and let the built-in poet go on from a line
#   make test         install missing build tools, build everything, run all tests (CROSS=1: and `make cross`)
#   make cross        build for 64- and 32-bit Arm, run the tests under qemu as each processor of CPUS
#   make asan, tsan   build with sanitizers, run the tests
#   make format       clang-format over the sources
#   make tidy         clang-tidy over the sources of the release build (slow)
#   make clean        remove the build folders, but not the fetched sources
#
# JOBS=n limits compilers and tests that run at a time. OPTIONS='-DNAME=VALUE ...' goes to CMake.

JOBS ?= $(shell nproc)
OPTIONS ?=
LINE ?= 床前明月
# Test presets of the Arm builds.
CPUS ?= aarch64-a53 aarch64-a72 aarch64-a76 aarch64-max armv7-a7

# Ninja where there is one. Configuring again with what a build folder has already is cheap.
configure = if command -v ninja >/dev/null; then cmake --preset $(1) $(OPTIONS); \
  else cmake --preset $(1) -G "Unix Makefiles" $(OPTIONS); fi
build = cmake --build --preset $(1) --parallel $(JOBS)
check = ctest --preset $(1) --parallel $(JOBS)

.PHONY: all release demo test cross asan tsan format tidy clean

all: release

release:
	@$(call configure,release)
	$(call build,release) --target moonlit_package
	@mkdir -p build/bin && ln -sfn ../release/bin/moonlit build/bin/moonlit

demo:
	@toolchains/install.sh native
	@$(MAKE) --no-print-directory release
	build/bin/moonlit generate -m poet -p $(LINE) --temp 0 -n 64

test:
	@toolchains/install.sh native lint
	@$(call configure,release)
	$(call build,release)
	@mkdir -p build/bin && ln -sfn ../release/bin/moonlit build/bin/moonlit
	$(call check,release)
	@if [ -n "$(CROSS)" ]; then $(MAKE) --no-print-directory cross; fi

cross:
	@toolchains/install.sh native cross
	@set -e; built=; for system in aarch64 armv7; do \
	  for cpu in $(CPUS); do \
	    case $$cpu in $$system-*) ;; *) continue ;; esac; \
	    if [ "$$built" != $$system ]; then $(call configure,$$system); $(call build,$$system); built=$$system; fi; \
	    $(call check,$$cpu); \
	  done; \
	done

asan tsan:
	@toolchains/install.sh native
	@$(call configure,$@)
	$(call build,$@)
	$(call check,$@)

format:
	python3 tools/lint/check_format.py --fix

tidy:
	@toolchains/install.sh native tidy
	@$(call configure,release)
	run-clang-tidy -quiet -j $(JOBS) -p build/release '^$(CURDIR)/(runtime|models|tools)/.*\.cc$$'

clean:
	rm -rf build/bin build/release build/debug build/asan build/tsan build/aarch64 build/armv7
