#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Compares what is lost in programs/cycles.cpp by poolheap, LeakSanitizer and Valgrind; prints a table.

usage: leak_checkers.py POOLHEAP LIBRARY

Blocks of the program that nothing reaches at its end, for each compiler, standard library and optimization that is
installed. LeakSanitizer's are direct and indirect leaks, Valgrind's are definite, indirect and possible losses.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).parent / "programs" / "cycles.cpp"


def run(*command: str) -> str:
    """What a command wrote to standard error; its standard input is empty, which ends the program."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, errors="replace", check=False)  # fmt: skip
    return done.stderr


def number(pattern: str, text: str) -> int:
    return sum(int(found.replace(",", "")) for found in re.findall(pattern, text))


def main() -> int:
    poolheap, library = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:])
    print("| program | poolheap | LeakSanitizer | Valgrind |\n|---|---:|---:|---:|")
    for compiler, flags in (("g++", ""), ("clang++-19", "-stdlib=libc++")):
        for level in ("-O0", "-O2"):
            if shutil.which(compiler) is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                plain, checked, report = (f"{folder}/{name}" for name in ("plain", "checked", "report"))
                command = [compiler, "-std=c++20", "-g", "-pthread", level, *flags.split(), str(SOURCE), "-o"]
                subprocess.run([*command, plain], check=True)
                subprocess.run([*command, checked, "-fsanitize=leak"], check=True)
                run(poolheap, "run", "--json", "--output", report, "--preload", library, "--", plain)
                ours = json.loads(pathlib.Path(report).read_text())["leaks"]["objects"]
                leak = number(r"leaked in ([\d,]+) allocation", run(checked))
                lost = number(r"(?:definitely|indirectly|possibly) lost: [\d,]+ bytes in ([\d,]+) blocks",
                              run("valgrind", "--leak-check=full", plain))  # fmt: skip
                print(f"| {compiler} {flags} {level} | {ours:,} | {leak:,} | {lost:,} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
