#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/quant_golden.bin: blocks of every weight format and what gguf-py decodes them to.

    python3 make_quant_golden.py quant_golden.bin quant_points_golden.txt       needs numpy and the `gguf` package (0.17 or later, for MXFP4)

File, little-endian: "MQG1", u32 number of records; a record is
    char[8] name, u32 GGUF type, u32 blocks, u32 bytes a block, u32 values a block, the blocks, the values as f32 bits.
The blocks are random bytes with chosen scales: ordinary ones, a zero, the smallest and the largest subnormal F16, the largest
finite F16 negated, infinity, NaN; and blocks whose other bytes are all zeros or all ones. NaN results are written as gguf-py gives
them; readers compare only that both are NaN, since processors differ in the payload.

quant_points_golden.txt: a line a format with a table of points: name, and FNV-1a (64 bits, over 32-bit words) of the values that 1024
blocks decode to. Their bytes are bits 24 to 31 of x = x * 1664525 + 1013904223 mod 2^32, x = 1 at first, with scales of 1.
"""
import struct
import sys

import gguf
import numpy as np

# name -> offsets of F16 scales in a block
SCALES = {
    "F32": [], "F16": [0], "BF16": [], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
    "IQ1_S": [0], "IQ1_M": [48], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "TQ1_0": [52],
    "TQ2_0": [64],
}
# Formats that choose from tables of points: enough blocks to meet every point, of which only a hash is kept.
POINTS = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0")
POINT_BLOCKS = 1024
EXTREMES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0xFBFF, 0x7BFF, 0x7C00, 0xFC00, 0x7E01]
ORDINARY = 4


def put_scale(block, name, offset, bits):
    if name != "IQ1_M":
        struct.pack_into("<H", block, offset, bits)
        return
    for w in range(4):  # four bits in each of four words
        at = offset + 2 * w + 1
        block[at] = (block[at] & 15) | (bits >> (4 * w) & 15) << 4


def half_bits(value):
    return int(np.float16(value).view(np.uint16))


def points_hash(name):
    kind = gguf.GGMLQuantizationType[name]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    x, words = 1, []
    for _ in range(POINT_BLOCKS):
        block = bytearray(size)
        for i in range(size):
            x = (x * 1664525 + 1013904223) % 2**32
            block[i] = x >> 24
        put_scale(block, name, SCALES[name][0], 0x3C00)
        words.append(gguf.quants.dequantize(np.frombuffer(bytes(block), dtype=np.uint8), kind).reshape(-1).astype(np.float32))
    fnv = 0xCBF29CE484222325
    for word in np.concatenate(words).view(np.uint32).tolist():
        fnv = ((fnv ^ word) * 0x100000001B3) % 2**64
    return fnv


def blocks_of(name, size, rng):
    rows = []
    offsets = SCALES[name]
    for _ in range(ORDINARY):
        block = bytearray(rng.integers(0, 256, size, dtype=np.uint8).tobytes())
        for o in offsets:
            put_scale(block, name, o, half_bits(rng.uniform(-0.1, 0.1)))
        if name == "MXFP4":
            block[0] = int(rng.integers(100, 150))
        rows.append(block)
    for fill in (0x00, 0xFF):
        block = bytearray([fill]) * size
        for o in offsets:
            put_scale(block, name, o, half_bits(0.37109375))
        if name == "MXFP4":
            block[0] = 127
        rows.append(block)
    if offsets and name != "F16":
        for i, bits in enumerate(EXTREMES):
            block = bytearray(rng.integers(0, 256, size, dtype=np.uint8).tobytes())
            for j, o in enumerate(offsets):
                put_scale(block, name, o, bits if j == i % len(offsets) else 0x2E66)
            rows.append(block)
    if name == "MXFP4":
        # 255 is left out: the specification says NaN, gguf-py says 2^128.
        for e in (0, 1, 2, 3, 253, 254):
            block = bytearray(rng.integers(0, 256, size, dtype=np.uint8).tobytes())
            block[0] = e
            rows.append(block)
    if name in ("F16", "BF16"):
        rows += [bytearray(struct.pack("<H", b)) for b in EXTREMES + [0x7F80, 0xFF80, 0x7FC0, 0x0080, 0x007F]]
    if name == "F32":
        rows += [bytearray(struct.pack("<I", b)) for b in (0, 1 << 31, 1, 0x7F7FFFFF, 0x7F800000, 0x7FC00000)]
    return np.array([np.frombuffer(bytes(r), dtype=np.uint8) for r in rows])


def main(path, points_path):
    rng = np.random.default_rng(20261129)
    out = bytearray(b"MQG1" + struct.pack("<I", len(SCALES)))
    np.seterr(all="ignore")
    for name in SCALES:
        kind = gguf.GGMLQuantizationType[name]
        values_a_block, bytes_a_block = gguf.GGML_QUANT_SIZES[kind]
        blocks = blocks_of(name, bytes_a_block, rng)
        values = np.concatenate([gguf.quants.dequantize(b.copy(), kind).reshape(-1) for b in blocks]).astype(np.float32)
        assert values.size == len(blocks) * values_a_block
        out += struct.pack("<8sIIII", name.encode(), int(kind), len(blocks), bytes_a_block, values_a_block)
        out += blocks.tobytes() + values.tobytes()
    with open(path, "wb") as file:
        file.write(out)
    with open(points_path, "w", encoding="ascii") as file:
        for name in POINTS:
            file.write(f"{name} {points_hash(name):016x}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
