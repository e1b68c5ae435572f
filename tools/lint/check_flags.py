#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the compiler flags that the numeric contract rests on.

Usage: check_flags.py BUILD/compile_commands.json [--root FOLDER]

Every object of ours, and of the float-product library where it is built, must end with -ffp-contract=off and
-fno-fast-math: a compiler that contracts a*b+c does so differently in different instantiations of one template, and the
same prompt would give other tokens. An object of a kernel variant (it has -DMOONLIT_NS=...) must also end with -O2 (scalar:
-Os), be built without link-time optimization, and have Highway renamed for the same variant.
"""

import argparse
import json
import os
import re
import shlex
import sys

import source_tree

OURS = ("kernels/", "runtime/", "models/", "tools/", "tests/reference/", "tests/support/")
FORBIDDEN = re.compile(
    r"^-(Ofast|march=native|mcpu=native|mtune=native|ffast-math|funsafe-math-optimizations|fassociative-math"
    r"|freciprocal-math|ffinite-math-only|fno-signed-zeros|fno-honor-nans)$")


def last(arguments, pattern):
    found = None
    for argument in arguments:
        if re.fullmatch(pattern, argument):
            found = argument
    return found


def check_command(path, arguments):
    problems = []
    if last(arguments, r"-ffp-contract=\w+") != "-ffp-contract=off":
        problems.append(f"{path}: -ffp-contract=off is not the last word on contraction")
    if last(arguments, r"-f(no-)?fast-math") != "-fno-fast-math":
        problems.append(f"{path}: -fno-fast-math is missing")
    problems += [f"{path}: {a} is forbidden" for a in arguments if FORBIDDEN.match(a)]
    variant = last(arguments, r"-DMOONLIT_NS=\w+")
    if variant:
        variant = variant.split("=")[1]
        level = "-Os" if variant == "scalar" else "-O2"
        if last(arguments, r"-O\w*") != level:
            problems.append(f"{path} ({variant}): kernels are compiled with {level}, not {last(arguments, '-O.*')}")
        if last(arguments, r"-f(no-)?lto(=\S+)?") != "-fno-lto":
            problems.append(f"{path} ({variant}): -fno-lto is missing")
        if last(arguments, r"-Dhwy=\w+") != f"-Dhwy=hwy_{variant}":
            problems.append(f"{path} ({variant}): -Dhwy=hwy_{variant} is missing")
    return problems


def check(root, commands):
    problems, seen = [], 0
    for entry in commands:
        source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        path = os.path.relpath(source, root).replace(os.sep, "/")
        foreign_product = re.search(r"(^|/)xnnpack-[^/]*/", path) is not None
        arguments = entry.get("arguments") or shlex.split(entry["command"])
        # Kernel sources that are compiled together are named by a generated file.
        kernels = last(arguments, r"-DMOONLIT_NS=\w+") is not None
        if not path.startswith(OURS) and not foreign_product and not kernels:
            continue
        seen += 1
        problems += check_command(path, arguments)
    if not seen:
        problems.append("compile_commands.json names no source of ours")
    return problems


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    args = parser.parse_args()
    with open(args.commands, encoding="utf-8") as f:
        commands = json.load(f)
    return source_tree.report(check(args.root, commands), "flags")


if __name__ == "__main__":
    sys.exit(main())
