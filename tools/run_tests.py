#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Builds and runs the whole suite; what `make test` calls after its set-up.

usage: run_tests.py [PRESET[:LABEL[,LABEL]...]]...

For each preset named, or each of CMakePresets.json but windows-clang when none is: configure, build, ctest. Those of
other processors and systems are skipped where their compiler or emulator is missing. With labels, only the tests that
have one of them are built and run; test/CMakeLists.txt lists them. Two go with the preset gcc: python, the Python
tests, and benchmarks: every benchmark at tiny scale. All of it runs even when a part fails; the table at the end says
what did, with the processor seconds that each part took, and so does the exit status.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BENCH_PRESET = "bench-smoke"
BENCH = ROOT / "build" / BENCH_PRESET / "bench/pooled-bench"
# Of other processors and systems: the tests that have to do with these. Under emulation, which is ten times as slow,
# and on Wine without those that fork: qemu 7.2 ends a forked child that starts a thread, and Windows has none. For
# each, what it needs: one of the commands of each group.
QEMU_PRESETS = ["aarch64", "riscv64"]
WINE = ["wine64", "wine", "/usr/lib/wine/wine64"]
ZIG = ["zig", f"{sysconfig.get_path('purelib')}/ziglang/zig"]
CROSS_NEEDS = {
    **{name: [[f"{name}-linux-gnu-g++", f"{name}-linux-gnu-g++-12"], [f"qemu-{name}"]] for name in QEMU_PRESETS},
    "windows": [["x86_64-w64-mingw32-g++-posix", "x86_64-w64-mingw32-g++"], WINE],
    "windows-clang": [ZIG, WINE],
    "musl": [ZIG],
}
CROSS_PRESETS = list(CROSS_NEEDS)
PRESETS = ["gcc", "clang-libstdcxx", "clang-libcxx", "asan", "gcc-asan", "tsan", "checked", *CROSS_PRESETS]
# For minutes: the same tests as windows has, with a second compiler.
ONLY_WHEN_NAMED = ["windows-clang"]
# Label of a test -> what has to be built for it.
TARGETS = {
    "compile_fail": ["compile_fail_headers"],
    "example": ["examples/all"],
    "configuration": [],
    "poolheap": ["poolheap", "poolheap-tests"],
    # Installed from the build directory.
    "consumer": [f"pooled_{each}" for each in ("shared", "static", "new_delete", "new", "malloc", "malloc_preload")]
    + ["poolheap"],
}
OF_TESTS = ["unit", "compat", "behaviour", "hardened", "stress", "fuzz", "reports", "model"]
OF_TESTS += ["plugins", "fibres", "new_delete", "malloc"]
TARGETS |= {label: [f"tests-{label}"] for label in OF_TESTS}
MOST_SAID = 400  # characters of a failure that the summary repeats: CI shows the end of its output alone
OF_GCC = ["python", "benchmarks"]  # labels of what ctest does not run


class Outcome(NamedTuple):
    name: str
    tests: int = 0
    failed: int = 0
    skipped: int = 0
    broken: str = ""  # what went wrong besides failing tests; empty when nothing did
    names: tuple[str, ...] = ()  # of the tests that failed, with the beginning of what each said
    build: tuple[float, float] = (0.0, 0.0)  # seconds, and processor seconds
    run: tuple[float, float] = (0.0, 0.0)

    @property
    def ok(self):
        return self.failed == 0 and not self.broken


class Spent(threading.local):
    cpu = 0.0  # processor seconds of the commands that this thread has run


_spent = Spent()


def stopwatch() -> Callable[[], tuple[float, float]]:
    """What tells the seconds, and the processor seconds of the commands of this thread, since now."""
    began, cpu = time.monotonic(), _spent.cpu
    return lambda: (time.monotonic() - began, _spent.cpu - cpu)


