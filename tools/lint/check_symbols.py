#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no object of one kernel variant can share code with another variant's.

Usage: check_symbols.py --nm NM --bases VARIANT=BASE ... -- VARIANT=OBJECT ...      or   --list FILE with one such pair a line

The same sources are compiled under many instruction sets. An inline function that was not inlined is a weak symbol, and
the linker keeps one of its copies: an AVX-512 one may then run on a processor without AVX-512. So each object may define
only symbols in moonlit::<variant> and in hwy_<variant> (Highway renamed by -Dhwy=...), and may need only plain C memory
functions, the compiler's own run-time pieces, and names of moonlit that belong to no other variant than its base
(kernels/cpu/variants.inc), whose code it may run.
"""

import argparse
import os
import re
import subprocess
import sys

import source_tree

# Functions that mean the same in every build, and what compilers put in by themselves.
NEEDED = re.compile(
    r"^(sqrtf?|"  # rounded correctly everywhere, unlike the rest of the mathematics library
    r"memcpy|memset|memmove|memcmp|strlen|abort|_GLOBAL_OFFSET_TABLE_"
    r"|fprintf|fputs|fwrite|stderr|vfprintf|__assert_fail"  # MOONLIT_CHECK's last words
    r"|__stack_chk_(fail|guard)|__gxx_personality_v0|_Unwind_Resume"
    r"|__aeabi_\w+|__gnu_h2f_ieee|__gnu_f2h_ieee|__udivdi3|__divdi3|__umoddi3|__moddi3|__ctzdi2)$")


def in_variant(name, variant):
    """Whether a demangled name lives in the variant's own namespaces."""
    name = re.sub(r"^(guard variable for|vtable for|typeinfo for|typeinfo name for|construction vtable for) ", "", name)
    own = (f"moonlit::{variant}::", f"hwy_{variant}::")
    if name.startswith(own):
        return True
    # Function templates are demangled with their return type first: 'float hwy_scalar::N_EMU128::f<float>(...)'.
    head = re.split(r"[<(]", name, maxsplit=1)[0]
    return " " in head and head.split()[-1].startswith(own)


def symbols(nm, path):
    """(kind, mangled, demangled) of every symbol that the linker sees."""
    result = []
    plain = subprocess.run([nm, "-g", "-P", path], check=True, capture_output=True, text=True).stdout.splitlines()
    nice = subprocess.run([nm, "-g", "-P", "-C", path], check=True, capture_output=True, text=True).stdout.splitlines()
    for raw, line in zip(plain, nice):
        mangled, kind = raw.split()[:2]
        # A demangled name has spaces: strip the kind and the numbers from the right.
        demangled = re.sub(r" [A-Za-z?-](\s+[0-9a-f]+){0,2}\s*$", "", line)
        result.append((kind, mangled, demangled))
    return result


def with_bases(variant, bases):
    """The variant, its base, the base's base ..."""
    chain = [variant]
    while chain[-1] in bases:
        chain.append(bases[chain[-1]])
    return chain


def check_object(nm, variant, path, variants, bases):
    problems, name_of_file = [], "/".join(path.split("/")[-3:])
    own_symbols = 0
    allowed = with_bases(variant, bases)
    for kind, mangled, demangled in symbols(nm, path):
        needed = kind in "Uwv"
        if in_variant(demangled, variant):
            own_symbols += not needed
            continue
        if not needed:
            sort = "weak" if kind in "WVu" else "global"
            problems.append(f"{variant}: {name_of_file} defines the {sort} symbol {demangled}")
            continue
        if NEEDED.match(mangled.split("@")[0]):
            continue
        other = [v for v in variants if v not in allowed and (f"moonlit::{v}::" in demangled or f"hwy_{v}::" in demangled)]
        if other:
            problems.append(f"{variant}: {name_of_file} needs {demangled} of the variant {other[0]}")
        elif not demangled.startswith("moonlit::"):
            problems.append(f"{variant}: {name_of_file} needs {demangled}, which is no plain C memory function")
    if not own_symbols:
        problems.append(f"{variant}: {name_of_file} defines nothing in moonlit::{variant}: is it a variant object?")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--bases", nargs="*", default=[], metavar="VARIANT=BASE")
    parser.add_argument("--list", help="a file with VARIANT=OBJECT lines")
    parser.add_argument("objects", nargs="*", metavar="VARIANT=OBJECT")
    args = parser.parse_args()
    pairs = list(args.objects)
    if args.list:
        with open(args.list, encoding="utf-8") as f:
            pairs += f.read().split()
    pairs = [pair.split("=", 1) for pair in pairs]
    if not pairs:
        print("symbols: no variant object was named")
        return 1
    problems = []
    bases = dict(pair.split("=", 1) for pair in args.bases)
    variants = {variant for variant, _ in pairs}
    for variant, path in pairs:
        if not os.path.exists(path):
            problems.append(f"{variant}: {path} is not built")
            continue
        problems += check_object(args.nm, variant, path, variants, bases)
    print(f"{len(pairs)} objects of {len(variants)} variants")
    return source_tree.report(problems, "symbols")


if __name__ == "__main__":
    sys.exit(main())
