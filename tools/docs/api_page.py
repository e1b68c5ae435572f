#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/api.md from the C headers and the examples.

Usage: api_page.py [--root FOLDER] [--check]

A part of the page is a header: its functions and types in their order, with the comments that stand before them, then the examples whose
names begin with the part's (examples/api/session.c and session_room.c are of moonlit/session.h). Every function must be called by one
example. --check writes nothing and fails where the page is not what would be written.
"""

import argparse
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lint"))

import c_headers  # noqa: E402
import source_tree  # noqa: E402

PAGE = "docs/api.md"
EXAMPLES = "examples/api"
HEAD = """# The C interface

<!-- Written by tools/docs/api_page.py from runtime/api/moonlit/*.h and examples/api/*.c. Change those, then run it again. -->

[embedding.md](embedding.md) says how an application gets the library, what it costs, and how a function gets its example. The C++ layer,
[`moonlit.hpp`](../runtime/api/moonlit.hpp), has the same functions with owners, spans and strings.
"""

# What is code in a sentence: names with an underscore, *name, $NAME, paths, "<token>", and what a comment quotes itself.
_CODE = re.compile(r"`[^`]*`|\"[^\"\s]*<[^\"\s]*\"|\*?\b[A-Za-z]\w*_\w*(?:->\w+|\.\w+)*|(?<![\w*])\*[a-z]\w*"
                   r"|\$[A-Z_]+(?:/[\w/.]*\w)?|\b_\w+\b|~/[\w/.]*\w")


def quoted(line):
    """A line with its code in quotes, where nothing is escaped, and the rest of it escaped."""
    parts, at = [], 0
    for match in _CODE.finditer(line):
        parts += [line[at:match.start()].replace("<", "&lt;"), match[0] if match[0].startswith("`") else f"`{match[0]}`"]
        at = match.end()
    return "".join(parts) + line[at:].replace("<", "&lt;")


def prose(comment):
    """A comment as Markdown: words that are code are quoted, indented lines between empty ones become a block of code."""
    lines, block = [], []

    def close():
        if block:
            lines.extend(["```c"] + [line[2:] for line in block] + ["```"])
            block.clear()

    previous = ""
    for line in comment.split("\n"):
        if line.startswith("  ") and (block or not previous.strip()):
            block.append(line)
        else:
            close()
            lines.append(("   " if re.match(r" {3,}\S", line) else "") + quoted(line.strip()))
        previous = line
    close()
    return "\n".join(lines)


def read_examples(root):
    """{file name: text}, sorted by name."""
    paths = [p for p in source_tree.files(root, (".c",)) if os.path.dirname(p) == EXAMPLES]
    return {os.path.basename(p): source_tree.read(root, p) for p in paths}


def callers(examples):
    """{function: names of the examples that call it}."""
    found = {}
    for name, text in examples.items():
        for function in set(re.findall(r"\b(moonlit_\w+)\s*\(", source_tree.without_comments(text))):
            found.setdefault(function, []).append(name)
    return found


def part_of(example, parts):
    """The part whose name the example's name begins with, the longest of them; None: there is none."""
    stem = example[:-len(".c")]
    fitting = [part for part in parts if stem == part or stem.startswith(part + "_")]
    return max(fitting, key=len, default=None)


def example_section(name, text):
    code, _, printed = text.rstrip().removesuffix("*/").rstrip().rpartition("/* Prints:\n")
    printed = re.sub(r"^ \* ?", "", printed, flags=re.MULTILINE)
    about = re.sub(r"\A/\* SPDX-License-Identifier:[^\n]*\n", "", code)
    about, _, code = about.partition("*/")
    return "\n".join([f"### {name}", "", prose(c_headers.plain("\n" + about)), "", "```c", code.strip(), "```", "", "It prints", "",
                      "```text", printed, "```", ""])


def item_section(item, calls):
    if item.kind == "text":
        return prose(item.comment) + "\n"
    code = re.sub(r"^MOONLIT_API ", "", item.code)
    code = re.sub(r"\n {13,}", "\n    ", code) if item.kind == "function" else code
    lines = [f"### {item.name}", ""] if item.name else []
    lines += ["```c", code, "```", ""]
    if item.comment:
        lines += [prose(item.comment), ""]
    if item.kind == "function":
        links = [f"[{name}](#{name.replace('.', '')})" for name in calls.get(item.name, [])]
        lines += ["Example: " + ", ".join(links), ""]
    return "\n".join(lines)


def write(root):
    """(the page, problems)."""
    problems = []
    examples = read_examples(root)
    calls = callers(examples)
    headers = c_headers.headers(root)
    parts = [os.path.basename(path)[:-len(".h")] for path in headers]
    for name, text in examples.items():
        if part_of(name, parts) is None:
            problems.append(f"{EXAMPLES}/{name}: its name begins with no part's: {', '.join(parts)}")
        if "/* Prints:\n" not in text:
            problems.append(f"{EXAMPLES}/{name}: no comment '/* Prints:' at its end says what it writes")
    umbrella = c_headers.parse(source_tree.read(root, c_headers.FOLDER + "/moonlit.h"))[0]
    page = [HEAD, prose(umbrella), ""]
    for path, part in zip(headers, parts):
        head, items = c_headers.parse(source_tree.read(root, path))
        title, _, more = re.sub(r"\s*Part of moonlit\.h, whose conventions hold here\.", "", head).partition("\n")
        page += [f"## moonlit/{part}.h", "", prose(title + ("\n" + more if more else "")), ""]
        for item in items:
            if item.kind == "function" and item.name not in calls:
                problems.append(f"{path}: no example calls {item.name}; add it to {EXAMPLES}/{part}.c or a new {part}_*.c (docs/embedding.md)")
            page.append(item_section(item, calls))
        page += [example_section(name, text) for name, text in examples.items() if part_of(name, parts) == part]
    return "\n".join(page).rstrip() + "\n", problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(HERE)))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    page, problems = write(args.root)
    path = os.path.join(args.root, PAGE)
    if not args.check:
        with open(path, "w", encoding="utf-8") as f:
            f.write(page)
    elif not os.path.exists(path) or source_tree.read(args.root, PAGE) != page:
        problems.append(f"{PAGE}: is not what the headers and examples say; tools/docs/api_page.py writes it anew")
    return source_tree.report(problems, "api page")


if __name__ == "__main__":
    sys.exit(main())
