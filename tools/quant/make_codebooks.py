#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes kernels/quant/codebook_tables.inc: the tables that the IQ1, IQ2 and IQ3 formats of ggml point into.

    python3 make_codebooks.py codebook_tables.inc       needs numpy and the `gguf` package, whose tables these are

The tables are part of the formats (ggml's authors chose the points; no rule gives them), so they are taken from the package that
defines the formats for Python, and packed anew: two bits a value in entries of eight, three bits a value in entries of four.
"""
import sys

import gguf.quants as quants

# C++ name, class in gguf.quants, bits a value
TABLES = [("kIq1Grid", "IQ1_S", 2), ("kIq2XxsGrid", "IQ2_XXS", 2), ("kIq2XsGrid", "IQ2_XS", 2), ("kIq2SGrid", "IQ2_S", 2),
          ("kIq3XxsGrid", "IQ3_XXS", 3), ("kIq3SGrid", "IQ3_S", 3)]
HEAD = """// SPDX-License-Identifier: Apache-2.0
// Written by tools/quant/make_codebooks.py from the tables of gguf-py (ggml's formats IQ1, IQ2 and IQ3; MIT licence).
"""


def entries(name, bits):
    kind = getattr(quants, name)
    kind.init_grid()
    grid = kind.grid.reshape(kind.grid_shape)
    for row in grid:
        levels = [kind.grid_map.index(int(v)) for v in row]
        yield sum(level << (bits * i) for i, level in enumerate(levels))


def main(path):
    text = HEAD
    for constant, name, bits in TABLES:
        words = [f"0x{e:04x}," for e in entries(name, bits)]
        text += f"\nconst uint16_t {constant}[{len(words)}] = {{\n"
        for i in range(0, len(words), 16):
            text += "  " + "".join(words[i:i + 16]) + "\n"
        text += "};\n"
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
