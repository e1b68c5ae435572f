#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include against the arrows between rooms.

Usage: check_arrows.py [--root FOLDER] [--table FILE]

The table is tools/lint/arrows.txt; its head explains the lines. Reported: an include that no arrow allows, an outside
header in a room that is not named for it, a file of ours included by a short path (tests may), a folder without a room, and a circle
in the table.
"""

import argparse
import fnmatch
import os
import re
import sys

import source_tree

FOLDERS = ("kernels", "runtime", "models", "tools", "tests", "examples")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def covers(name, path):
    """Whether the room, file or pattern `name` holds the file `path`."""
    if "*" in name:
        return fnmatch.fnmatchcase(path, name) or fnmatch.fnmatchcase(path, name + "/*")
    return path == name or path.startswith(name + "/")


class Table:
    def __init__(self, text):
        self.rooms, self.bases, self.externals, self.generated, self.installed = {}, {}, {}, {}, {}
        kinds = {"room": self.rooms, "base": self.bases, "external": self.externals, "generated": self.generated,
                 "installed": self.installed}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            match = re.fullmatch(r"(room|base|external|generated|installed) ([^ :]+):(.*)", line)
            if not match:
                raise ValueError(f"arrows.txt:{number}: can't read '{line}'")
            kinds[match[1]].setdefault(match[2], []).extend(match[3].split())

    def room_of(self, path):
        """The longest room name that fits; a literal name beats a pattern of its length."""
        fitting = [name for name in self.rooms if covers(name, path)]
        return max(fitting, key=lambda name: (len(name), "*" not in name), default=None)

    def place_of(self, path):
        """What two files must share to be of one room: for a pattern such as kernels/*, the folder it stands for."""
        room = self.room_of(path)
        if room and room.endswith("/*"):
            depth = room.count("/") + 1
            return "/".join(path.split("/")[:depth])
        return room

    def targets(self, room, path):
        allowed = list(self.rooms[room])
        allowed += [base for base, folders in self.bases.items() if any(covers(f, path) for f in folders)]
        return allowed

    def may_include(self, path, target):
        if self.place_of(path) == self.place_of(target):
            return True
        return any(covers(name, target) for name in self.targets(self.room_of(path), path))

    def external_rule(self, header):
        for prefix in self.externals:
            if header == prefix or (prefix.endswith("/") and header.startswith(prefix)):
                return prefix
        return None

    def circle(self):
        """A list of rooms that can reach themselves, or None."""
        edges = {}
        for room in self.rooms:
            stand_in = room.replace("*", "any")
            names = self.targets(room, stand_in)
            edges[room] = sorted({other for name in names for other in self.rooms
                                  if other != room and (covers(name, other) or covers(other, name))
                                  and self.is_room_named(name, other)})
        done, path = set(), []

        def visit(room):
            if room in path:
                return path[path.index(room):] + [room]
            if room in done:
                return None
            path.append(room)
            for other in edges[room]:
                found = visit(other)
                if found:
                    return found
            path.pop()
            done.add(room)
            return None

        for room in sorted(edges):
            found = visit(room)
            if found:
                return found
        return None

    def is_room_named(self, name, other):
        """kernels/cpu names the room kernels/cpu, not kernels/*; kernels/* names all of them."""
        if name in self.rooms and "*" not in name:
            return other == name
        if name.endswith("/*"):
            return covers(name, other)
        return self.room_of(name) == other


def check(root, table):
    problems = []
    circle = table.circle()
    if circle:
        problems.append("arrows.txt: the arrows run in a circle: " + " -> ".join(circle))
    for path in source_tree.files(root, source_tree.CODE):
        if not path.startswith(tuple(f + "/" for f in FOLDERS)):
            continue
        if table.room_of(path) is None:
            problems.append(f"{path}: no room in arrows.txt holds this file")
            continue
        code = source_tree.without_comments(source_tree.read(root, path), keep_strings=True)
        for match in INCLUDE.finditer(code):
            header = match[1] or match[2]
            where = f"{path}:{code.count(chr(10), 0, match.start()) + 1}"
            rule = table.external_rule(header)
            if rule:
                if not any(covers(place, path) for place in table.externals[rule]):
                    problems.append(f"{where}: <{header}> belongs to {', '.join(table.externals[rule])}")
                continue
            if header in table.generated:
                header = table.generated[header][0] + "/generated"
            if not match[1]:
                continue
            if not header.startswith(tuple(f + "/" for f in FOLDERS)):
                beside = os.path.join(os.path.dirname(path), header)
                neighbour = path in table.installed or path.startswith("tests/")
                if not neighbour and os.path.exists(os.path.join(root, beside)):
                    problems.append(f'{where}: say "{beside}": includes give the path from the top')
                continue
            if table.room_of(header) is None:
                problems.append(f"{where}: {header} is in no room of arrows.txt")
            elif not table.may_include(path, header):
                problems.append(f"{where}: {table.room_of(path)} may not include {header} ({table.room_of(header)})")
    return problems


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("--table", default=os.path.join(here, "arrows.txt"))
    args = parser.parse_args()
    with open(args.table, encoding="utf-8") as f:
        table = Table(f.read())
    return source_tree.report(check(args.root, table), "arrows")


if __name__ == "__main__":
    sys.exit(main())
