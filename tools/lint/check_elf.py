#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a program can be loaded where pages are larger than 4 KiB.

Usage: check_elf.py PROGRAM [--alignment BYTES]

Kernels of the Raspberry Pi 5, of newer phones and of some servers have pages of 16 or 64 KiB. Each LOAD segment must be
aligned to at least that, and its place in the file must fit its address modulo the alignment.
"""

import argparse
import struct
import sys

import source_tree

PT_LOAD = 1


def load_segments(data):
    """(file offset, address, alignment) of each LOAD segment of a little-endian ELF file."""
    if data[:4] != b"\x7fELF" or data[5] != 1:
        raise ValueError("no little-endian ELF file")
    if data[4] == 2:
        table, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        fields, positions = "<IIQQQQQQ", (2, 3, 7)
    else:
        table, = struct.unpack_from("<I", data, 28)
        size, count = struct.unpack_from("<HH", data, 42)
        fields, positions = "<IIIIIIII", (1, 2, 7)
    for i in range(count):
        row = struct.unpack_from(fields, data, table + i * size)
        if row[0] == PT_LOAD:
            yield tuple(row[p] for p in positions)


def check(path, alignment):
    with open(path, "rb") as f:
        data = f.read()
    problems, seen = [], 0
    for offset, address, actual in load_segments(data):
        seen += 1
        if actual < alignment:
            problems.append(f"{path}: the segment at {address:#x} is aligned to {actual} bytes, less than {alignment}")
        elif (address - offset) % alignment:
            problems.append(f"{path}: the segment at {address:#x} lies at {offset:#x} in the file, which does not fit its alignment")
    if not seen:
        problems.append(f"{path}: has no LOAD segment")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--alignment", type=int, default=65536)
    args = parser.parse_args()
    return source_tree.report(check(args.program, args.alignment), "elf")


if __name__ == "__main__":
    sys.exit(main())
