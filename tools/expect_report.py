#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that a program ends with a report, or without one.

usage: expect_report.py REGEX -- COMMAND...
       expect_report.py --none -- COMMAND...

With REGEX (Python's re, searched in all that the command writes), the command must fail and its output must match. With
--none it must succeed and write nothing.
"""

import os
import re
import subprocess
import sys


def result_of(command: list[str], **how) -> tuple[int, str]:
    """Its exit status, and all that it writes."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    done = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, check=False, **streams, **how)
    return done.returncode, done.stdout


def problem_of(expected: str, status: int, output: str) -> str:
    """Describes the problem; empty if there is none."""
    if expected == "--none":
        return "reports something, but is correct" if status != 0 or output else ""
    if status == 0:
        return "ends well, but must be reported"
    if not re.search(expected, output):
        return f"is reported, but not as /{expected}/"
    return ""


def main(argv: list[str]) -> int:
    if len(argv) < 4 or argv[2] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    status, output = result_of(argv[3:])
    problem = problem_of(argv[1], status, output)
    print(f"{argv[-1]}: {problem}\n{output}" if problem else f"{argv[-1]}: as expected")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
