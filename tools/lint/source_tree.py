# SPDX-License-Identifier: Apache-2.0
"""What the lint scripts share: the list of source files, and C++ text without comments and strings."""

import os
import re
import subprocess
import sys

CODE = (".h", ".hpp", ".cc", ".inc")


def files(root, suffixes):
    """Paths below root, '/'-separated and sorted: what git knows or would add; without git, everything but build/."""
    try:
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            check=True, capture_output=True).stdout.decode().split("\0")
        # A folder inside another checkout would list that one's files.
        top = subprocess.run(["git", "-C", root, "rev-parse", "--show-prefix"], check=True, capture_output=True)
        if top.stdout.strip():
            listed = []
    except (OSError, subprocess.CalledProcessError):
        listed = []
    if not any(listed):
        listed = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if f not in ("build", ".git", ".cache")]
            listed += [os.path.relpath(os.path.join(folder, n), root).replace(os.sep, "/") for n in names]
    return sorted(p for p in set(listed) if p.endswith(suffixes) and os.path.isfile(os.path.join(root, p)))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


_LEXEME = re.compile(
    r"""//[^\n]*                          # line comment
      | /\*.*?\*/                         # block comment
      | R"(?P<tag>[^()\\ \n]*)\(.*?\)(?P=tag)"   # raw string
      | "(?:\\.|[^"\\\n])*"               # string
      | (?<![0-9a-fA-F_A-Za-z])'(?:\\.|[^'\\\n])+'   # character, not a digit separator
    """, re.VERBOSE | re.DOTALL)


def without_comments(text, keep_strings=False):
    """The same lines, with comments (and the insides of strings and characters) blanked out."""

    def blank(match):
        lexeme = match.group(0)
        if lexeme.startswith(("//", "/*")):
            return re.sub(r"[^\n]", " ", lexeme)
        return lexeme if keep_strings else '""' + "\n" * lexeme.count("\n")

    return _LEXEME.sub(blank, text)


def report(problems, what):
    """Prints the problems, one a line, and gives the exit code."""
    for problem in problems:
        print(problem)
    print(f"{what}: {len(problems)} problem(s)" if problems else f"{what}: clean")
    sys.stdout.flush()
    return 1 if problems else 0
