#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cycles of the Arm product kernels' inner loops, by llvm-mca's models of cores, as a Markdown table.

    tools/bench/arm_loops.py build/aarch64                         every variant and format of a build folder
    tools/bench/arm_loops.py build/aarch64 --formats q4_0 --cores cortex-a55
    tools/bench/arm_loops.py --object libx.so --function NAME --cores neoverse-n1 --trips 4,2
                                                                   a loop of any other library: the innermost one with dot
                                                                   products, run 4 times within one that runs twice within the
                                                                   one that is measured

A loop is cut out of the object by disassembly: from the target of a backward branch to the branch. Percents are of what the same
model gives for that kind of dot product alone, by independent instructions on registers. A model knows no caches: loads
always hit the first level.

Needs objdump and llvm-mca 16 or later (LLVM_MCA; earlier ones have no model of the Neoverse N1).
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

# What each variant's products are made of, multiply-adds of one instruction, and cores that would take the variant. The model of
# the Cortex-A76 is the Neoverse N1's, the same core for servers; that of the A72 is the A57's.
SDOT = ("sdot", 16, "sdot v{0}.4s, v30.16b, v31.4b[1]")
SMMLA = ("smmla", 32, "smmla v{0}.4s, v30.16b, v31.16b")
SMULL = ("smull", 8, "smull v{0}.8h, v30.8b, v31.8b")
VARIANTS = {
    "arm_neon": (SMULL, ["cortex-a57", "cortex-a53"]),
    "arm_dotprod": (SDOT, ["neoverse-n1", "cortex-a55"]),
    "arm_i8mm": (SMMLA, ["neoverse-n2", "neoverse-v1"]),
}
FORMATS = ["q4_0", "q8_0", "q4_k", "q6_k"]
CODECS = {"q4_0": "Q4_0Codec", "q8_0": "Q8_0Codec", "q4_k": "Q4_KCodec", "q6_k": "Q6_KCodec"}
# Formats with one scale and no minimum differ in how a panel is unpacked, so the compiler may keep one loop for all of them.
ALIKE = ["Q4_0Codec", "Q5_0Codec", "Q8_0Codec", "IQ4_NLCodec", "IQ4_XSCodec", "MXFP4Codec"]


def run(command, text=None):
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command[:4])} ...: {result.stderr.strip()[:500]}")
    return result.stdout


def find_tool(variable, names):
    for name in [os.environ.get(variable)] + names:
        if name and shutil.which(name):
            return name
    sys.exit(f"no {' or '.join(names)} found; set {variable}")


def functions(objdump, path):
    """{demangled name: [(address, instruction)]}"""
    text = run([objdump, "-d", "-C", "--no-show-raw-insn", path])
    found = {}
    for match in re.finditer(r"^[0-9a-f]+ <(.*)>:\n((?:.+\n)*)", text, re.M):
        lines = (re.match(r"\s*([0-9a-f]+):\s+(.*)", line) for line in match[2].splitlines())
        found[match[1]] = [(int(m[1], 16), m[2].split(" //")[0].strip()) for m in lines if m]
    return found


def loops(body):
    """(first, last) indices of every loop of a function, shortest first."""
    index = {address: i for i, (address, _) in enumerate(body)}
    found = []
    for last, (_, text) in enumerate(body):
        branch = re.match(r"(?:b\.\w+|b|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+([0-9a-f]+) <", text)
        first = index.get(int(branch[1], 16), len(body)) if branch else len(body)
        if first <= last:
            found.append((first, last))
    return sorted(found, key=lambda loop: loop[1] - loop[0])


def is_dot(text, dot):
    names = ("smull", "smlal") if dot[0] == "smull" else (dot[0],)
    return text.startswith(names)


