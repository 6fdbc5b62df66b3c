#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Builds and runs the whole suite; what `make test` calls after its set-up.

usage: run_tests.py [PRESET]...

For each preset named, or each of CMakePresets.json when none is: configure, build, ctest. Then the Python tests, then
every benchmark at tiny scale. All of it runs even when a part fails; the table at the end says what did, and so does
the exit status.
"""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "build/gcc/bench/pooled-bench"
PRESETS = ["gcc", "clang-libstdcxx", "clang-libcxx", "asan", "tsan", "checked"]


class Outcome(NamedTuple):
    name: str
    tests: int = 0
    failed: int = 0
    skipped: int = 0
    broken: str = ""  # what went wrong besides failing tests; empty when nothing did
    build_seconds: float = 0.0
    run_seconds: float = 0.0

    @property
    def ok(self):
        return self.failed == 0 and not self.broken


def run(*command) -> bool:
    print("+ " + " ".join(str(part) for part in command), flush=True)
    return (
        subprocess.run([str(part) for part in command], cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode == 0
    )


def read_junit(path: Path):
    """Tests, failures and skipped of a JUnit file, whether its root is one suite or a list of them."""
    root = ElementTree.parse(path).getroot()
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")

    def total(*keys):
        return sum(int(suite.get(key) or 0) for suite in suites for key in keys)

    return total("tests"), total("failures", "errors"), total("skipped", "disabled")


def outcome_of(name: str, junit: Path, passed: bool, build_seconds: float, started: float) -> Outcome:
    seconds = time.monotonic() - started
    if not junit.is_file():
        return Outcome(name, broken="no test ran", build_seconds=build_seconds, run_seconds=seconds)
    tests, failed, skipped = read_junit(junit)
    broken = ""
    if tests == 0:
        broken = "no test ran"
    elif not passed and failed == 0:
        broken = "the test runner failed"
    return Outcome(name, tests, failed, skipped, broken, build_seconds, seconds)


def test_preset(preset: str) -> Outcome:
    started = time.monotonic()
    if not run("cmake", "--preset", preset):
        return Outcome(preset, broken="configure failed")
    built = run("cmake", "--build", "--preset", preset)
    build_seconds = time.monotonic() - started
    if not built:
        return Outcome(preset, broken="build failed", build_seconds=build_seconds)

    junit = ROOT / "build" / preset / "junit.xml"
    junit.unlink(missing_ok=True)
    started = time.monotonic()
    passed = run("ctest", "--preset", preset, "--parallel", os.cpu_count() or 1, "--output-junit", junit)
    return outcome_of(preset, junit, passed, build_seconds, started)


def test_python() -> Outcome:
    started = time.monotonic()
    junit = ROOT / "build" / "pytest.xml"
    junit.unlink(missing_ok=True)
    # The browser's tests stay together: they share a Chromium.
    words = ["-q", "-n", "auto", "--dist", "loadgroup", f"--junitxml={junit}", "poolbench/tests", "tools/tests"]
    passed = run(sys.executable, "-m", "pytest", *words)
    return outcome_of("python", junit, passed, 0.0, started)


def test_benchmarks() -> Outcome:
    started = time.monotonic()
    if not BENCH.is_file():
        return Outcome("bench smoke", broken=f"{BENCH.relative_to(ROOT)} was not built")
    results = ROOT / "build" / "smoke.jsonl"
    results.unlink(missing_ok=True)
    words = ["--profile=smoke", f"--bin=gcc={BENCH}", f"--output={results}"]
    passed = run(sys.executable, "-m", "poolbench", "run", *words)
    return Outcome("bench smoke", 1, 0 if passed else 1, run_seconds=time.monotonic() - started)


def print_summary(outcomes: list[Outcome]):
    print(f"\n{'':18}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}{'build s':>9}{'run s':>8}")
    for each in outcomes:
        passed = each.tests - each.failed - each.skipped
        print(
            f"{each.name:18}{each.tests:7}{passed:8}{each.failed:8}{each.skipped:9}"
            f"{each.build_seconds:9.0f}{each.run_seconds:8.0f}  {each.broken}".rstrip()
        )
    tests, failed, skipped = (sum(getattr(each, key) for each in outcomes) for key in ("tests", "failed", "skipped"))
    bad = [each.name for each in outcomes if not each.ok]
    verdict = f"FAILED in {', '.join(bad)}" if bad else "PASSED"
    print(f"make test: {verdict}: {tests} tests, {tests - failed - skipped} passed, {failed} failed, {skipped} skipped")


def main(argv: list[str]) -> int:
    presets = argv or PRESETS
    if unknown := [preset for preset in presets if preset not in PRESETS]:
        print(
            f"run_tests.py: no preset is called {', '.join(unknown)}; there are {', '.join(PRESETS)}", file=sys.stderr
        )
        return 2
    outcomes = [test_preset(preset) for preset in presets]
    if "gcc" in presets:  # the benchmarks that are run are this preset's
        outcomes += [test_python(), test_benchmarks()]
    print_summary(outcomes)
    return 0 if all(each.ok for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
