#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that each mistake in a program is refused, and for the right reason.

usage: compile_fail.py SOURCE -- COMPILER FLAGS...

SOURCE has a line `// expect NAME: <regex>` for each mistake (Python's re, searched in the compiler's output). It is
compiled

  as it is                 which must succeed: a mistake is inside `#ifdef MISTAKE_NAME`, so this shows that the
                           mistakes, and nothing else in the file, are what is refused;
  with -DMISTAKE_NAME      for each NAME, which must fail, and the output must match the regex.
"""

import re
import sys
from pathlib import Path

from expect_report import result_of

EXPECT = re.compile(r"^// expect (?P<name>\w+): (?P<regex>.+)$", re.MULTILINE)


def fail(source, what, output=""):
    print(f"{source}: {what}\n{output}".rstrip())
    return 1


def check(source, command):
    text = source.read_text(encoding="utf-8")
    mistakes = {match["name"]: match["regex"] for match in EXPECT.finditer(text)}
    if not mistakes:
        return fail(source, "has no line `// expect NAME: <regex>`")
    command = [*command, "-fsyntax-only", str(source)]
    status, output = result_of(command)
    if status != 0:
        return fail(source, "does not compile without a mistake; mend it:", output)
    failures = 0
    for name, regex in mistakes.items():
        if f"MISTAKE_{name}\n" not in text:
            failures += fail(source, f"has no `#ifdef MISTAKE_{name}`")
            continue
        status, output = result_of([*command, f"-DMISTAKE_{name}"])
        if status == 0:
            failures += fail(source, f"{name} compiles, but must be refused")
        elif not re.search(regex, output):
            failures += fail(source, f"{name} is refused, but the message does not match /{regex}/:", output)
        else:
            print(f"{source}: {name} is refused as expected")
    return 1 if failures else 0


def main(argv):
    if len(argv) < 4 or argv[2] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    return check(Path(argv[1]), argv[3:])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
