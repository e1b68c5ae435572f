#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/quant_encode_golden.txt: how well ggml's own encoders do on made-up weights.

    python3 make_quant_encode_golden.py quant_encode_golden.txt      needs numpy, `gguf` and libggml-base.so.0 of llama.cpp

One line a format: name, RMSE without importance, weighted RMSE with importance, FNV-1a hash of the bytes without importance
(0 where the search is a matter of taste). tests/quant/encode_test.cc makes the same weights: sums of integers from splitmix64,
exact in every language.
"""
import ctypes
import sys

import gguf
import numpy as np

ROWS, K = 16, 1024
SAME_BYTES = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")
SEARCHED = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")
MASK = (1 << 64) - 1


def splitmix64(state):
    z = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def weight(i):
    r = splitmix64(i)
    total = (r & 0xFFFF) + ((r >> 16) & 0xFFFF) + ((r >> 32) & 0xFFFF) - 3 * 32768
    return total * (4 if (r >> 48) % 64 == 0 else 1) * 2.0**-20


def importance(i):
    r = splitmix64(i + (1 << 32)) & 0xFF
    return (1 + r) * (1 + r) / 1024.0


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def main(path):
    ggml = ctypes.CDLL("libggml-base.so.0")
    encode = ggml.ggml_quantize_chunk
    encode.restype = ctypes.c_size_t
    encode.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    x = np.array([weight(i) for i in range(ROWS * K)], dtype=np.float32).reshape(ROWS, K)
    w = np.array([importance(i) for i in range(K)], dtype=np.float32)
    with open(path, "w") as out:
        for name in SAME_BYTES + SEARCHED:
            kind = gguf.GGMLQuantizationType[name]
            values, size = gguf.GGML_QUANT_SIZES[kind]
            errors = []
            for weights in (None, w):
                data = np.zeros(x.size // values * size, dtype=np.uint8)
                encode(int(kind), x.ctypes.data, data.ctypes.data, 0, ROWS, K, None if weights is None else weights.ctypes.data)
                e2 = (x.astype(np.float64) - gguf.quants.dequantize(data, kind).reshape(ROWS, K)) ** 2
                errors.append(np.sqrt(e2.mean() if weights is None else (e2 * w).sum() / (ROWS * w.sum(dtype=np.float64))))
                if weights is None:
                    digest = fnv1a(data.tobytes()) if name in SAME_BYTES else 0
            out.write(f"{name} {errors[0]:.6e} {errors[1]:.6e} {digest:016x}\n")


if __name__ == "__main__":
    main(sys.argv[1])
