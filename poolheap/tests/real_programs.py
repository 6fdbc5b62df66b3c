#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs the system's C++ programs, each with its job of compare_programs.txt, under `poolheap run`; prints a table.

usage: real_programs.py [--only REGEX] POOLHEAP LIBRARY

Typed: the share of bytes that have a type. Lost: objects that nothing reaches at the program's end; each such program
runs again under Valgrind without the pool, which must lose as many blocks or more. Seconds: the job alone, and the
job under poolheap, analysis included. The exit status is 1 if Valgrind does not confirm a loss, or if nothing ran.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import compare_programs as jobs  # noqa: E402


def run(program: str, command: str, wrapper: str) -> tuple[float, list[str]]:
    """Seconds of a job whose program is started by `wrapper`, and what was written to the files $reports.*"""
    with tempfile.TemporaryDirectory(prefix="job") as directory, tempfile.TemporaryDirectory() as reports:
        for name, text in jobs.FILES.items():
            pathlib.Path(directory, name).write_text(text)
        function = (
            f'{program}() {{ {wrapper.replace("REPORT", reports + "/$BASHPID.$RANDOM")} "$@"; }}\n' if wrapper else ""
        )
        start = time.monotonic()
        subprocess.run(
            ["/bin/bash", "-c", jobs.FUNCTIONS + function + command], cwd=directory, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - start
        return seconds, [path.read_text(errors="replace") for path in sorted(pathlib.Path(reports).iterdir())]


def is_cxx(path: str) -> bool:
    found = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
    return "libstdc++" in found.stdout or "libc++" in found.stdout


def lost_in_valgrind(path: str, program: str, command: str) -> int:
    wrapper = f"valgrind --leak-check=full --show-leak-kinds=definite --log-file=REPORT {path}"
    _, logs = run(program, command, wrapper)
    found = (re.findall(r"(?:definitely|indirectly) lost: [\d,]+ bytes in ([\d,]+) blocks", log) for log in logs)
    return sum(int(blocks.replace(",", "")) for log in found for blocks in log)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("poolheap")
    parser.add_argument("library")
    parser.add_argument("--only", default="", help="jobs whose command matches")
    given = parser.parse_args()
    print("| program | objects | KiB | typed | lost | Valgrind | seconds alone | under poolheap |\n|---|" + "---:|" * 7)
    count = failures = 0
    for program, command in jobs.read_jobs(quick=False):
        path = shutil.which(program)
        if path is None or not re.search(given.only, f"{program}: {command}") or not is_cxx(path):
            continue
        tool = f"{pathlib.Path(given.poolheap).resolve()} run --json --output REPORT"
        alone, _ = run(program, command, "")
        seconds, texts = run(program, command, f"{tool} --preload {pathlib.Path(given.library).resolve()} -- {path}")
        reports = [json.loads(text) for text in texts if text]
        total = {key: sum(report[key] for report in reports) for key in ("objects", "bytes", "unnamed_bytes")}
        if not total["objects"]:
            print(f"| {program} | 0 | | | | | {alone:.1f} | {seconds:.1f} |", flush=True)
            continue
        lost = sum(report["leaks"]["objects"] for report in reports)
        confirmed = lost_in_valgrind(path, program, command) if lost else 0
        failures += confirmed < lost
        count += 1
        typed = 100 - 100 * total["unnamed_bytes"] / total["bytes"]
        print(
            f"| {program} | {total['objects']:,} | {total['bytes'] / 1024:,.0f} | {typed:.0f} % | {lost:,} | "
            f"{f'{confirmed:,}' if lost else ''} | {alone:.1f} | {seconds:.1f} |",
            flush=True,
        )
    return 0 if count and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
