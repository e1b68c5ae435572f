#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes llama_adapter_all.gguf, a LoRA adapter by gguf-py for every matrix of golden/llama that a product multiplies with, and
llama_adapter_golden.json: what llama.cpp makes of that model with adapters, alone, scaled and together.

  make_adapter_golden.py DATA [llama-server]

DATA is tests/data. Needs gguf and llama.cpp's llama-server, whose log-probabilities of every token are taken over an F32 cache. A matrix
W becomes W + scale * (alpha / rank) * B A.
"""
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import gguf
import numpy

RANK, ALPHA, VOCABULARY, COUNT = 4, 6.0, 320, 16
LENGTHS = (20, 5)
SMALL, ALL = "llama_adapter.gguf", "llama_adapter_all.gguf"
CASES = [[], [[SMALL, 1.0]], [[ALL, 1.0]], [[ALL, 0.5], [SMALL, -0.25]]]


def write_adapter(data):
    writer = gguf.GGUFWriter(os.path.join(data, ALL), "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", ALPHA)
    random = numpy.random.default_rng(7)
    for tensor in gguf.GGUFReader(os.path.join(data, "golden", "llama", "model.gguf")).tensors:
        inputs, outputs = (int(n) for n in tensor.shape) if len(tensor.shape) == 2 else (0, 0)
        if outputs == 0 or tensor.name == "token_embd.weight":
            continue
        a = random.standard_normal((RANK, inputs)) / numpy.sqrt(inputs)
        b = random.standard_normal((outputs, RANK)) * 0.4
        writer.add_tensor(tensor.name + ".lora_a", a.astype(numpy.float32))
        writer.add_tensor(tensor.name + ".lora_b", b.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextlib.contextmanager
def served(server, data, adapters):
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = any_port.getsockname()[1]
    command = [server, "-m", os.path.join(data, "golden", "llama", "model.gguf"), "-c", "256", "-np", "1", "-ctk", "f32", "-ctv", "f32",
               "-fa", "off", "-t", "1", "--host", "127.0.0.1", "--port", str(port)]
    if adapters:
        command += ["--lora-scaled", ",".join(f"{os.path.join(data, name)}:{scale}" for name, scale in adapters)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10).close()
                break
            if process.poll() is not None:
                sys.exit(f"{' '.join(command)}: ended with {process.returncode}")
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait()


def continue_greedily(port, prompt):
    """Tokens, and the log-probabilities of all tokens behind the prompt; None where the server holds the first token back, as a part of
    a character, and so gives none for it."""
    body = {"prompt": prompt, "n_predict": COUNT, "temperature": 0, "n_probs": VOCABULARY, "cache_prompt": False, "return_tokens": True}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.load(answer)
    first = found["completion_probabilities"][0]
    if len(first["bytes"]) == 0 or first["id"] != found["tokens"][0] or len(first["top_logprobs"]) != VOCABULARY:
        return None
    row = [None] * VOCABULARY
    for entry in first["top_logprobs"]:
        row[entry["id"]] = float(f"{entry['logprob']:.7g}")
    if row[found["tokens"][0]] != max(row):
        return None
    return {"prompt": prompt, "greedy": found["tokens"], "logprobs": row}


def main():
    data, server = sys.argv[1], (sys.argv[2:] + ["llama-server"])[0]
    write_adapter(data)
    cases = []
    for adapters in CASES:
        with served(server, data, adapters) as port:
            for length in LENGTHS:
                prompts = ([(seed + 71 * i) % 316 for i in range(length)] for seed in range(5, 100))
                answer = next(filter(None, (continue_greedily(port, prompt) for prompt in prompts)))
                cases.append({"adapters": adapters, **answer})
    with open(os.path.join(data, "llama_adapter_golden.json"), "w") as out:
        json.dump({"cases": cases}, out)
        out.write("\n")


if __name__ == "__main__":
    main()
