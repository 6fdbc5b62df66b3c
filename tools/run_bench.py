#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Builds the benchmarks with every toolchain there is and hands them to the driver; what `make bench` calls.

usage: run_bench.py [-- ARGUMENTS OF `poolbench quick`]

A toolchain that is not installed is named and left out. One that is installed and can not build is an error.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Toolchain(NamedTuple):
    preset: str
    compiler: str
    flags: list[str]
    packages: str


TOOLCHAINS = [
    Toolchain("gcc", "g++", [], "g++"),
    Toolchain("clang-libstdcxx", "clang++-19", ["-stdlib=libstdc++"], "clang-19"),
    Toolchain("clang-libcxx", "clang++-19", ["-stdlib=libc++"], "clang-19 libc++-19-dev libc++abi-19-dev"),
]


def say(text: str):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def why_absent(toolchain: Toolchain) -> str | None:
    """None when the toolchain makes programs, otherwise what is missing."""
    if shutil.which(toolchain.compiler) is None:
        return f"{toolchain.compiler} is not installed"
    probe = ROOT / "build" / f"probe-{toolchain.preset}"
    command = [toolchain.compiler, *toolchain.flags, "-std=c++20", "-x", "c++", "-", "-o", str(probe)]
    program = "#include <string>\nint main(int argc, char** argv) { return std::string(argv[argc - 1]).empty(); }\n"
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=False)
    probe.unlink(missing_ok=True)
    return None if done.returncode == 0 else f"{toolchain.compiler} {' '.join(toolchain.flags)} can not link a program"


def run(*command) -> bool:
    # Progress belongs to standard error: standard output holds the tables alone.
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode == 0


def build(toolchain: Toolchain) -> Path:
    build_dir = ROOT / "build" / toolchain.preset
    # A directory that `make test` configured is taken as it is. A new one leaves the tests out, so that
    # measuring needs no package that only they use.
    configured = (build_dir / "build.ninja").is_file()
    if not configured and not run("cmake", "--preset", toolchain.preset, "-DPOOLED_BUILD_TESTS=OFF"):
        raise SystemExit(f"bench: {toolchain.preset}: configure failed")
    if not run("cmake", "--build", "--preset", toolchain.preset, "--target", "bench/all"):
        raise SystemExit(f"bench: {toolchain.preset}: build failed")
    return build_dir / "bench" / "pooled-bench"  # the driver finds the others beside it


def main(argv: list[str]) -> int:
    arguments = argv[1:] if argv[:1] == ["--"] else argv
    (ROOT / "build").mkdir(exist_ok=True)
    binaries = []
    for toolchain in TOOLCHAINS:
        absent = why_absent(toolchain)
        if absent:
            say(f"toolchain {toolchain.preset} is left out: {absent} (packages: {toolchain.packages})")
            continue
        say(f"building with {toolchain.preset}")
        binary = build(toolchain)
        binaries += ["--bin", f"{toolchain.preset}={binary.relative_to(ROOT)}"]
    if not binaries:
        say("no toolchain is installed, so there is nothing to measure")
        return 1
    command = [sys.executable, "-m", "poolbench", "quick", *binaries, *arguments]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
