# SPDX-License-Identifier: Apache-2.0
"""Reads runtime/api's C headers: what they declare, in order, each with the comment before it."""

import os
import re
from dataclasses import dataclass

FOLDER = "runtime/api"


@dataclass
class Item:
    kind: str  # text (a comment on its own), function, type
    name: str  # of the function or type; "" for text and for enums without a name
    comment: str  # without stars, "" if there is none
    code: str


_SPACE = re.compile(r"\s+")
_COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"#(?:[^\n\\]|\\.|\\\n)*")
_SCOPE = re.compile(r'extern\s+"C"\s*\{|\}(?=\s*(?:/\*\s*extern|\n))')
_SAME_LINE = re.compile(r"[ \t]*/\*.*?\*/", re.DOTALL)


def plain(comment):
    """A comment's lines without /*, stars and the indentation that all share."""
    first, *others = comment.split("\n")
    lines = [first.strip()] + [re.sub(r"^\s*\*(?!\w) ?", "", line) for line in others]
    return "\n".join(line.rstrip() for line in lines).strip("\n").rstrip()


def _declaration_end(text, start):
    """Behind the ; that ends the declaration at `start`, and a comment on the same line."""
    depth, at = 0, start
    while at < len(text):
        if text.startswith("/*", at):
            at = text.index("*/", at) + 2
            continue
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(text[at], 0)
        at += 1
        if text[at - 1] == ";" and depth == 0:
            break
    else:
        raise ValueError(f"a declaration has no end: {text[start:start + 60]!r}")
    behind = _SAME_LINE.match(text, at)
    return behind.end() if behind else at


def _item(comment, code):
    call = re.match(r"MOONLIT_API\b[^(]*?\b(\w+)\s*\(", code)
    if call:
        return Item("function", call[1], comment, code)
    # typedef R (*name)(...), typedef struct t {...} name, typedef struct t name, enum { ... }
    outside = re.sub(r"\{.*\}", " ", code, flags=re.DOTALL)
    name = re.match(r"typedef[^{(]*\(\*(\w+)\)", code) or re.match(r"typedef\b.*?(\w+)\s*;", outside, re.DOTALL)
    return Item("type", name[1] if name else "", comment, code)


def parse(text):
    """(what the header says of itself, [Item])."""
    head, items, pending, at = None, [], None, 0

    def flush():
        nonlocal pending
        if pending:
            items.append(Item("text", "", pending, ""))
        pending = None

    while at < len(text):
        space = _SPACE.match(text, at)
        if space:
            if space[0].count("\n") > 1:
                flush()
            at = space.end()
        elif text.startswith("/*", at):
            match = _COMMENT.match(text, at)
            words = plain(match[1])
            at = match.end()
            if head is None:
                head = re.sub(r"\A\s*SPDX-License-Identifier:[^\n]*\n*", "", words)
            elif not words.strip().startswith("extern"):
                flush()
                pending = words
        elif text[at] == "#":
            pending = None  # a comment on a macro
            at = _DIRECTIVE.match(text, at).end()
        elif _SCOPE.match(text, at):
            at = _SCOPE.match(text, at).end()
        else:
            end = _declaration_end(text, at)
            items.append(_item(pending or "", text[at:end]))
            pending, at = None, end
    flush()
    return head or "", items


def headers(root):
    """Paths of the headers below `root`: the parts in the order in which moonlit.h names them."""
    with open(os.path.join(root, FOLDER, "moonlit.h"), encoding="utf-8") as f:
        names = re.findall(r'^#include "(moonlit/\w+\.h)"', f.read(), re.MULTILINE)
    there = {"moonlit/" + n for n in os.listdir(os.path.join(root, FOLDER, "moonlit")) if n.endswith(".h")}
    if there != set(names):
        raise ValueError(f"moonlit.h includes {sorted(names)}, the folder has {sorted(there)}")
    return [f"{FOLDER}/{name}" for name in names]


def functions(root):
    """Names of all functions that the headers declare, sorted."""
    names = []
    for path in headers(root):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            names += [item.name for item in parse(f.read())[1] if item.kind == "function"]
    return sorted(names)