def run(*command) -> bool:
    print("+ " + " ".join(str(part) for part in command), flush=True)
    child = subprocess.Popen([str(part) for part in command], cwd=ROOT, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    _spent.cpu += usage.ru_utime + usage.ru_stime
    return child.returncode == 0


def read_junit(path: Path) -> tuple[int, int, int, tuple[str, ...]]:
    """Tests, failures, skipped and the names of the failures of a JUnit file, whether its root is one suite or a list
    of them."""
    root = ElementTree.parse(path).getroot()
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")

    def total(*keys):
        return sum(int(suite.get(key) or 0) for suite in suites for key in keys)

    failed = [(case, *case.findall("failure"), *case.findall("error")) for case in root.iter("testcase")]
    names = (
        " ".join([case.get("name", ""), *(each.get("message", "") for each in said)]) for case, *said in failed if said
    )
    return (
        total("tests"),
        total("failures", "errors"),
        total("skipped", "disabled"),
        tuple(name[:MOST_SAID] for name in names),
    )


def outcome_of(name: str, junit: Path, passed: bool, parts: Iterable[Path] = (), **times) -> Outcome:
    """`parts`: what the executables wrote that the runner counts as one test each. `times`: build and run."""
    if not junit.is_file():
        return Outcome(name, broken="no test ran", **times)
    tests, failed, skipped, names = read_junit(junit)
    for part in parts:
        more = read_junit(part)
        # A failure in it is one of the runner's already.
        tests, failed, skipped = tests + more[0] - 1, failed + max(more[1] - 1, 0), skipped + more[2]
        names += more[3]
    broken = "no test ran" if tests == 0 else "the test runner failed" if not passed and failed == 0 else ""
    return Outcome(name, tests, failed, skipped, broken, names, **times)


def build_preset(name: str, preset: str, targets: list[str]) -> Outcome:
    """Configures and builds; with no targets, those of the build preset."""
    watch = stopwatch()
    broken = ""
    if not run("cmake", "--preset", preset):
        broken = "configure failed"
    elif not run("cmake", "--build", "--preset", preset, *(["--target", *targets] if targets else [])):
        broken = "build failed"
    return Outcome(name, broken=broken, build=watch())


def missing_for_cross(preset: str) -> str:
    """What of the cross compiler and the emulator is not installed; empty when nothing is missing."""
    return " and ".join(names[0] for names in CROSS_NEEDS[preset] if not any(map(shutil.which, names)))


def build_tests(preset: str, labels: list[str]) -> Outcome:
    """Builds what the tests with these labels need."""
    name = ":".join([preset, ",".join(labels)]) if labels else preset
    if preset in CROSS_PRESETS and (missing := missing_for_cross(preset)):
        print(f"{preset}: skipped, {missing} is not installed", flush=True)
        return Outcome(name, skipped=1, tests=1)
    return build_preset(name, preset, [target for label in labels for target in TARGETS[label]])


def test_preset(built: Outcome, preset: str, labels: list[str]) -> Outcome:
    if built.broken or built.skipped:
        return built
    watch = stopwatch()
    junit = ROOT / "build" / preset / "junit.xml"
    junit.unlink(missing_ok=True)
    results = ROOT / "build" / preset / "test" / "results"
    shutil.rmtree(results, ignore_errors=True)
    words = ["--parallel", os.cpu_count() or 1, "--output-junit", junit]
    if labels:
        words += ["--label-regex", f"^({'|'.join(labels)})$"]
    passed = run("ctest", "--preset", preset, *words)
    return outcome_of(built.name, junit, passed, results.glob("*.xml"), build=built.build, run=watch())


def test_python() -> Outcome:
    watch = stopwatch()
    junit = ROOT / "build" / "pytest.xml"
    junit.unlink(missing_ok=True)
    # Tests of a file stay together: they share a browser, a wheel, a compiled program. Groups (--dist loadgroup)
    # have no effect with pytest 9.2 and pytest-xdist 3.8. In the order of the names: xdist's, by the number of tests,
    # has the file with the longest one, test_wheel.py, at the end.
    words = ["-q", "-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", f"--junitxml={junit}"]
    words += ["poolbench/tests", "poolprofile/tests", "tools/tests"]
    passed = run(sys.executable, "-m", "pytest", *words)
    return outcome_of("python", junit, passed, run=watch())


def test_benchmarks(built: Outcome) -> Outcome:
    if built.broken:
        return built
    watch = stopwatch()
    results = ROOT / "build" / "smoke.jsonl"
    results.unlink(missing_ok=True)
    words = ["--profile=smoke", f"--bin=gcc={BENCH}", f"--output={results}"]
    passed = run(sys.executable, "-m", "poolbench", "run", *words)
    return built._replace(tests=1, failed=0 if passed else 1, run=watch())


def print_summary(outcomes: list[Outcome]):
    width = 2 + max(len(each.name) for each in outcomes)
    print(f"\n{'':{width}}{'':32}{'build':>15}{'run':>15}")
    print(f"{'':{width}}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}" + f"{'s':>8}{'cpu s':>7}" * 2)
    for each in outcomes:
        passed = each.tests - each.failed - each.skipped
        print(
            f"{each.name:{width}}{each.tests:7}{passed:8}{each.failed:8}{each.skipped:9}"
            f"{each.build[0]:8.0f}{each.build[1]:7.0f}{each.run[0]:8.0f}{each.run[1]:7.0f}  {each.broken}".rstrip()
        )
    tests, failed, skipped = (sum(getattr(each, key) for each in outcomes) for key in ("tests", "failed", "skipped"))
    bad = [each.name for each in outcomes if not each.ok]
    verdict = f"FAILED in {', '.join(bad)}" if bad else "PASSED"
    for each in outcomes:
        for name in each.names:
            print(f"failed: {each.name}: {name}")
    print(f"make test: {verdict}: {tests} tests, {tests - failed - skipped} passed, {failed} failed, {skipped} skipped")


def main(argv: list[str]) -> int:
    chosen = []
    for word in argv or [each for each in PRESETS if each not in ONLY_WHEN_NAMED]:
        preset, _, labels = word.partition(":")
        labels = labels.split(",") if labels else []
        if preset not in PRESETS:
            print(f"run_tests.py: no preset is called {preset}; there are {', '.join(PRESETS)}", file=sys.stderr)
            return 2
        known = [*TARGETS, *(OF_GCC if preset == "gcc" else [])]
        if unknown := [label for label in labels if label not in known]:
            print(
                f"run_tests.py: no label is called {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr
            )
            return 2
        chosen.append((preset, labels))
    # Where an image forbids Python its cache, each of the many programs that the tests start would compile SciPy anew.
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / "build/pycache")
    others = {label for preset, labels in chosen if preset == "gcc" for label in labels or OF_GCC if label in OF_GCC}
    with_ctest = [(preset, [label for label in labels if label in TARGETS], labels) for preset, labels in chosen]
    # The tests of one part run while the next one is built: each alone leaves a core idle at its end. The Python tests
    # run beside nothing: those of poolprofile measure.
    with ThreadPoolExecutor(1) as tests:
        parts = []
        if "benchmarks" in others:
            parts += [tests.submit(test_benchmarks, build_preset("bench smoke", BENCH_PRESET, []))]
        if "python" in others:
            parts += [tests.submit(test_python)]
            wait(parts)
        for preset, kept, labels in with_ctest:
            if kept or not labels:
                parts += [tests.submit(test_preset, build_tests(preset, kept), preset, kept)]
        outcomes = [part.result() for part in parts]
    print_summary(outcomes)
    return 0 if all(each.ok for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
