#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Counts instructions and memory of the library, and writes bench/results/counts.json.

usage: measure_counts.py

tools/counts.cpp is built against the headers alone, against libpooled, and with POOLED_HARDENED=1. Instructions are
those that callgrind counts for one operation: the difference between two runs of different length, divided by the
difference in length. They do not depend on the machine's load.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILER = "g++"
FLAGS = ["-std=c++20", "-O2", "-pthread", f"-I{ROOT / 'include'}"]
WORKS = ["make_shared", "instance", "make_unique", "make_rc", "local", "replace", "burst"]
# A build -> its macros, and how src/pooled.cpp is compiled if it is.
BUILDS: dict[str, tuple[list[str], list[str] | None]] = {
    "headers": ([], None),
    "static": (["-DPOOLED_STATIC=1"], []),
    "shared": (["-DPOOLED_SHARED=1"], ["-shared", "-fPIC", "-fvisibility=hidden"]),
    "hardened": (["-DPOOLED_HARDENED=1"], None),
}
FEW, MANY = 20_000, 500_000
POOLS = 1_000


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def built(name: str, folder: Path) -> Path:
    macros, library = BUILDS[name]
    linked: list[str | Path] = []
    if library is not None:
        suffix = "so" if library else "o"
        linked = [folder / f"libpooled-{name}.{suffix}", f"-Wl,-rpath,{folder}"]
        run(COMPILER, *FLAGS, *(library or ["-c"]), ROOT / "src/pooled.cpp", "-o", linked[0])
    run(COMPILER, *FLAGS, *macros, ROOT / "tools/counts.cpp", *linked, "-o", folder / name)
    return folder / name


def instructions(program: Path, work: str) -> float:
    def count(operations: int) -> int:
        tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        return int(re.search(r"Collected : (\d+)", run(*tool, program, work, str(operations)))[1])

    return round((count(MANY) - count(FEW)) / (MANY - FEW), 1)


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as threads:
        folder = Path(name)
        programs = dict(zip(BUILDS, threads.map(lambda each: built(each, folder), BUILDS), strict=True))
        cells = [(build, work) for build in BUILDS for work in WORKS]
        counted = threads.map(lambda cell: instructions(programs[cell[0]], cell[1]), cells)
        counts = dict(zip(cells, counted, strict=True))
        found = {
            "command": "python3 tools/measure_counts.py",
            "commit": run("git", "-C", ROOT, "describe", "--always", "--abbrev=10", "--dirty=+changes").strip(),
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "compiler": run(COMPILER, "--version").splitlines()[0],
            "flags": "-O2",
            "instructions": {build: {work: counts[build, work] for work in WORKS} for build in BUILDS},
            "resident_bytes": {
                each: int(run(programs["headers"], f"{each}s", str(POOLS))) for each in ("pool", "thread")
            },
        }
    (ROOT / "bench/results/counts.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
