#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/data/quantize_types_golden.txt: which type llama-quantize (llama.cpp) gives every tensor of a few model shapes.

  make_quantize_types_golden.py llama-quantize > quantize_types_golden.txt

The models are headers alone (their data is a hole in the file), read with --dry-run. Needs gguf-py and numpy. Lines:

  model NAME ARCHITECTURE LAYERS HEADS KV_HEADS EXPERTS
  tensor NAME ROWS... COLUMNS                    with * for the layer number where every layer has one
  types FILE_TYPE IMATRIX NAME TYPE[*COUNT] ...  one type a layer, in order; not written for vectors, which stay F32, and
                                                 with an imatrix only where that changes something
"""
import collections
import os
import re
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy as np

# name: architecture, layers, d, heads, kv heads, head size, ffn, experts, vocabulary, tied
MODELS = {
    "135m": ("llama", 30, 576, 9, 3, 64, 1536, 0, 49152, True),
    "1b": ("llama", 16, 2048, 32, 8, 64, 8192, 0, 128256, True),
    "untied": ("llama", 22, 2048, 32, 4, 64, 5632, 0, 32000, False),
    "eight-experts": ("llama", 32, 1024, 16, 8, 64, 1792, 8, 32000, False),
    "many-experts": ("qwen3moe", 12, 512, 8, 4, 64, 768, 32, 4096, False),
    "eighty-layers": ("llama", 80, 1024, 16, 2, 64, 2048, 0, 32000, False),
    "falcon": ("falcon", 32, 1024, 16, 1, 64, 4096, 0, 32000, False),
    "odd-rows": ("llama", 8, 720, 9, 3, 80, 1840, 0, 4096, False),
}
TYPES = """Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ4_NL IQ4_XS
MXFP4_MOE F16 BF16 F32""".split()


def layer_tensors(arch, d, heads, kv, size, ffn, experts):
    if arch == "falcon":
        return [("attn_norm.weight", (d,)), ("attn_qkv.weight", ((heads + 2 * kv) * size, d)),
                ("attn_output.weight", (d, heads * size)), ("ffn_up.weight", (ffn, d)), ("ffn_down.weight", (d, ffn))]
    shapes = [("attn_norm.weight", (d,)), ("attn_q.weight", (heads * size, d)), ("attn_k.weight", (kv * size, d)),
              ("attn_v.weight", (kv * size, d)), ("attn_output.weight", (d, heads * size)), ("ffn_norm.weight", (d,))]
    if experts:
        return shapes + [("ffn_gate_inp.weight", (experts, d)), ("ffn_gate_exps.weight", (experts, ffn, d)),
                         ("ffn_up_exps.weight", (experts, ffn, d)), ("ffn_down_exps.weight", (experts, d, ffn))]
    return shapes + [("ffn_gate.weight", (ffn, d)), ("ffn_up.weight", (ffn, d)), ("ffn_down.weight", (d, ffn))]


def write_model(path, arch, layers, d, heads, kv, size, ffn, experts, vocab, tied):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(d)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(vocab)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(2)
        writer.add_expert_feed_forward_length(ffn)
    tensors = [("token_embd.weight", (vocab, d)), ("output_norm.weight", (d,))]
    if not tied:
        tensors.append(("output.weight", (vocab, d)))
    per_layer = layer_tensors(arch, d, heads, kv, size, ffn, experts)
    for layer in range(layers):
        tensors += [(f"blk.{layer}.{name}", shape) for name, shape in per_layer]
    for name, shape in tensors:
        dtype = np.float32 if len(shape) == 1 or "gate_inp" in name else np.float16
        bytes_in_all = int(np.prod(shape)) * dtype().itemsize
        writer.add_tensor_info(name, shape, np.dtype(dtype), bytes_in_all)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    os.truncate(path, (os.path.getsize(path) + 31) // 32 * 32 +
                sum((int(np.prod(s)) * (4 if len(s) == 1 or "gate_inp" in n else 2) + 31) // 32 * 32
                    for n, s in tensors))
    return tensors[:3 - tied] + [("blk.*." + name, shape) for name, shape in per_layer]


def write_imatrix(path):
    with open(path, "wb") as out:
        name = b"no such tensor"
        out.write(struct.pack("<ii", 1, len(name)) + name + struct.pack("<iif", 1, 1, 1.0))


def main():
    quantize = sys.argv[1:]
    print("# llama.cpp's choice of types; written by recipes/make_quantize_types_golden.py")
    with tempfile.TemporaryDirectory() as folder:
        imatrix = os.path.join(folder, "imatrix.dat")
        write_imatrix(imatrix)
        for name, model in MODELS.items():
            path = os.path.join(folder, "model.gguf")
            tensors = write_model(path, *model)
            arch, layers, _, heads, kv, _, _, experts, _, _ = model
            print("model", name, arch, layers, heads, kv, experts)
            for tensor, shape in tensors:
                print("tensor", tensor, *shape)
            for file_type in TYPES:
                without = {}
                for flags in ([], ["--imatrix", imatrix]):
                    run = subprocess.run(quantize + flags + ["--dry-run", path, file_type], text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    found = collections.defaultdict(dict)
                    for line in run.stdout.splitlines():
                        match = re.match(r"\[ *\d+/ *\d+\] (\S+) .*type = +(\w+),.*?(?:\((\w+)\))?$", line.strip())
                        if match:
                            tensor, old, new = match.groups()
                            layer = re.match(r"blk\.(\d+)\.", tensor)
                            key = re.sub(r"^blk\.\d+\.", "blk.*.", tensor)
                            found[key][int(layer.group(1)) if layer else 0] = (new or old).upper()
                    if sum(map(len, found.values())) != len(tensors[:3 - model[9]]) + layers * (len(tensors) - 3 + model[9]):
                        sys.exit(f"{name} {file_type}: {run.stdout[-2000:]}")
                    for tensor, types in found.items():
                        runs = []
                        for layer in sorted(types):
                            if runs and runs[-1][0] == types[layer]:
                                runs[-1][1] += 1
                            else:
                                runs.append([types[layer], 1])
                        if tensor.endswith("_norm.weight") or without.get(tensor) == runs:
                            continue
                        without[tensor] = runs
                        print("types", file_type, 1 if flags else 0, tensor,
                              *(f"{t}*{n}" if n > 1 else t for t, n in runs))


main()
