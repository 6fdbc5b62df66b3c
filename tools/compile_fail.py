#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that a program does not compile, and for the right reason.

usage: compile_fail.py SOURCE -- COMPILER FLAGS...

The first line of SOURCE is `// expect: <regex>` (Python's re, searched in the compiler's output). Two
compilations are made:

  as it is               must fail, and its output must match the regex;
  with -DPOOLED_CONTROL  must succeed: the program's mistake is inside `#ifndef POOLED_CONTROL`, so this
                         shows that the mistake, and nothing else in the file, is what is refused.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

EXPECT = re.compile(r"^// expect: (?P<regex>.+)$")


def fail(source, what, output=""):
    print(f"{source}: {what}")
    if output:
        print(output)
    return 1


def compiled(command, source, *extra):
    done = subprocess.run(
        [*command, *extra, "-fsyntax-only", str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
    return done.returncode == 0, done.stdout


def check(source, command):
    text = source.read_text(encoding="utf-8")
    first = EXPECT.match(text.split("\n", 1)[0])
    if not first:
        return fail(source, "the first line must be `// expect: <regex>`")
    if "POOLED_CONTROL" not in text:
        return fail(
            source,
            "has no `#ifndef POOLED_CONTROL` around its mistake, so nothing shows that the "
            "mistake is what the compiler refuses",
        )

    ok, output = compiled(command, source, "-DPOOLED_CONTROL")
    if not ok:
        return fail(source, "does not compile with -DPOOLED_CONTROL, without its mistake; mend it:", output)
    ok, output = compiled(command, source)
    if ok:
        return fail(source, "compiles, but must be refused")
    if not re.search(first["regex"], output):
        return fail(source, f"is refused, but the message does not match /{first['regex']}/:", output)
    print(f"{source}: refused as expected")
    return 0


def main(argv):
    if len(argv) < 4 or argv[2] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    return check(Path(argv[1]), argv[3:])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
