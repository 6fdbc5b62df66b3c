#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Makes each change of docs/mutants.md in a copy of the headers: the test that the page names must fail.

usage: run_mutants.py [--check | --compiler CXX] [HEADER...]

With --check it only says whether each change can still be made. HEADER limits it to the changes of headers whose name
contains that text. A mutant is one program, compiled without optimisation: the test file with the mutated headers. One
that hangs is ended after 100 seconds, and counts as noticed.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `(?P<header>.+?)` \| `(?P<code>.+?)` \| (?P<becomes>`.+?`|nothing) \| `(?P<test>.+?)` \|")


def rows(text: str) -> list[dict[str, str]]:
    return [match.groupdict() for match in map(ROW.match, text.splitlines()) if match]


def mutate(header: Path, row: dict[str, str]) -> str:
    becomes = "" if row["becomes"] == "nothing" else row["becomes"][1:-1]
    text = header.read_text(encoding="utf-8")
    if text.count(row["code"]) != 1:
        raise ValueError(f"docs/mutants.md: `{row['code']}` stands {text.count(row['code'])} times in {row['header']}")
    return text.replace(row["code"], becomes)


def is_noticed(row: dict[str, str], compiler: str, work: Path) -> bool:
    include, program, source = work / "include", work / "program", ROOT / "test" / row["test"]
    for folder in (ROOT / "include", ROOT / "compat/include"):
        shutil.copytree(folder, include, dirs_exist_ok=True)
    header = include / "pooled" / row["header"]
    header.write_text(mutate(header, row), encoding="utf-8")
    flags = ["-std=c++20", "-O0", "-DNDEBUG", "-w", "-pthread"]
    flags += [f"-I{folder}" for folder in (include, ROOT, ROOT / "test", source.parent)]
    subprocess.run([compiler, *flags, str(source), "-o", str(program), "-lgtest", "-lgtest_main"], check=True)
    try:
        return subprocess.run([str(program)], capture_output=True, timeout=100, check=False).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("headers", nargs="*", metavar="HEADER")
    options = parser.parse_args(argv)
    missed = 0
    for row in rows((ROOT / "docs" / "mutants.md").read_text(encoding="utf-8")):
        if options.headers and not any(part in row["header"] for part in options.headers):
            continue
        if options.check:
            folders = (ROOT / "include/pooled", ROOT / "compat/include/pooled")
            mutate(next(path for folder in folders if (path := folder / row["header"]).exists()), row)
            continue
        with tempfile.TemporaryDirectory() as directory:
            noticed = is_noticed(row, options.compiler, Path(directory))
        missed += not noticed
        verdict = "noticed" if noticed else "NOT NOTICED"
        print(f"{row['header']}: `{row['code']}`: {verdict} by {row['test']}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
