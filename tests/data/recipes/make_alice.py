#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/alice.txt: the first four chapters of Lewis Carroll's "Alice's Adventures in Wonderland" (1865).

    tar xzf snappy_1.1.9.orig.tar.gz snappy-1.1.9/testdata/alice29.txt     # Debian's source package "snappy"
    python3 make_alice.py snappy-1.1.9/testdata/alice29.txt alice.txt

The input is the Canterbury corpus's alice29.txt. Lines of a paragraph are joined, as people write to a model; headings and verse
(indented by three or more) stay lines of their own.
"""
import hashlib
import re
import sys

SHA256 = "7467306ee0feed4971260f3c87421154a05be571d944e9cb021a5713700c38f0"


def main(source, target):
    with open(source, "rb") as file:
        data = file.read()
    if hashlib.sha256(data).hexdigest() != SHA256:
        sys.exit(f"{source}: not the alice29.txt that this was made from")
    text = data.decode("ascii").replace("\r\n", "\n")
    text = text[text.index("CHAPTER I\n"):text.index("CHAPTER V\n")]
    out = []
    for paragraph in re.split(r"\n\s*\n", text):
        line = ""
        for words in paragraph.split("\n"):
            alone = words.startswith("   ") or re.fullmatch(r"CHAPTER [IV]+", words)
            if line and alone:
                out.append(line)
                line = ""
            line = (line + " " + words.strip()).strip()
            if alone:
                out.append(line)
                line = ""
        if line:
            out.append(line)
        out.append("")
    cleaned = "\n".join(re.sub(" +", " ", line) for line in out).strip() + "\n"
    with open(target, "w", encoding="ascii", newline="\n") as file:
        file.write(re.sub(r"\n{3,}", "\n\n", cleaned))


if __name__ == "__main__":
    main(*sys.argv[1:])
