#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/llama_adapter.gguf: a small LoRA adapter of rank 2 for the fixture golden/llama, of pseudo-random numbers, in
llama.cpp's form (runtime/weights/adapter_file.h)."""
import os
import struct

RANK, ALPHA, ALIGNMENT = 2, 4.0, 32
SHAPES = {"blk.0.attn_q.weight": (96, 72), "blk.1.attn_output.weight": (72, 96)}  # outputs, inputs


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def numbers(count, state):
    values = []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        values.append(((state >> 40) / 2**23 - 1) / 4)
    return struct.pack(f"<{count}f", *values), state


def main():
    keys = [("general.type", "adapter"), ("general.architecture", "llama"), ("adapter.type", "lora")]
    header = b"".join(string(key) + struct.pack("<I", 8) + string(value) for key, value in keys)
    header += string("adapter.lora.alpha") + struct.pack("<If", 6, ALPHA)
    infos, data, state = b"", b"", 1
    for name, (outputs, inputs) in SHAPES.items():
        for half, dims in (("lora_a", (inputs, RANK)), ("lora_b", (RANK, outputs))):  # innermost first
            infos += string(f"{name}.{half}") + struct.pack("<IQQIQ", 2, *dims, 0, len(data))
            values, state = numbers(dims[0] * dims[1], state)
            data += values + b"\0" * (-len(values) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2 * len(SHAPES), len(keys) + 1) + header + infos
    path = os.path.join(os.path.dirname(__file__), "..", "llama_adapter.gguf")
    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % ALIGNMENT) + data)


if __name__ == "__main__":
    main()
