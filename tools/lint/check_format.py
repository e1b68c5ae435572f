#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks (or with --fix makes) the layout that .clang-format asks for.

Usage: check_format.py [--root FOLDER] [--fix]

Versions of clang-format differ in details, so one is named: 14, Debian 12's. Without it the check is skipped, with exit
code 77.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys

import source_tree

VERSION = "14"
SKIPPED = 77


def find_clang_format():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
            if re.search(rf"version {VERSION}\.", text):
                return path
    return None


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("--fix", action="store_true")
    args = parser.parse_args()
    tool = find_clang_format()
    if not tool:
        print(f"format: clang-format {VERSION} is not here, nothing was checked")
        return SKIPPED
    paths = source_tree.files(args.root, (".h", ".hpp", ".cc"))
    paths = [p for p in paths if not p.startswith("tests/data/")]
    if not paths:
        print("format: no source file was found")
        return 1
    mode = ["-i"] if args.fix else ["--dry-run", "-Werror", "--ferror-limit=1"]
    problems = []
    for path in paths:
        run = subprocess.run([tool, "--style=file", *mode, os.path.join(args.root, path)], capture_output=True, text=True)
        if run.returncode:
            first = re.search(r":(\d+):\d+: ", run.stderr)
            problems.append(f"{path}:{first[1] if first else '?'}: layout differs; `make format` mends it")
    return source_tree.report(problems, "format")


if __name__ == "__main__":
    sys.exit(main())
