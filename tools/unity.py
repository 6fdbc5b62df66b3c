#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes one translation unit out of several test files, so that what they share is compiled once.

usage: unity.py OUTPUT SOURCE...
       unity.py --alone SOURCE...    lists those that must be compiled alone

Most of a test's compile time goes into headers and into instantiations of the library that its neighbours need, too.
CMake's UNITY_BUILD cannot be used: test files define the same names in their unnamed namespaces. Here each unnamed
namespace is put inside a namespace named after its file; nothing else changes. `#line` keeps the compiler's messages
and GoogleTest's failures at the file and line that a person edits.

A file is compiled alone when it defines a macro before its first include, or when its unnamed namespaces are not
written as clang-format does it: `namespace {` and `}  // namespace`, each on a line of its own.
"""

import re
import sys
from pathlib import Path

OPEN = "namespace {"
CLOSE = "}  // namespace"
BLANK = re.compile(r"\s*(//.*)?$")


def why_alone(source: Path, lines: list[str]) -> str:
    """Why the file cannot share a translation unit; empty when it can."""
    directives = [line for line in lines if line.startswith(("#include", "#define"))]
    if directives and directives[0].startswith("#define"):
        return f"{source} defines a macro before its first include"
    if lines.count(OPEN) != lines.count(CLOSE):
        return f"{source}: not every line `{OPEN}` has its line `{CLOSE}`"
    return ""


def wrapped(source: Path) -> str:
    """The file's text with its unnamed namespaces inside a named one; the number of lines stays."""
    name = "unit_" + re.sub(r"\W", "_", source.stem)
    lines = source.read_text(encoding="utf-8").splitlines()
    if why := why_alone(source, lines):
        raise ValueError(f"{why}: it is compiled alone now; run cmake again")
    out = [f'#line 1 "{source.as_posix()}"']
    for number, line in enumerate(lines):
        if line == OPEN:
            line = f"namespace {name} {{ {OPEN}"
        elif line == CLOSE:
            # Code behind the namespace goes on seeing the names in it.
            followed = any(not BLANK.match(later) for later in lines[number + 1 :])
            line = f"}} }} using namespace {name};" if followed else "} }"
        out.append(line)
    return "\n".join(out) + "\n"


def main(argv: list[str]) -> int:
    if len(argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    sources = [Path(arg) for arg in argv[2:]]
    try:
        if argv[1] == "--alone":
            for source in sources:
                if why_alone(source, source.read_text(encoding="utf-8").splitlines()):
                    print(source.as_posix())
            return 0
        text = "".join(wrapped(source) for source in sources)
        Path(argv[1]).parent.mkdir(parents=True, exist_ok=True)
        Path(argv[1]).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