def innermost(body, dot, trips):
    """Instructions of one round of a loop: the smallest with the most dot products, or its surroundings by `trips`."""
    def dots(loop):
        return sum(is_dot(text, dot) for _, text in body[loop[0] : loop[1] + 1])

    inner = [loop for loop in loops(body) if dots(loop) > 0]
    inner = [loop for loop in inner if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1] for other in inner)]
    if not inner:
        return None
    loop = max(inner, key=dots)
    rounds = [text for _, text in body[loop[0] : loop[1] + 1]]
    for times in trips:
        around = next(o for o in loops(body) if o[0] <= loop[0] and loop[1] <= o[1] and o != loop)
        before = [text for _, text in body[around[0] : loop[0]]]
        after = [text for _, text in body[loop[1] + 1 : around[1] + 1]]
        rounds, loop = before + rounds * times + after, around
    return [re.sub(r"\s[0-9a-f]+ <.*>", " .", text) for text in rounds]


def cycles(mca, core, instructions, rounds=100):
    flags = ["-mtriple=aarch64", f"-mcpu={core}", "-mattr=+dotprod,+i8mm,+bf16,+fullfp16", f"-iterations={rounds}"]
    text = run([mca] + flags + ["-all-views=false", "-summary-view"], "\n".join(instructions) + "\n")
    return int(re.search(r"Total Cycles:\s+(\d+)", text)[1]) / rounds


def row(mca, label, core, dot, instructions):
    count = sum(is_dot(text, dot) for text in instructions)
    taken = cycles(mca, core, instructions)
    alone = cycles(mca, core, [dot[2].format(i) for i in range(24)]) / 24
    print(f"| {label} | {core} | {len(instructions)} | {count} {dot[0]} | {taken:.0f} | {taken / count / dot[1]:.4f} | "
          f"{100 * count * alone / taken:.0f} |")


def kernel_loop(objects, codec, dot):
    for name in [codec] + (ALIKE if codec in ALIKE else []):
        for body in (b for found in objects for f, b in found.items() if re.search(rf"PassOverPanel<.*{name}, 8ul>", f)):
            return innermost(body, dot, [])
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", help="a build folder for 64-bit Arm")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--cores", help="instead of those of the variant")
    parser.add_argument("--object", help="look into this object or library instead")
    parser.add_argument("--function", help="of --object: a regular expression for the whole name")
    parser.add_argument("--dot", choices=["sdot", "smmla", "smull"], default="sdot", help="of --object")
    parser.add_argument("--trips", default="", help="of --object: rounds of the inner loop within the next one, and so on")
    args = parser.parse_args()
    if (args.build is None) == (args.object is None):
        parser.error("give either a build folder or --object")
    objdump = find_tool("OBJDUMP", ["aarch64-linux-gnu-objdump", "llvm-objdump", "objdump"])
    mca = find_tool("LLVM_MCA", [f"llvm-mca-{n}" for n in range(24, 15, -1)] + ["llvm-mca"])
    print("| loop | model | instructions | dot products | cycles | cycles a multiply-add | % of peak |")
    print("|---|---|---|---|---|---|---|")
    if args.object:
        dot = {d[0]: d for d in (SDOT, SMMLA, SMULL)}[args.dot]
        trips = [int(n) for n in args.trips.split(",") if n]
        for name, body in functions(objdump, args.object).items():
            if re.fullmatch(args.function or ".*", re.sub("@.*", "", name)):
                found = innermost(body, dot, trips)
                for core in (args.cores or "neoverse-n1").split(",") if found else []:
                    row(mca, name.split("@")[0], core, dot, found)
        return
    for variant, (dot, cores) in VARIANTS.items():
        pattern = f"{args.build}/kernels/matmul/CMakeFiles/moonlit_kernels_matmul__{variant}.dir/**/*.o"
        objects = [functions(objdump, path) for path in glob.glob(pattern, recursive=True)]
        for name in args.formats.split(",") if objects else []:
            found = kernel_loop(objects, CODECS[name], dot)
            if found is None:
                sys.exit(f"{variant}: no loop of {name} found")
            for core in args.cores.split(",") if args.cores else cores:
                row(mca, f"{variant} {name}", core, dot, found)


main()
