#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds Moonlit's answers against llama.cpp's on one GGUF file: greedy tokens of ten prompts, and perplexity of a text.

    python3 tools/models/compare_llama.py -m smollm2.gguf --moonlit build/bin/moonlit --llama /usr/bin/llama-server \\
        --text tests/data/alice.txt

llama-perplexity is expected beside llama-server. For a llama.cpp in a root of its own, --within 'chroot ROOT' goes before its
commands, and --llama-model and --llama-text are the paths as seen there.

Both continue each prompt greedily from the same token ids, over a cache in f32. Where they part, the script shows both tokens and
how far each program's first choice was ahead of the next: a near-tie is a lead of at most --tie in one of them, which two ways of
rounding activations may order either way. What float arithmetic on the same weights says (moonlit --exact) stands beside, and the
line below the table says how far both are from it. After a near-tie the texts differ, so the comparison of that prompt ends.

With --exact ours are float activations all through; --llama-model may then be an F32 copy of the file (llama-quantize
--allow-requantize FILE COPY F32), on which llama.cpp has floats too, so that nothing is left but the files and the arithmetic of floats.

Exit code 0: no other difference, and perplexities within --percent.
"""
import argparse
import contextlib
import json
import os
import re
import shlex
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea, there lived",
    "Water boils at a lower temperature on a mountain because",
    "def fibonacci(n):\n",
    "<|im_start|>user\nWhat is the largest planet of the solar system?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite three short sentences about the moon.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nHow many legs does a spider have?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nYou answer in one word.<|im_end|>\n<|im_start|>user\nWhat colour is grass?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nTranslate \"good morning\" into French.<|im_end|>\n<|im_start|>assistant\n",
    "The three states of matter are solid, liquid and",
]


class Failure(Exception):
    pass


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise Failure(f"{shlex.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return done


class Moonlit:
    def __init__(self, program, model, threads, always=()):
        self.program, self.model, self.threads, self.always = program, model, threads, always

    def tokenize(self, text):
        return json.loads(run([self.program, "tokenize", "-m", self.model, "-p", text, "--json"]).stdout)["ids"]

    def piece(self, token):
        return run([self.program, "detokenize", "-m", self.model, "--ids", str(token), "--special"]).stdout

    def logits(self, ids, *flags):
        return json.loads(run([self.program, "logits", "-m", self.model, "-t", str(self.threads), "--ids",
                               ",".join(map(str, ids)), *self.always, *flags]).stdout)

    def greedy(self, ids, count, *flags):
        """Tokens, and by how much each was ahead of the second choice (in logits)."""
        tokens = self.logits(ids, "--greedy", str(count), *flags)["greedy"]
        judged = self.logits(ids + tokens, *flags)
        first = len(ids) - 1
        leads = judged["argmax_gap"][first:first + count]
        if judged["argmax"][first:first + count] != tokens:
            raise Failure("moonlit: prefill chose other tokens than decode did")
        return tokens, leads

    def perplexity(self, text, window, *flags):
        out = run([self.program, "perplexity", "-m", self.model, "-t", str(self.threads), "-f", text, "-c", str(window), *flags])
        return float(re.match(r"perplexity ([0-9.]+)", out.stdout).group(1))


class Llama:
    """llama-server as a child of this script, and llama-perplexity beside it."""

    def __init__(self, words, model, threads):
        self.words, self.model, self.threads, self.server = words, model, threads, None
        with contextlib.closing(socket.socket()) as any_port:
            any_port.bind(("127.0.0.1", 0))
            self.port = any_port.getsockname()[1]

    def __enter__(self):
        self.server = subprocess.Popen(
            self.words + ["-m", self.model, "-t", str(self.threads), "-c", "2048", "-np", "1", "-ctk", "f32", "-ctv", "f32",
                          "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if self.server.poll() is not None:
                raise Failure(f"{shlex.join(self.words)}: ended with exit code {self.server.returncode} before it answered")
            with contextlib.suppress(OSError):
                self.ask("health", None)
                return self
            time.sleep(0.5)
        raise Failure(f"{shlex.join(self.words)}: no answer in five minutes")

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait()

    def ask(self, what, body):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{what}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=1800) as answer:
            return json.load(answer)

    def tokenize(self, text):
        return self.ask("tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]

    def greedy(self, ids, count):
        """Tokens up to an end token or `count`, and the leads of the first choices over the second."""
        answer = self.ask("completion", {"prompt": ids, "n_predict": count, "temperature": 0, "n_probs": 2, "cache_prompt": False,
                                         "return_tokens": True})
        leads = [p["top_logprobs"][0]["logprob"] - p["top_logprobs"][1]["logprob"] for p in answer["completion_probabilities"]]
        return answer["tokens"], leads[:len(answer["tokens"])]

    def perplexity(self, text, window):
        folder, _ = os.path.split(self.words[-1])
        out = run(self.words[:-1] + [os.path.join(folder, "llama-perplexity"), "-m", self.model, "-f", text, "-c", str(window),
                                     "-t", str(self.threads), "-ctk", "f32", "-ctv", "f32"])
        return float(re.search(r"Final estimate: PPL = ([0-9.]+)", out.stdout + out.stderr).group(1))


def compare_prompt(ours, theirs, prompt, count, tie):
    """(line for the table, whether they agree, errors of the leads of equal tokens: ours and theirs less exact ones)."""
    ids = ours.tokenize(prompt)
    if ids != theirs.tokenize(prompt):
        return "tokenized differently", False, []
    expected, their_leads = theirs.greedy(ids, count)
    found, our_leads = ours.greedy(ids, count)
    same = 0
    while same < len(expected) and found[same] == expected[same]:
        same += 1
    exact = ours.logits(ids + expected[:same], *(() if ours.always else ("--exact",)))
    exact_tokens, exact_leads = exact["argmax"][len(ids) - 1:], exact["argmax_gap"][len(ids) - 1:]
    noise = [(our_leads[i] - exact_leads[i], their_leads[i] - exact_leads[i]) for i in range(same) if exact_tokens[i] == found[i]]
    if same == len(expected):
        return f"{same} tokens equal" + ("" if same == count else ", then an end token"), True, noise
    shown = (f"{same} equal, then ours {ours.piece(found[same])!r} (ahead by {our_leads[same]:.3f}), "
             f"theirs {ours.piece(expected[same])!r} ({their_leads[same]:.3f}), "
             f"exact {ours.piece(exact_tokens[same])!r} ({exact_leads[same]:.3f})")
    near = min(our_leads[same], their_leads[same]) <= tie
    return ("near-tie: " if near else "DIFFERENT: ") + shown, near, noise


def compare_answers(ours, theirs, arguments):
    agree, noise = True, []
    print("| prompt | greedy tokens |\n|---|---|")
    for prompt in PROMPTS:
        line, fine, differences = compare_prompt(ours, theirs, prompt, arguments.tokens, arguments.tie)
        agree, noise = agree and fine, noise + differences
        print(f"| {json.dumps(prompt)[1:-1]} | {line} |", flush=True)
    if noise:
        rms = [statistics.fmean(pair[side] ** 2 for pair in noise) ** 0.5 for side in (0, 1)]
        print(f"\nnoise of a lead against exact arithmetic, where all chose the same token ({len(noise)} times): "
              f"ours {rms[0]:.3f}, theirs {rms[1]:.3f}")
    return agree


def compare_perplexities(ours, theirs, arguments):
    exact = ours.perplexity(arguments.text, arguments.window, "--exact")
    fast = exact if arguments.exact else ours.perplexity(arguments.text, arguments.window)
    peer = theirs.perplexity(arguments.llama_text or arguments.text, arguments.window)
    off = 100 * (fast / peer - 1)
    print(f"\nperplexity of {os.path.basename(arguments.text)}, windows of {arguments.window}: moonlit {fast:.4f}, "
          f"moonlit --exact {exact:.4f}, llama.cpp {peer:.4f}: {off:+.2f}%")
    return abs(off) <= arguments.percent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True, help="GGUF file")
    parser.add_argument("--moonlit", default="build/bin/moonlit")
    parser.add_argument("--llama", default="llama-server", help="llama-server of llama.cpp")
    parser.add_argument("--within", default="", help="words before llama.cpp's commands, such as 'chroot ROOT'")
    parser.add_argument("--llama-model", help="the model as llama.cpp sees it")
    parser.add_argument("--text", help="text for the perplexity; none: greedy answers only")
    parser.add_argument("--llama-text", help="the text as llama.cpp sees it")
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--exact", action="store_true", help="float activations on our side")
    parser.add_argument("-n", "--tokens", type=int, default=48, help="tokens a prompt (default %(default)s)")
    parser.add_argument("-c", "--window", type=int, default=512)
    parser.add_argument("--tie", type=float, default=0.2, help="largest lead, in logits, of a near-tie (default %(default)s)")
    parser.add_argument("--percent", type=float, default=0.5, help="largest difference of the perplexities (default %(default)s)")
    arguments = parser.parse_args()
    ours = Moonlit(arguments.moonlit, arguments.model, arguments.threads, ("--exact",) if arguments.exact else ())
    theirs = Llama(shlex.split(arguments.within) + [arguments.llama], arguments.llama_model or arguments.model, arguments.threads)
    try:
        with theirs:
            agree = compare_answers(ours, theirs, arguments)
        if arguments.text:
            agree = compare_perplexities(ours, theirs, arguments) and agree
    except (Failure, OSError, urllib.error.URLError) as error:
        sys.exit(f"compare_llama: {error}")
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
