#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks sizes, first lines and words.

Usage: check_budget.py [--root FOLDER]

Sizes: a file of code has at most 500 lines (a warning; 600 fail), a C++ function at most 60 (a warning; 100 fail).
Files of nothing but data are named in DATA_FILES. First line: the licence. Words: see BANNED; each has its reason and the
places where it is allowed.
"""

import argparse
import os
import re
import sys

import source_tree

FILE_WARN, FILE_FAIL = 500, 600
FUNCTION_WARN, FUNCTION_FAIL = 60, 100
TEXT = source_tree.CODE + (".py", ".sh", ".cmake", ".txt", ".md", ".json", ".yml")
LICENSED = (".h", ".hpp", ".cc", ".inc", ".py", ".sh", ".cmake")
# Tables that were generated from a published source and are not read by people.
DATA_FILES = re.compile(r"(_table|_tables|_data|_golden)\.(inc|h|cc|py)$|^tests/data/")

# Kept as they were when they made the weights.
UNLICENSED = re.compile(r"^models/poet/recipe/")

# A room's measuring program (<name>_bench.cc) is no part of the library.
LIBRARY = r"^(kernels|runtime|models)/(?!.*_bench\.cc$)"
# Kernels have neither a Status nor a log: a broken precondition there ends the program (kernels/base/check.h).
# (pattern, where it is banned, where it is allowed all the same, why), on code without comments and strings
BANNED_CODE = [
    (r"\bstd::(cout|cerr|clog)\b", LIBRARY, r"^$", "a library writes through runtime/base's log sink"),
    (r"(?<![\w.>])(printf|puts|putchar|vprintf)\s*\(", LIBRARY, r"^$", "a library does not write to standard output"),
    (r"(?<![\w.>])fprintf\s*\(", LIBRARY, r"^kernels/|^runtime/base/log\.", "a library writes through the log sink"),
    (r"\busing\s+namespace\s+std\b", r"", r"^$", "names of std are written out"),
    (r"(?<![\w.>:])(rand|srand)\s*\(|\bstd::rand\b", r"", r"^$", "random numbers are seeded and ours"),
    (r"(?<![\w.>])(exit|abort|_exit)\s*\(", LIBRARY, r"^kernels/", "a library returns a Status"),
    (r"\b(sprintf|strcpy|strcat|gets|vsprintf)\s*\(", r"", r"^$", "it writes without a bound"),
    (r"\bsetlocale\s*\(|\bstd::locale\b", LIBRARY, r"^$", "numbers are read and written without the locale"),
]
# The same on whole lines, comments and documents included
BANNED_TEXT = [
    (r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b", r"\.(h|hpp|cc|inc|py|sh|cmake|txt)$", r"^$", "do it or file an issue"),
    (r"(?<![\w.:\"'}/])/(work|home|root|Users)/\w", r"", r"^docs/install", "a path of one machine"),
    (r"\b(deb|archive|security|ports)\.[a-z]+\.(org|com)\b|\bpypi\.[a-z]+\b|\bregistry\.[a-z]+\.[a-z]+\b", r"",
     r"^$", "the host of a package registry: read it from the machine"),
    (r"^(<{7}|>{7}) ", r"", r"^$", "a merge was not finished"),
]
BANNED_NAMES = re.compile(r"(^|[_/.-])(utils?|helpers?|managers?|misc|common_stuff)([_.-]|$)")


def check_first_line(path, lines):
    head = lines[1] if lines and lines[0].startswith("#!") and len(lines) > 1 else (lines[0] if lines else "")
    if not re.match(r"^(//|#|/\*) SPDX-License-Identifier: Apache-2\.0( \*/)?$", head):
        return [f"{path}:1: the first line is not '// SPDX-License-Identifier: Apache-2.0'"]
    return []


# A brace opens a container (its inside is read on) or a function (measured as a whole) or something else (skipped over).
_CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum)\b[^()=;]*$|\bextern\s*\"\"\s*$|"
                        r"\b(class|struct)\b[^;={}]*:[^;{}]*$")
_FUNCTION = re.compile(r"\)\s*(const|noexcept(\s*\([^()]*\))?|override|final|mutable|&&?|->[^;{}]*|:[^;]*|"
                       r"[A-Z][A-Z0-9_]*(\([^()]*\))?|\s)*$", re.DOTALL)
# A constructor's `: a_(a), b_{` : the brace right behind a name is a value, not the body.
_MEMBER_VALUE = re.compile(r"\)\s*:[^:].*[\w>]$", re.DOTALL)
_EVENT = re.compile(r"[{};]")


def functions(code):
    """(first line, last line, name) of each function body's definition in code without comments and strings."""
    # Preprocessor lines can hold unbalanced braces; continuation lines belong to them.
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: "\n" * m.group(0).count("\n"), code, flags=re.MULTILINE)
    found, position, since = [], 0, 0
    depth_other = 0
    open_function = None
    depth = 0
    for event in _EVENT.finditer(code):
        kind, position = event.group(0), event.start()
        if open_function is not None:
            depth += {"{": 1, "}": -1}.get(kind, 0)
            if depth == 0:
                start, name = open_function
                found.append((start, code.count("\n", 0, position) + 1, name))
                open_function, since = None, position + 1
            continue
        if depth_other:
            depth_other += {"{": 1, "}": -1}.get(kind, 0)
            continue
        if kind == "{":
            before = re.sub(r"^\s*((public|private|protected)\s*:\s*)+", " ", code[since:position])
            if _MEMBER_VALUE.search(before):
                depth_other = 1
            elif _FUNCTION.search(before) and not re.search(r"(?<![=!<>])=\s*$", before) and not _CONTAINER.search(before):
                text = before.lstrip()
                start = code.count("\n", 0, position - len(text)) + 1
                name = re.search(r"([~\w:]+|operator\W+)\s*\(", text)
                open_function, depth = (start, name.group(1) if name else "?"), 1
            elif _CONTAINER.search(before):
                since = position + 1
            else:
                depth_other = 1
        else:
            since = position + 1
    return found


