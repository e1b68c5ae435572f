#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the libraries give out against runtime/api/symbols.txt.

Usage: check_exports.py [--root FOLDER] [--fix] [--nm NM] [--shared libmoonlit.so] [--static libmoonlit.a]

The list has one "name version" a line, sorted. The headers declare exactly the functions in it; the shared library exports exactly
these symbols, each under its version; the archive's only global symbols are these. moonlit.hpp or a part of it calls each. --fix appends functions that the headers have
under the newest version of moonlit.map. It never takes one away: programs that were linked with it would not start any more.
"""

import argparse
import os
import re
import subprocess
import sys

import c_headers
import source_tree

LIST = "runtime/api/symbols.txt"
HEAD = """# Functions that libmoonlit.so gives out, and the version of the interface that brought each (moonlit.map).
# `python3 tools/lint/check_exports.py --fix` adds new ones.
"""


def read_list(root):
    path = os.path.join(root, LIST)
    if not os.path.exists(path):
        return {}
    rows = [line.split() for line in source_tree.read(root, LIST).splitlines() if line and not line.startswith("#")]
    return {row[0]: row[1] for row in rows}


def check_headers(root, listed):
    declared = set(c_headers.functions(root))
    problems = [f"{LIST}: lacks {name}, which a header declares; tools/lint/check_exports.py --fix adds it"
                for name in sorted(declared - set(listed))]
    problems += [f"{LIST}: no header declares {name}" for name in sorted(set(listed) - declared)]
    problems += [f"{name}: names begin with moonlit_" for name in sorted(declared) if not name.startswith("moonlit_")]
    return problems


def check_layer(root, listed):
    """moonlit.hpp has the same functions."""
    paths = [p for p in source_tree.files(root, (".hpp",)) if p.startswith(c_headers.FOLDER + "/")]
    text = "\n".join(source_tree.without_comments(source_tree.read(root, p)) for p in paths)
    called = set(re.findall(r"\bmoonlit_\w+", text))
    return [f"{c_headers.FOLDER}/moonlit.hpp: neither it nor a part of it calls {name}" for name in sorted(set(listed) - called)]


def exported(nm, library):
    """{symbol: version, or None} of the dynamic symbols that a shared library defines; versions themselves are left out."""
    text = subprocess.run([nm, "-D", "--defined-only", "--with-symbol-versions", library], check=True, capture_output=True,
                          text=True).stdout
    found = {}
    for line in text.splitlines():
        symbol = line.split()[-1]
        name, _, version = symbol.partition("@")
        version = version.lstrip("@") or None
        if line.split()[-2] == "A" and version in (None, name):
            continue
        found[name] = version
    return found


def check_shared(nm, library, listed):
    found = exported(nm, library)
    if not found:
        return [f"{library}: exports nothing"]
    problems = [f"{library}: does not export {name}" for name in sorted(set(listed) - set(found))]
    for name, version in sorted(found.items()):
        if name not in listed:
            problems.append(f"{library}: exports {name}, which {LIST} lacks")
        elif version != listed[name]:
            problems.append(f"{library}: {name} has the version {version}, {LIST} says {listed[name]}")
    return problems


def check_static(nm, library, listed):
    text = subprocess.run([nm, "-g", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    found = {line.split()[-1] for line in text.splitlines() if re.match(r"^[0-9a-f]+ \S ", line)}
    problems = [f"{library}: does not define {name}" for name in sorted(set(listed) - found)]
    # Pieces of the poem model, where it is inside, are hidden from shared libraries that take the archive in.
    strangers = found - set(listed) - {"moonlit_poet_begin", "moonlit_poet_end"}
    return problems + [f"{library}: gives out {name}, which {LIST} lacks" for name in sorted(strangers)]


def fix(root, listed):
    versions = re.findall(r"^(MOONLIT_[\w.]+)\s*\{", source_tree.read(root, "runtime/api/moonlit.map"), re.MULTILINE)
    listed = {**{name: versions[-1] for name in c_headers.functions(root)}, **listed}
    with open(os.path.join(root, LIST), "w", encoding="utf-8") as f:
        f.write(HEAD + "".join(f"{name} {version}\n" for name, version in sorted(listed.items())))
    return listed


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--shared")
    parser.add_argument("--static")
    args = parser.parse_args()
    listed = read_list(args.root)
    if args.fix:
        listed = fix(args.root, listed)
    problems = check_headers(args.root, listed) + check_layer(args.root, listed)
    if args.shared:
        problems += check_shared(args.nm, args.shared, listed)
    if args.static:
        problems += check_static(args.nm, args.static, listed)
    return source_tree.report(problems, "exports")


if __name__ == "__main__":
    sys.exit(main())
