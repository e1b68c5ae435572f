#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds files that `moonlit quantize` writes against llama-quantize's: the type of every tensor, and how far the weights are from the
original's.

    python3 tools/models/compare_quantize.py -m model-F16.gguf --moonlit build/bin/moonlit --llama llama-quantize [Q4_K_M ...]

Needs gguf-py and numpy. With --imatrix both use that importance matrix, and errors are weighted by it as well. One line a type: the root of
the mean square error of each program over all tensors, their ratio, and the tensor whose ratio is worst.

Exit code 0: all types are equal, and no ratio over all tensors is above 1 + --percent / 100.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

import gguf
import numpy

TYPES = """Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ4_NL IQ4_XS F16 BF16""".split()
ROWS = 1 << 22  # weights that are decoded at a time, about


def floats(tensor, first, last):
    return gguf.dequantize(tensor.data[first:last], tensor.tensor_type).astype(numpy.float64)


def tensors_of(path):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


def importance(path):
    """By tensor: a weight for every column."""
    if not path:
        return {}
    found = tensors_of(path)
    weights = {}
    for name, tensor in found.items():
        if name.endswith(".in_sum2"):
            count = found[name[:-len("in_sum2")] + "counts"].data.reshape(-1)
            weights[name[:-len(".in_sum2")]] = (tensor.data.reshape(len(count), -1) / numpy.maximum(count, 1)[:, None]).mean(0)
    return weights


def square_error(original, other, weights):
    """(sum of squares, sum of weighted squares, weights counted)."""
    rows = original.data.shape[0] if original.data.ndim > 1 else 1
    if rows == 1:
        a, b = (gguf.dequantize(t.data, t.tensor_type).astype(numpy.float64) for t in (original, other))
        return float(((a - b) ** 2).sum()), float(((a - b) ** 2).sum()), a.size
    plain = weighted = 0.0
    count, step = 0, max(1, ROWS // int(original.shape[0]))
    for first in range(0, rows, step):
        square = (floats(original, first, first + step) - floats(other, first, first + step)) ** 2
        plain += float(square.sum())
        weighted += float((square * weights).sum()) if weights is not None else float(square.sum())
        count += square.size
    return plain, weighted, count


def compare(original, ours, theirs, weights):
    """(tensors of other types, root of the mean square of ours and theirs, the same weighted, (worst ratio, its tensor))."""
    different, sums, worst = [], numpy.zeros((2, 2)), (0.0, "")
    count = 0
    for name, tensor in original.items():
        if ours[name].tensor_type != theirs[name].tensor_type:
            different.append(f"{name} {ours[name].tensor_type.name} for {theirs[name].tensor_type.name}")
        errors = [square_error(tensor, side[name], weights.get(name)) for side in (ours, theirs)]
        sums += numpy.array([error[:2] for error in errors])
        count += errors[0][2]
        if errors[1][1] > 0:
            worst = max(worst, (math.sqrt(errors[0][1] / errors[1][1]), name))
    return different, numpy.sqrt(sums / count), worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types", nargs="*", default=TYPES)
    parser.add_argument("-m", "--model", required=True, help="GGUF file in F32, F16 or BF16")
    parser.add_argument("--moonlit", default="build/bin/moonlit")
    parser.add_argument("--llama", default="llama-quantize")
    parser.add_argument("--imatrix", help="importance matrix of llama-imatrix, a GGUF file")
    parser.add_argument("--percent", type=float, default=1, help="by how much our error may be larger (default %(default)s)")
    parser.add_argument("--pure", action="store_true", help="one type for all matrices")
    arguments = parser.parse_args()
    original, weights, fine = tensors_of(arguments.model), importance(arguments.imatrix), True
    print("| type | RMSE ours | theirs | ratio | weighted ratio | worst tensor |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("ours.gguf", "theirs.gguf")]
        options = (["--imatrix", arguments.imatrix] if arguments.imatrix else []) + (["--pure"] if arguments.pure else [])
        for kind in arguments.types:
            for command in ([arguments.moonlit, "quantize", arguments.model, paths[0], kind] + options,
                            [arguments.llama] + options + [arguments.model, paths[1], kind]):
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    sys.exit(f"compare_quantize: {' '.join(command)}: {done.stderr.strip()[-300:]}")
            different, rms, worst = compare(original, *map(tensors_of, paths), weights)
            ratios = [rms[0][i] / rms[1][i] if rms[1][i] else float(rms[0][i] == 0) for i in (0, 1)]
            print(f"| {kind} | {rms[0][0]:.3e} | {rms[1][0]:.3e} | {ratios[0]:.4f} | {ratios[1]:.4f} | {worst[1]} {worst[0]:.4f} |",
                  flush=True)
            for line in different:
                print("different type:", line)
            fine = fine and not different and ratios[1 if weights else 0] <= 1 + arguments.percent / 100
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