def check_sizes(path, text):
    problems, warnings = [], []
    lines = text.count("\n")
    if DATA_FILES.search(path):
        return problems, warnings
    if lines > FILE_FAIL:
        problems.append(f"{path}: {lines} lines; at most {FILE_FAIL}, better {FILE_WARN}")
    elif lines > FILE_WARN:
        warnings.append(f"{path}: {lines} lines, better {FILE_WARN}")
    if path.endswith((".h", ".hpp", ".cc")):
        for first, end, name in functions(source_tree.without_comments(text)):
            length = end - first + 1
            if length > FUNCTION_FAIL:
                problems.append(f"{path}:{first}: {name} has {length} lines; at most {FUNCTION_FAIL}, better {FUNCTION_WARN}")
            elif length > FUNCTION_WARN:
                warnings.append(f"{path}:{first}: {name} has {length} lines, better {FUNCTION_WARN}")
    return problems, warnings


def check_words(path, text):
    problems = []

    def scan(rules, content):
        for pattern, where, allowed, why in rules:
            if not re.search(where, path) or re.search(allowed, path):
                continue
            for match in re.finditer(pattern, content, re.MULTILINE):
                line = content.count("\n", 0, match.start()) + 1
                problems.append(f"{path}:{line}: '{match.group(0).strip()}': {why}")

    if path.endswith(source_tree.CODE):
        scan(BANNED_CODE, source_tree.without_comments(text))
    scan(BANNED_TEXT, text)
    return problems


def check(root):
    problems, warnings = [], []
    for path in source_tree.files(root, TEXT + ("Makefile", "run")):
        try:
            text = source_tree.read(root, path)
        except UnicodeDecodeError:
            problems.append(f"{path}: is not UTF-8")
            continue
        if UNLICENSED.search(path):
            pass
        elif path.endswith(LICENSED) or os.path.basename(path) == "CMakeLists.txt":
            problems += check_first_line(path, text.split("\n"))
        if path.endswith(source_tree.CODE + (".py",)):
            failed, warned = check_sizes(path, text)
            problems += failed
            warnings += warned
            if BANNED_NAMES.search(path.lower()):
                problems.append(f"{path}: the name says nothing about its room")
        if path.endswith((".h", ".hpp")) and "#pragma once" not in text and not re.search(r"#ifndef \w+_H", text):
            problems.append(f"{path}: #pragma once is missing")
        # Golden data and fixtures hold other people's words.
        if not path.startswith("tests/data/"):
            problems += check_words(path, text)
    return problems, warnings


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    args = parser.parse_args()
    problems, warnings = check(args.root)
    for warning in warnings:
        print(f"warning: {warning}")
    return source_tree.report(problems, "budget")


if __name__ == "__main__":
    sys.exit(main())
