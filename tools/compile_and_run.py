#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Compiles a program, and runs it.

usage: compile_and_run.py OUTPUT -- COMPILER ARGUMENTS...

The exit status is the compiler's when that fails, otherwise the program's.
"""

import subprocess
import sys


def main(arguments: list[str]) -> int:
    if len(arguments) < 3 or arguments[1] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    output, command = arguments[0], arguments[2:]
    compiled = subprocess.run([*command, "-o", output], check=False)
    return compiled.returncode or subprocess.run([output], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
