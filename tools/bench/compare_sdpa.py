#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention beside PyTorch's scaled_dot_product_attention, and XNNPACK's operator, on the same shape, as a Markdown table.

    tools/bench/compare_sdpa.py --ours build/bin/moonlit
    tools/bench/compare_sdpa.py --ours build/bin/moonlit --xnnpack build/bench/xnnpack_attention --threads 1,2 --rounds 3

Programs take turns, --rounds times, and the best of each counts. `tokens` queries are the last ones of `context` keys, causal.
Ours is `moonlit bench --attention` with a cache of the type (F32, BF16): pages are there already, as keys and values of the others
are. With one token everybody meets copies of its keys in turn until they are --cold-mib MiB, so they come from memory.

PyTorch's time is the best of what a caller can choose: grouped heads by enable_gqa, or keys and values repeated for each query head
beforehand; with a mask, or (one token, or --no-mask) without one. XNNPACK's operator is float32; a KV head with its query heads is
a batch of it.

Needs PyTorch in the python that runs this script (CPU alone). Nothing is installed or fetched.
"""
import argparse
import json
import os
import subprocess
import sys

TYPES = {"f32": "float32", "bf16": "bfloat16"}


def torch_best(tokens, context, heads, kv_heads, dim, type_name, threads, seconds, cold_mib, mask_wanted):
    """Best time in milliseconds over all ways to call it; runs in a process of its own."""
    import time

    import torch
    import torch.nn.functional as functional

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    dtype = getattr(torch, TYPES[type_name])
    best = float("inf")
    for grouped in (True, False):
        keys_of = kv_heads if grouped else heads
        layer_bytes = 2 * keys_of * context * dim * dtype.itemsize
        copies = max(1, (cold_mib << 20) // layer_bytes) if tokens == 1 else 1
        q = torch.randn(1, heads, tokens, dim, dtype=dtype)
        layers = []
        for _ in range(copies):
            k, v = (torch.randn(1, kv_heads, context, dim, dtype=dtype) for _ in range(2))
            if not grouped:
                k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
            layers.append((k, v))
        masks = [None]
        if tokens > 1 and mask_wanted:
            visible = torch.ones(tokens, context, dtype=torch.bool).tril(diagonal=context - tokens)
            masks = [visible, torch.zeros(tokens, context, dtype=dtype).masked_fill(~visible, float("-inf"))]
        for mask in masks:
            end, runs = time.monotonic() + seconds, 0
            while time.monotonic() < end or runs < 3:
                k, v = layers[runs % copies]
                begin = time.perf_counter()
                functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)
                best = min(best, time.perf_counter() - begin)
                runs += 1
    return 1e3 * best


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"compare_sdpa: {' '.join(command)} failed: {result.stderr.strip()[-500:]}")
    return result.stdout


def ours_ms(args, tokens, type_name, threads):
    out = json.loads(run([args.ours, "bench", "--attention", "--shape", f"{args.heads},{args.kv_heads},{args.head_dim}",
                          "--contexts", str(args.context), "--tokens", str(tokens), "-t", str(threads), "-ctk", type_name,
                          "-ctv", type_name, "--min-seconds", str(args.seconds), "--cold-mib", str(args.cold_mib),
                          "--read-mib", "64", "--naive-mib", "1", "-o", "json"]))
    return out["attention"][0]["time_ms"]


def torch_ms(args, tokens, type_name, threads):
    shape = [tokens, args.context, args.heads, args.kv_heads, args.head_dim]
    return float(run([sys.executable, os.path.abspath(__file__), "--torch-once",
                      json.dumps([*shape, type_name, threads, args.seconds, args.cold_mib, not args.no_mask])]))


def xnnpack_ms(args, tokens, threads):
    numbers = [tokens, args.context, args.heads, args.kv_heads, args.head_dim, threads, args.seconds,
               args.cold_mib if tokens == 1 else 0]
    return float(run([args.xnnpack, *map(str, numbers)]))


def cell(ms, ours):
    return "– | –" if ms is None else f"{ms:.2f} | {ms / ours:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", help="the moonlit command")
    parser.add_argument("--xnnpack", help="the program xnnpack_attention of a build with benchmarks")
    parser.add_argument("--tokens", default="512,1")
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--types", default="f32,bf16", help="of: " + ", ".join(TYPES))
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--cold-mib", type=int, default=256)
    parser.add_argument("--no-mask", action="store_true", help="PyTorch may look at keys of the future: no causal mask")
    parser.add_argument("--torch-once", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch_once:
        print(torch_best(*json.loads(args.torch_once)))
        return
    if not args.ours:
        parser.error("--ours is missing: the moonlit command")
    print("| tokens | type | threads | ours, ms | PyTorch, ms | × ours | XNNPACK, ms | × ours |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for tokens in map(int, args.tokens.split(",")):
        for type_name in args.types.split(","):
            for threads in map(int, args.threads.split(",")):
                rounds = []
                for _ in range(args.rounds):
                    rounds.append((ours_ms(args, tokens, type_name, threads), torch_ms(args, tokens, type_name, threads),
                                   xnnpack_ms(args, tokens, threads) if args.xnnpack and type_name == "f32" else None))
                ours, torch_best_ms = (min(column) for column in list(zip(*rounds))[:2])
                third = [r[2] for r in rounds if r[2] is not None]
                print(f"| {tokens} | {type_name} | {threads} | {ours:.2f} | {cell(torch_best_ms, ours)} | "
                      f"{cell(min(third) if third else None, ours)} |", flush=True)


if __name__ == "__main__":
    main()
